"""A whole service on free ports, with an embedded chain that seals each transaction at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from florin_server.boot.service import Service
from florin_server.config import EmbeddedChain, EmbeddedSolana, LimitSettings, Settings
from florin_server.domain.conditions import ConditionName

from tests.support import postgres
from tests.support.chains import EvmChains, OwnChain
from tests.support.until import until

# a clock that stands still gives nothing back
NO_LIMITS = LimitSettings(
    **{
        name: 0
        for name in LimitSettings.model_fields
        if name.startswith("held_") or name.endswith(("_per_minute", "_per_hour"))
    }
)

# most tests need one chain only
NO_SOLANA = EmbeddedSolana(enabled=False)


def settings(
    home: Path,
    *,
    block_interval_s: float = 0,
    confirmations: int = 1,
    limits: LimitSettings = NO_LIMITS,
    solana: EmbeddedSolana = NO_SOLANA,
    **more: Any,
):
    return Settings(
        home=home,
        http_port=0,
        grpc_port=0,
        limits=limits,
        embedded=EmbeddedChain(block_interval_s=block_interval_s, confirmations=confirmations),
        embedded_solana=solana,
        **{**postgres.chosen_for(home), **more},
    )


@asynccontextmanager
async def running(
    home: Path,
    *,
    clock: Any = None,
    evm: EvmChains | None = None,
    fault: Callable[[str], None] | None = None,
    traces: Any = None,
    **more: Any,
) -> AsyncIterator[Service]:
    evm = evm or OwnChain()
    chosen = evm.settings(settings(home, **more), clock)
    service = await Service.start(chosen, clock=clock, fault=fault, traces=traces)
    try:
        await evm.join(service)
        await begun(service)
        yield service
    finally:
        await service.stop()


async def begun(service: Service) -> None:
    """Returns once the books hold what the wallets began with and workers have made their first
    turn, on every chain that answers.

    Until then rows are written that no test asked for, and the system's status says "starting".
    """
    app = service.app
    answering = {rail.chain_id for rail in app.rails.values() if rail.assets}

    def waits() -> set[str]:
        starting = {
            chain_id
            for workers, name in (
                (app.settlers, ConditionName.SETTLEMENT_STARTING),
                (app.payout_workers, ConditionName.PAYOUTS_STARTING),
            )
            for chain_id, worker in workers.items()
            if worker.health().has(name)
        }
        unbegun = {chain_id for chain_id, state in app.chains.items() if not state.books_begun}
        return answering & (unbegun | starting)

    await until(waits, set())


async def held(service: Service, count: int) -> None:
    """Returns once so many answers wait for a change, of which nothing tells from outside."""
    await until(lambda: service.app.hub.watchers, count)
