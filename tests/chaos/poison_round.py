"""One round of the poison-pill campaign: an item of every kind, and whether each is done."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field

from florin_server.domain.payouts.payout import PayoutStatus
from florin_server.domain.quarantine import ItemKind, QuarantinedItem
from florin_server.flows.app import App
from florin_server.flows.operator import executors
from florin_server.flows.quarantine import items as quarantine
from florin_server.store.payouts import payouts

from tests.support.answering import Answering
from tests.support.desk import Desk
from tests.support.until import until

FINAL = {"succeeded", "failed", "expired", "cancelled"}
# what passes between two looks; once all faults are over, only what waits for long is left
_MOMENT_S, _LAST_S = 2, 60
# the end of a transaction of ours that is set aside keeps what it brings
_SENT = frozenset({ItemKind.TRANSACTION, ItemKind.WATCHED})


@dataclass(eq=False)
class Item:
    """Something that a round waits for.

    `names` are the subjects that poison it. It waits with items of the kinds in `waits_with` that
    are set aside, and when it `ends_late` until a payment's time is over.
    """

    label: str
    names: frozenset[str]
    is_done: Callable[[], Awaitable[bool]]
    waits_with: frozenset[ItemKind] = frozenset()
    is_poisoned: bool = False
    ends_late: bool = False

    def waits(self, aside: Collection[QuarantinedItem]) -> bool:
        """Return whether it waits with something that is set aside."""
        return any(
            one.kind in self.waits_with or any(name in one.subject for name in self.names)
            for one in aside
        )


@dataclass
class Round:
    """The items of one round; the first of each kind is the poisoned one."""

    desk: Desk
    items: list[Item] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    poisoned: set[str] = field(default_factory=set)
    leaves_poisoned: bool = False  # a fault keeps the poisoned ones from their end
    late: bool = False  # the time of its payments is over
    _done: set[Item] = field(default_factory=set)

    @property
    def app(self) -> App:
        return self.desk.service.app

    def add(
        self,
        label: str,
        names: Iterable[str],
        is_done: Callable[[], Awaitable[bool]],
        waits_with: Collection[ItemKind] = (),
        *,
        poison: bool = False,
        ends_late: bool = False,
    ) -> Item:
        """Wait for something; with `poison` it is what fails where a fault names items."""
        made = Item(
            label, frozenset(names), is_done, frozenset(waits_with), poison, ends_late=ends_late
        )
        self.items.append(made)
        self.names |= made.names
        if poison:
            self.poisoned |= made.names
        return made

    def add_payment(
        self,
        label: str,
        payment_id: str,
        *more: ItemKind,
        poison: bool = False,
        ends_late: bool = False,
    ) -> Item:
        """Wait for the end of a payment."""

        async def is_final() -> bool:
            found = await self.app.store.reader.payment(payment_id)
            return found is not None and str(found.status) in FINAL

        kinds = {*_SENT, *more}
        return self.add(label, [payment_id], is_final, kinds, poison=poison, ends_late=ends_late)

    def add_payout(
        self, label: str, payout_id: str, *, poison: bool = False, ends_late: bool = False
    ) -> Item:
        """Wait for a payout, a refund too."""

        async def is_done() -> bool:
            found = (await self.app.store.read(payouts.some([payout_id])))[payout_id]
            return found.status is PayoutStatus.DONE

        return self.add(label, [payout_id], is_done, _SENT, poison=poison, ends_late=ends_late)

    def add_return(self, label: str, payment_id: str, *, poison: bool = False) -> Item:
        """Wait for the payout that returns the late money of a payment."""

        async def is_returned() -> bool:
            listed = await self.app.store.read(payouts.listed(1000, all_=True))
            return any(
                one.payment_id == payment_id and one.status is PayoutStatus.DONE for one in listed
            )

        kinds = {ItemKind.EVENT, ItemKind.PAYOUT, *_SENT}
        return self.add(label, [payment_id], is_returned, kinds, poison=poison)

    async def finish(self, *, last: bool = False) -> None:
        """Return once all items are done, but for those that wait with what is set aside.

        In the `last` one everything is retried, and all of them have to be done.
        """

        async def open_items() -> list[str]:
            aside = await quarantine.list_items(self.app, all_=False)
            for one in aside if last else ():
                # its step failed before the fault ended, and was written down after
                await quarantine.retry(self.app, one.id)
            waiting = [
                one
                for one in self.items
                if one not in self._done
                and (self.late or not one.ends_late)
                and (last or not (one.waits(aside) or (self.leaves_poisoned and one.is_poisoned)))
            ]
            found = [one for one in waiting if not await one.is_done()]
            self._done.update(set(waiting) - set(found))
            return [one.label for one in found]

        async def pass_time() -> None:
            for account, sender in self.app.executors.items():
                if sender.paused:
                    # others used keys of ours, which the operator knows about
                    await executors.resume(self.app, account)
            if last:
                # only a block that comes later proves that nothing can be paid any more
                await self.desk.chain.mine()
            # a payout whose transaction failed waits for as long as it is old
            await self.pass_time(_LAST_S if last else _MOMENT_S)

        await until(open_items, [], meanwhile=pass_time)

    async def pass_time(self, seconds: float = _MOMENT_S) -> None:
        """Let time pass, in which everybody who works on a chain looks around.

        However slow the machine is, no payment's time is over before its workers had theirs.
        """
        self.desk.clock.advance(seconds)
        await self.turn()

    async def attempt(self, look: Callable[[], Awaitable[bool]], looks: int = 15) -> bool:
        """Let time pass until something is so; False if a fault keeps it from that for too long.

        That is no failure: the items themselves tell whether anything is stuck.
        """
        for _ in range(looks):
            if await look():
                return True
            await self.pass_time()
        return False

    async def turn(self) -> None:
        """Return once everybody who works on a chain has taken a turn."""
        workers = [*self.app.settlers.values(), *self.app.payout_workers.values()]
        turns = [one.health().turns for one in workers]
        for one in workers:
            one.wake()
        await until(
            lambda: all(
                one.health().turns > before for one, before in zip(workers, turns, strict=True)
            )
        )


class Deliveries:
    """The ends of payments that a merchant's back end was told, by path."""

    def __init__(self, server: Answering) -> None:
        self._server = server
        self._read = 0
        self._ended: set[tuple[str, str]] = set()

    def has(self, path: str, payment_id: str) -> bool:
        """Return whether the end of a payment came to a path."""
        for request in self._server.came[self._read :]:
            data = json.loads(request.body)["data"]
            if data.get("status") in FINAL:
                self._ended.add((request.line.split()[1], data["payment_id"]))
        self._read = len(self._server.came)
        return (path, payment_id) in self._ended
