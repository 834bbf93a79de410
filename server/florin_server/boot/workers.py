"""What one process does in the background: it settles, pays out, keeps books and tidies up."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Container, Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from florin_server import logs
from florin_server.boot import webhooks
from florin_server.domain.settlement.lease import name_holder
from florin_server.flows.app import App, Core
from florin_server.store.engine.query import StoreError
from florin_server.store.payouts import payouts
from florin_server.workers.hints import jobs as hints
from florin_server.workers.housekeeping.expire import expire, forget_data, forget_gas, forget_keys
from florin_server.workers.housekeeping.finish_upgrade import finish_upgrade
from florin_server.workers.housekeeping.keep_books import BookKeeper
from florin_server.workers.housekeeping.prices import follow_prices
from florin_server.workers.housekeeping.quarantine import keep_quarantine
from florin_server.workers.housekeeping.report_conditions import ConditionReporter
from florin_server.workers.housekeeping.store_time import follow_store_time
from florin_server.workers.housekeeping.watch_store import watch_store
from florin_server.workers.icons.fetch_icons import fetch_icons, forget_icons
from florin_server.workers.payouts.pay_out import PayoutWorker
from florin_server.workers.settlement.onlooker import Onlooker
from florin_server.workers.settlement.settle import ChainSettler
from florin_server.workers.settlement.tx_sender import TxSender
from florin_server.workers.supervise import supervise
from florin_server.workers.webhooks.deliver import Deliverer

_log = logging.getLogger(__name__)


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
        owner = owner or name_holder(socket.gethostname(), core.randbytes(8))
        rails = core.rails.values()
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
    """The tasks of one process, none of which ends by itself: a worker that fails starts again."""

    def __init__(self, app: App, staff: Staff) -> None:
        self.tasks = tuple(asyncio.create_task(job) for job in _jobs(app, staff))
        self._app = app
        self._staff = staff
        # files that start-up writes are not there yet; callers wait for them
        self.starting = False
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
        if self.starting:
            return {"service": "starts"}
        if store := self._app.store_health.unready(self._app.clock.steady_us()):
            return {"store": store}
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
            try:
                await sender.give_back()
            except StoreError as error:
                _log.warning("the lease of %s lapses by itself: %s", sender.account, error)
            except Exception:  # noqa: BLE001  (no lease keeps the rest from its end)
                _log.exception("the lease of %s lapses by itself", sender.account)


def _jobs(app: App, staff: Staff) -> list[Coroutine[Any, Any, None]]:
    tidy = (
        (expire, finish_upgrade, forget_keys, forget_data, forget_gas, forget_icons)
        if staff.settles
        else ()
    )
    steady: dict[str, Callable[[], Awaitable[None]]] = {
        **{work.__name__: partial(work, app) for work in tidy},
        "keep_quarantine": partial(keep_quarantine, app),
        "follow_store_time": partial(follow_store_time, app),
        "watch_store": partial(watch_store, app),
        "report_conditions": ConditionReporter(app).run,
        "follow_payments": app.hub.sweep,
        "follow_payouts": partial(
            app.payouts.sweep, lambda ids: app.store.read(payouts.some(ids)), app.clock
        ),
        **hints.jobs(app),
    }
    if app.settings.fetch_icons:
        steady["fetch_icons"] = partial(fetch_icons, app)
    if staff.settles:
        steady["deliver_webhooks"] = Deliverer(app, webhooks.outbound(app)).run
    if app.settings.prices.pairs:
        steady["follow_prices"] = partial(follow_prices, app)
    keepers = [BookKeeper(app, rail) for rail in app.rails.values()] if staff.settles else []
    on_chains: dict[str, Sequence[BookKeeper | ChainSettler | PayoutWorker | Onlooker]] = {
        "keep_books": keepers,
        "settle": staff.settlers,
        "pay_out": staff.payouts,
    }
    return [
        *(supervise(app, name, work) for name, work in steady.items()),
        *(
            _on(worker.chain_id, supervise(app, f"{name} {worker.chain_id}", worker.run))
            for name, workers in on_chains.items()
            for worker in workers
        ),
    ]


async def _on(chain_id: str, work: Coroutine[Any, Any, None]) -> None:
    """Works on a chain, which lines of the log are about then."""
    logs.CHAIN.set(chain_id)
    await work
