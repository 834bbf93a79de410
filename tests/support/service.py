"""A whole service on free ports, with an embedded chain that seals each transaction at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from florin_server.app.service import FlorinService
from florin_server.domain.conditions import ConditionName
from florin_server.settings import (
    EmbeddedChainSettings,
    EmbeddedSolanaSettings,
    LimitSettings,
    Settings,
)

from tests.support import postgres
from tests.support.chains import EmbeddedChains, EvmChains
from tests.support.health import has_condition
from tests.support.until import wait_until

# a stopped clock never refills a limit
NO_LIMITS = LimitSettings(
    **{
        name: 0
        for name in LimitSettings.model_fields
        if name.startswith("held_") or name.endswith(("_per_minute", "_per_hour"))
    }
)

# most tests need one chain only
NO_SOLANA = EmbeddedSolanaSettings(enabled=False)


def make_settings(
    home: Path,
    *,
    block_interval_s: float = 0,
    confirmations: int = 1,
    limits: LimitSettings = NO_LIMITS,
    solana: EmbeddedSolanaSettings = NO_SOLANA,
    **more: Any,
):
    return Settings(
        home=home,
        http_port=0,
        grpc_port=0,
        limits=limits,
        embedded=EmbeddedChainSettings(
            block_interval_s=block_interval_s, confirmations=confirmations
        ),
        embedded_solana=solana,
        **{**postgres.make_settings(home), **more},
    )


@asynccontextmanager
async def run_service(
    home: Path,
    *,
    clock: Any = None,
    evm: EvmChains | None = None,
    fault: Callable[[str], None] | None = None,
    traces: Any = None,
    **more: Any,
) -> AsyncIterator[FlorinService]:
    evm = evm or EmbeddedChains()
    chosen = evm.settings(make_settings(home, **more), clock)
    service = await FlorinService.start(chosen, clock=clock, fault_hook=fault, tracer=traces)
    try:
        await evm.join(service)
        await wait_started(service)
        yield service
    finally:
        await service.stop()


async def wait_started(service: FlorinService) -> None:
    """Return once the books have the wallets' first balances and workers ended their first turn.

    This covers every chain that answers. Until then, workers write rows that no test caused, and
    the system's status is "starting".
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
            if has_condition(worker.health(), name)
        }
        unbegun = {
            chain_id for chain_id, state in app.chains.items() if not state.has_opening_balances
        }
        return answering & (unbegun | starting)

    await wait_until(waits, set())


async def wait_open_responses(service: FlorinService, count: int) -> None:
    """Return once so many answers wait for a change, which no API reports."""
    await wait_until(lambda: service.app.notifier.payments.watcher_count, count)
