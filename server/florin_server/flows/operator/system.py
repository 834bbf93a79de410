"""How the installation is doing."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from florin_server.domain.conditions import USUAL, Condition
from florin_server.domain.errors import FlorinError
from florin_server.domain.health import Health, describe
from florin_server.flows.app import App
from florin_server.flows.limits import gas_budgets
from florin_server.flows.operator import conditions
from florin_server.flows.operator.conditions import BySubject
from florin_server.flows.operator.health import EVERYTHING, WITHOUT_STORE, Sight
from florin_server.flows.payouts import held_money
from florin_server.rails.types import NodeState
from florin_server.store.engine.query import StoreError
from florin_server.store.settlement import chain_txs

T = TypeVar("T")
# what Prometheus and `florin doctor` wait for has to be there within ten seconds
_PATIENCE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class GasStatus:
    """Units of gas that relayers lost in this hour, and the payments that stand because of it.

    `paused` wait for a budget, `given_up` are not sent any more.
    """

    failed: int
    opened: int
    paused_payers: int
    paused: int
    given_up: int


NO_GAS = GasStatus(0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Chain:
    """How one chain is doing; `problem` tells to people what is wrong, empty if nothing is.

    That another process works there is no problem.

    `open_payments`, `remembered_events` and `turns` are its settler's. `block_s` are the seconds
    between its blocks or slots as measured, `settle_s` the median seconds from confirm to final of
    its newest payments; None before they are known.
    """

    chain_id: str
    head: int
    open_transactions: int
    relayer: str
    problem: str
    conditions: Sequence[Condition]
    nodes: Sequence[NodeState]
    gas: GasStatus
    open_payments: int
    remembered_events: int
    turns: int
    block_s: float | None = None
    settle_s: float | None = None


async def chains(app: App) -> list[Chain]:
    """Every enabled chain."""
    return await _chains(app, await conditions.answer(app), EVERYTHING)


@dataclass(frozen=True, slots=True)
class Status:
    """How the installation is doing. While the store is away only what the process knows itself."""

    chains: Sequence[Chain]
    conditions: Sequence[Condition]
    processing: int
    held_payments: int
    is_whole: bool


async def status(app: App) -> Status:
    """Return how the installation is doing, also while its store is away."""
    found = await within(app, _status(app, EVERYTHING))
    return found or await _status(app, WITHOUT_STORE)


async def within(app: App, work: Coroutine[Any, Any, T]) -> T | None:
    """Return what reads of the store come to; None if it is away, after a few seconds at most.

    A read is not cancelled, which would keep its connection from the next one: it ends by itself.
    """
    if app.store_health.problem:
        work.close()
        return None
    reading = asyncio.create_task(work)
    try:
        done, _ = await asyncio.wait([reading], timeout=_PATIENCE_S)
        return await reading if done else None
    except (StoreError, FlorinError):
        return None
    finally:
        reading.add_done_callback(_forget)


async def _status(app: App, sight: Sight) -> Status:
    found = await conditions.answer(app, sight)
    return Status(
        await _chains(app, found, sight),
        found[conditions.INSTALLATION],
        await processing(app) if sight.store else 0,
        await held_payments(app) if sight.store else 0,
        sight.store,
    )


async def _chains(app: App, by_subject: BySubject, sight: Sight) -> list[Chain]:
    found = []
    for chain_id, rail in app.rails.items():
        settling = app.settlers[chain_id].health()
        stated = by_subject[chain_id]
        found.append(
            Chain(
                chain_id=chain_id,
                head=settling.head,
                open_transactions=settling.open_transactions,
                relayer=", ".join(rail.senders),
                problem=describe(one for one in stated if one.name not in USUAL),
                conditions=stated,
                nodes=rail.nodes.states(),
                gas=await _gas(app, chain_id, settling) if sight.store else NO_GAS,
                open_payments=settling.open_payments,
                remembered_events=settling.remembered_events,
                turns=settling.turns,
                block_s=rail.pace.block_s,
                settle_s=app.chains[chain_id].times.median_s,
            )
        )
    return found


def _forget(reading: asyncio.Task[Any]) -> None:
    """Retrieve the error of a read that nobody waits for any more."""
    if not reading.cancelled():
        reading.exception()


async def _gas(app: App, chain_id: str, settling: Health) -> GasStatus:
    used = await gas_budgets.usage(app, chain_id)
    return GasStatus(used.failed, used.opened, len(used.payers), settling.paused, settling.given_up)


async def processing(app: App) -> int:
    """How many payments wait for evidence."""
    return await app.store.read(chain_txs.count_unsettled())


async def held_payments(app: App) -> int:
    """How many payments of blocked payers wait for the operator's verdict."""
    return await held_money.waiting(app)
