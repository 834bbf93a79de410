"""Run a round of the poison-pill campaign: an item of every kind, and whether each finishes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field

from florin_server.app.core import App
from florin_server.base.topics import Topic
from florin_server.domain.payouts.payout import PayoutStatus
from florin_server.domain.quarantine import QuarantinedItem, QuarantinedItemKind
from florin_server.features.monitoring.service import quarantine
from florin_server.money.payouts.store import payouts
from florin_server.operations.service import executors

from tests.support.service_harness import ServiceHarness
from tests.support.until import wait_until

FINAL = {"succeeded", "failed", "expired", "cancelled"}
# time between two looks; after all faults, only items with long waits are left
_MOMENT_S, _LAST_S = 2, 60
# the result waits with a quarantined end of our transaction
_SENT = frozenset({QuarantinedItemKind.TRANSACTION, QuarantinedItemKind.WATCHED})


@dataclass(eq=False)
class Item:
    """An item that a round waits for.

    `names` are the subjects that poison it. It waits with quarantined items of the kinds in
    `waits_with`. If it `ends_late`, it waits until its payment has expired.
    """

    label: str
    names: frozenset[str]
    is_done: Callable[[], Awaitable[bool]]
    waits_with: frozenset[QuarantinedItemKind] = frozenset()
    is_poisoned: bool = False
    ends_late: bool = False

    def waits(self, quarantined: Collection[QuarantinedItem]) -> bool:
        """Return whether it waits with a quarantined item."""
        return any(
            item.kind in self.waits_with or any(name in item.subject for name in self.names)
            for item in quarantined
        )


@dataclass
class Round:
    """The items of one round; the first of each kind is poisoned."""

    desk: ServiceHarness
    items: list[Item] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    poisoned: set[str] = field(default_factory=set)
    leaves_poisoned: bool = False  # a fault keeps poisoned items from finishing
    late: bool = False  # its payments have expired
    _done: set[Item] = field(default_factory=set)

    @property
    def app(self) -> App:
        return self.desk.service.app

    def add(
        self,
        label: str,
        names: Iterable[str],
        is_done: Callable[[], Awaitable[bool]],
        waits_with: Collection[QuarantinedItemKind] = (),
        *,
        poison: bool = False,
        ends_late: bool = False,
    ) -> Item:
        """Add an item; with `poison`, a fault that names items hits it."""
        item = Item(
            label, frozenset(names), is_done, frozenset(waits_with), poison, ends_late=ends_late
        )
        self.items.append(item)
        self.names |= item.names
        if poison:
            self.poisoned |= item.names
        return item

    def add_payment(
        self,
        label: str,
        payment_id: str,
        *more: QuarantinedItemKind,
        poison: bool = False,
        ends_late: bool = False,
    ) -> Item:
        """Add the end of a payment."""

        async def is_final() -> bool:
            payment = await self.app.store.payments.find(payment_id)
            return payment is not None and str(payment.status) in FINAL

        kinds = {*_SENT, *more}
        return self.add(label, [payment_id], is_final, kinds, poison=poison, ends_late=ends_late)

    def add_payout(
        self, label: str, payout_id: str, *, poison: bool = False, ends_late: bool = False
    ) -> Item:
        """Add the end of a payout or refund."""

        async def is_done() -> bool:
            payout = (await self.app.store.read(payouts.find_many([payout_id])))[payout_id]
            return payout.status is PayoutStatus.DONE

        return self.add(label, [payout_id], is_done, _SENT, poison=poison, ends_late=ends_late)

    def add_return(self, label: str, payment_id: str, *, poison: bool = False) -> Item:
        """Add the end of the payout that returns a payment's late money."""

        async def is_returned() -> bool:
            listed = await self.app.store.read(payouts.list_payouts(1000, include_closed=True))
            return any(
                payout.payment_id == payment_id and payout.status is PayoutStatus.DONE
                for payout in listed
            )

        kinds = {QuarantinedItemKind.EVENT, QuarantinedItemKind.PAYOUT, *_SENT}
        return self.add(label, [payment_id], is_returned, kinds, poison=poison)

    async def finish(self, *, last: bool = False) -> None:
        """Return once all items are done, except those that wait with a quarantined item.

        In the `last` round everything is retried, and all items must finish.
        """

        async def open_items() -> list[str]:
            quarantined = await quarantine.list_items(self.app, include_closed=False)
            for item in quarantined if last else ():
                # its step failed before the fault ended, and was recorded after it
                await quarantine.retry(self.app, item.id)
            waiting = [
                item
                for item in self.items
                if item not in self._done
                and (self.late or not item.ends_late)
                and (
                    last
                    or not (item.waits(quarantined) or (self.leaves_poisoned and item.is_poisoned))
                )
            ]
            items = [item for item in waiting if not await item.is_done()]
            self._done.update(set(waiting) - set(items))
            return [item.label for item in items]

        async def pass_time() -> None:
            for account, sender in self.app.executors.items():
                if sender.is_paused:
                    # others used our keys, as the operator knows
                    await executors.resume(self.app, account)
            if last:
                # only a later block proves that nothing can be paid any more
                await self.desk.chain.mine()
            # a payout whose transaction failed waits as long as its age
            await self.pass_time(_LAST_S if last else _MOMENT_S)

        await wait_until(open_items, [], meanwhile=pass_time)

    async def pass_time(self, seconds: float = _MOMENT_S) -> None:
        """Let time pass in which every worker of a chain looks once.

        Even on a slow machine no payment expires before its workers had their time.
        """
        self.desk.clock.advance(seconds)
        await self.turn()

    async def attempt(self, condition: Callable[[], Awaitable[bool]], attempts: int = 15) -> bool:
        """Let time pass until `condition` is true, for a limited number of attempts.

        Return False if a fault prevents it. That is no failure: the items themselves show whether
        anything is stuck.
        """
        for _ in range(attempts):
            if await condition():
                return True
            await self.pass_time()
        return False

    async def turn(self) -> None:
        """Return once every worker of a chain has taken a turn."""
        workers = [*self.app.settlers.values(), *self.app.payout_workers.values()]
        turns = [worker.health().turn_count for worker in workers]
        for topic in (Topic.SETTLEMENT, Topic.PAYOUTS_DUE):
            self.app.notifier.notify_all(topic)
        await wait_until(
            lambda: all(
                worker.health().turn_count > before
                for worker, before in zip(workers, turns, strict=True)
            )
        )
