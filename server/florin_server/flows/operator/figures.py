"""How the installation is doing, in numbers: what monitoring reads every few seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
    `listening` tells that changes of other processes are heard of at once.
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
    held: Mapping[str, int]
    conditions: Sequence[Condition]  # of no chain in particular
    webhooks: Webhooks
    books: Sequence[Books] = field(default_factory=tuple)
    shared: Sequence[Shared] = field(default_factory=tuple)


async def read(app: App, keyed_calls: int) -> Figures:
    """Reads them; `keyed_calls` are those that are under a key."""
    return Figures(
        now_us=app.clock.now_us(),
        chains=await system.chains(app),
        executors=await executors.listed(app),
        # as many rows as there are open payments
        backlog=await app.store.survey(backlog.backlog()),
        blocked=await system.held_payments(app),
        watched_payments=app.hub.watchers,
        watched_payouts=app.payouts.followers,
        keyed_calls=keyed_calls,
        writes_queued=app.store.queued,
        tasks=len(asyncio.all_tasks()),
        listening=app.hints.listening,
        held={str(one): count for one, count in app.limits.held.open.items()},
        conditions=await health.of_installation(app),
        webhooks=await app.store.survey(deliveries.figures()),
        books=[
            Books(chain_id, state.compared_at_us, state.wallets)
            for chain_id, state in app.chains.items()
        ],
        shared=() if app.sharing is None else (_shared(app.sharing, app.clock.now_us()),),
    )


def _shared(sharing: Sharing, now_us: int) -> Shared:
    return Shared(sharing.processes, sharing.rows, max(0, now_us - sharing.exchanged_us))
