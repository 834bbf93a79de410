"""How the installation is doing, in numbers: what monitoring reads every few seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from florin_server.domain.conditions import Condition
from florin_server.flows.app import App, Wallet
from florin_server.flows.limits.sharing import Sharing
from florin_server.flows.operator import executors, health, system
from florin_server.flows.operator.executors import Executor
from florin_server.flows.operator.system import Chain
from florin_server.store.operator import backlog
from florin_server.store.operator.backlog import Backlog, Heap
from florin_server.store.webhooks import deliveries
from florin_server.store.webhooks.deliveries import Figures as Webhooks

__all__ = ["Backlog", "Books", "Figures", "Heap", "Shared", "Webhooks", "read"]


@dataclass(frozen=True, slots=True)
class Books:
    """When the wallets of a chain were compared with their books last, and what they held.

    `compared_at_us` is 0 if they never were.
    """

    chain_id: str
    compared_at_us: int
    wallets: Sequence[Wallet]


@dataclass(frozen=True, slots=True)
class Shared:
    """How limits are kept together with other processes, this one among them.

    `budgets` of this one are in the store; it heard of the others `age_us` ago.
    """

    processes: int
    budgets: int
    age_us: int


@dataclass(frozen=True, slots=True)
class Figures:
    """What is known at one moment; counts of streams, calls and writes are this process's.

    `held` counts held answers by whose they are, `writes_queued` those that wait to be durable,
    `tasks` those of the event loop; `shared` is empty where no other process can have the store.
    `listening` tells that changes of other processes are heard of at once. Without `store_up` what
    is read from the store is empty.
    """

    now_us: int
    chains: Sequence[Chain]
    executors: Sequence[Executor]
    backlog: Backlog
    blocked: int
    watched_payments: int
    watched_payouts: int
    keyed_calls: int
    writes_queued: int
    tasks: int
    listening: bool
    machine_ahead_us: int
    held: Mapping[str, int]
    conditions: Sequence[Condition]  # of no chain in particular
    webhooks: Webhooks
    books: Sequence[Books] = field(default_factory=tuple)
    shared: Sequence[Shared] = field(default_factory=tuple)
    store_up: bool = True


async def read(app: App, keyed_calls: int) -> Figures:
    """Read them within seconds, the store or not; `keyed_calls` are those that are under a key."""
    status = await system.status(app)
    stored = await system.within(app, _stored(app)) if status.is_whole else None
    return Figures(
        now_us=app.clock.now_us(),
        chains=status.chains,
        executors=stored.executors if stored else (),
        backlog=stored.backlog if stored else Backlog(0, (), ()),
        blocked=stored.blocked if stored else 0,
        watched_payments=app.hub.watchers,
        watched_payouts=app.payouts.followers,
        keyed_calls=keyed_calls,
        writes_queued=app.store.queued,
        tasks=len(asyncio.all_tasks()),
        listening=app.hints.listening,
        machine_ahead_us=health.machine_ahead_us(app.clock),
        held={str(one): count for one, count in app.limits.held.open.items()},
        conditions=status.conditions,
        webhooks=stored.webhooks if stored else Webhooks(0, None, 0),
        books=[
            Books(chain_id, state.compared_at_us, state.wallets)
            for chain_id, state in app.chains.items()
        ],
        shared=() if app.sharing is None else (_shared(app.sharing, app.clock.steady_us()),),
        store_up=stored is not None,
    )


class _Stored(NamedTuple):
    executors: Sequence[Executor]
    backlog: Backlog
    blocked: int
    webhooks: Webhooks


async def _stored(app: App) -> _Stored:
    return _Stored(
        executors=await executors.listed(app),
        # as many rows as there are open payments
        backlog=await app.store.survey(backlog.backlog()),
        blocked=await system.held_payments(app),
        webhooks=await app.store.survey(deliveries.figures()),
    )


def _shared(sharing: Sharing, now_us: int) -> Shared:
    return Shared(sharing.processes, sharing.rows, max(0, now_us - sharing.exchanged_us))
