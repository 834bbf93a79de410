"""What one process does in the background: it settles, pays out, keeps books and tidies up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from florin_server import logs
from florin_server.boot import webhooks
from florin_server.flows.app import App, Core
from florin_server.store.engine.query import StoreError
from florin_server.store.payouts import payouts
from florin_server.workers.hints import jobs as hints
from florin_server.workers.housekeeping.expire import expire, forget_data, forget_gas, forget_keys
from florin_server.workers.housekeeping.keep_books import BookKeeper
from florin_server.workers.housekeeping.prices import follow_prices
from florin_server.workers.icons.fetch_icons import fetch_icons, forget_icons
from florin_server.workers.payouts.pay_out import PayoutWorker
from florin_server.workers.settlement.onlooker import Onlooker
from florin_server.workers.settlement.settle import ChainSettler
from florin_server.workers.settlement.tx_sender import TxSender
from florin_server.workers.supervise import outliving
from florin_server.workers.webhooks.deliver import Deliverer


@dataclass(frozen=True, slots=True)
class Staff:
    """Who settles and who pays out, one for each chain."""

    settlers: list[ChainSettler | Onlooker]
    payouts: list[PayoutWorker | Onlooker]
    settles: bool = True

    @classmethod
    def of(
        cls,
        core: Core,
        pauses: Container[str],
        *,
        settles: bool = True,
        owner: str = "",
        copied_at_us: int | None = None,
    ) -> Self:
        """Makes them; `pauses` are the keys that send nothing new, `owner` is whose leases are.

        `copied_at_us` is when the store was copied, if pauses are for that.
        Where other processes settle, those who only look on stand in for them.
        """
        owner, rails = owner or core.randbytes(8).hex(), core.rails.values()
        if not settles:
            return cls(
                [Onlooker.of_settlers(core, rail) for rail in rails],
                [
                    Onlooker.of_payouts(core, rail, rail.payouts)
                    for rail in rails
                    if rail.payouts is not None
                ],
                settles=False,
            )
        return cls(
            [ChainSettler(core, rail, owner, pauses) for rail in rails],
            [
                PayoutWorker(core, rail, rail.payouts, owner, pauses, copied_at_us=copied_at_us)
                for rail in rails
                if rail.payouts is not None
            ],
        )

    def senders(self) -> Iterator[TxSender]:
        """All that sign transactions."""
        for worker in (*self.settlers, *self.payouts):
            if not isinstance(worker, Onlooker):
                yield from worker.executors


class Workers:
    """The tasks of one process, none of which ends by itself."""

    def __init__(self, app: App, staff: Staff) -> None:
        self.tasks = tuple(asyncio.create_task(job) for job in _jobs(app, staff))
        self._staff = staff
        self.ending = False  # and nobody new should come

    async def failed(self) -> None:
        """Returns when one ends; raises its error."""
        done, _ = await asyncio.wait(self.tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def problems(self) -> dict[str, str]:
        """What keeps the process from being ready: nothing as long as all of them work."""
        if self.ending:
            return {"service": "ends"}
        return {"workers": "ended"} if any(task.done() for task in self.tasks) else {}

    async def end(self) -> None:
        """Ends them all; calls are answered still, and wait for what nobody does."""
        for task in self.tasks:
            task.cancel()
        for task in self.tasks:
            with suppress(asyncio.CancelledError):
                await task
        for sender in self._staff.senders():
            # otherwise others wait until it lapses
            with suppress(StoreError):
                await sender.give_back()


def _jobs(app: App, staff: Staff) -> list[Coroutine[Any, Any, None]]:
    tidy = (expire, forget_keys, forget_data, forget_gas, forget_icons) if staff.settles else ()
    steady: list[Callable[[], Awaitable[None]]] = [
        *(partial(work, app) for work in tidy),
        app.hub.sweep,
        partial(app.payouts.sweep, lambda ids: app.store.read(payouts.some(ids)), app.clock),
    ]
    if app.settings.fetch_icons:
        steady.append(partial(fetch_icons, app))
    if staff.settles:
        steady.append(Deliverer(app, webhooks.outbound(app)).run)
    if app.settings.prices.pairs:
        steady.append(partial(follow_prices, app))
    keepers = [BookKeeper(app, rail) for rail in app.rails.values()] if staff.settles else []
    return [
        *(outliving(app.clock, work) for work in steady),
        *hints.jobs(app),
        *(_on(keeper.chain_id, keeper.run()) for keeper in keepers),
        *(_on(worker.chain_id, worker.run()) for worker in staff.settlers),
        *(_on(worker.chain_id, worker.run()) for worker in staff.payouts),
    ]


async def _on(chain_id: str, work: Coroutine[Any, Any, None]) -> None:
    """Works on a chain, which lines of the log are about then."""
    logs.CHAIN.set(chain_id)
    await work
