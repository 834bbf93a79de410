"""Sends what is accepted on one chain, as far as the keys have room, and sets aside the rest."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from florin_server.domain.quarantine import ItemKind, describe_error
from florin_server.domain.settlement.chain_txs import Accepted, Share
from florin_server.flows.app import Core
from florin_server.flows.quarantine.quarantine import is_unexpected
from florin_server.rails.protocol import Rail
from florin_server.rails.types import Signed
from florin_server.store.engine.query import Op, operation
from florin_server.store.settlement import chain_txs
from florin_server.workers.settlement import trying
from florin_server.workers.settlement.blocked_payers import BlockedPayers
from florin_server.workers.settlement.conclude import Concluder
from florin_server.workers.settlement.direct_payments import is_left_to_others
from florin_server.workers.settlement.gas_spending import Spending
from florin_server.workers.settlement.open_payments import OpenPayments
from florin_server.workers.settlement.senders import Senders
from florin_server.workers.settlement.tx_sender import TxSender

_log = logging.getLogger(__name__)

# a payment that would not settle now (say, the balance is gone) is tried again after a quarter of
# its age, within these bounds
_RETRY_MIN_US, _RETRY_MAX_US = 1_000_000, 5_000_000
# after so many batches that failed unexpectedly the rest waits for the next turn
_FAILED_BATCHES = 100


class Submitter:
    """Claims payments together with the transaction that pays them."""

    def __init__(  # noqa: PLR0917  (one of each, none alike)
        self,
        app: Core,
        rail: Rail,
        open_payments: OpenPayments,
        senders: Senders,
        spending: Spending,
        blocked: BlockedPayers,
        concluder: Concluder,
    ) -> None:
        self._app = app
        self._rail = rail
        self._open = open_payments
        self._senders = senders
        self._spending = spending
        self._blocked = blocked
        self._concluder = concluder

    async def submit(self) -> None:
        """Sends what waits, until nothing does or no key has room."""
        batch, chain_id, failed = self._app.settings.settle_batch, self._rail.chain_id, 0
        while self._senders.free() is not None and self._app.chains[chain_id].books_begun:
            now_us = self._app.clock.now_us()
            found = self._app.quarantine.left_in(
                ItemKind.PAYMENT,
                chain_id,
                await self._app.store.read(chain_txs.waiting(chain_id, batch, now_us)),
                lambda item: item.payment.id,
            )
            if not found:
                return
            try:
                has_room = await self._submit(found)
            except Exception as error:
                if not is_unexpected(error):
                    raise
                _log.warning("payments are submitted one by one: %s", describe_error(error))
                await self._submit_each(found)
                failed += 1
                if failed >= _FAILED_BATCHES:
                    return
                continue
            if not has_room:
                return

    async def _submit_each(self, items: Sequence[Accepted]) -> None:
        """Submit those of a batch that still wait; what fails alone is set aside."""
        chain_id, count = self._rail.chain_id, self._app.settings.settle_batch
        for item in items:
            async with self._app.quarantine.isolating(
                ItemKind.PAYMENT, chain_id, item.payment.id, "submit"
            ):
                # what was sent, or put off, before the batch failed is not sent again
                now_us = self._app.clock.now_us()
                waiting = await self._app.store.read(chain_txs.waiting(chain_id, count, now_us))
                if any(one.payment.id == item.payment.id for one in waiting):
                    await self._submit([item])

    async def _submit(self, found: Sequence[Accepted]) -> bool:
        """Send what can be sent of a batch, put the rest off; False if no key has room left."""
        if not (waiting := await self._ours(found)):
            return True
        free, held = await self._blocked.sort(waiting)
        late = [item for item in free if not self._open.in_time(item)]
        # an account may have got code since its payment was confirmed
        free = await trying.looked_at(self._rail.gas, [one for one in free if one not in late])
        free = await self._spending.sort(free, self._on_way())
        good = await trying.settleable(self._rail.relay, free, self._open.items)
        for item in waiting:
            self._open.keep(item)
        ready = [item for item, ok in zip(free, good, strict=True) if ok]
        stuck = [item for item, ok in zip(free, good, strict=True) if not ok] + held + late
        for part in trying.parts(self._rail.gas, ready):
            sender = self._senders.free()
            if sender is None:
                return False
            sent = await trying.tried(self._rail.relay, sender.address, part)
            stuck += [item for item in part if item not in sent]
            if sent:
                await self._send(sender, sent)
        if stuck:
            await self._set_aside(stuck)
        return True

    def _on_way(self) -> list[tuple[Accepted, Share]]:
        known = self._open.by_id
        return [(known[one], share) for one, share in self._senders.shares() if one in known]

    async def _ours(self, items: Sequence[Accepted]) -> list[Accepted]:
        """Leaves payments to themselves that a wallet sends, or others sent; gives back the rest.

        Their effect may be in a block that was read long before they were confirmed.
        """
        theirs = [item for item in items if is_left_to_others(self._rail, item)]
        if theirs:
            await self._open.find_events(theirs)
            for item in theirs:
                self._open.keep(item)
            await self._app.store.write(chain_txs.leave([item.payment.id for item in theirs]))
            await self._concluder.conclude()
        return [item for item in items if item not in theirs]

    async def _send(self, sender: TxSender, items: Sequence[Accepted]) -> None:
        ids = [item.payment.id for item in items]

        async def sign(nonce: int) -> Signed:
            return await self._rail.relay.sign(sender.address, nonce, items)

        await sender.send(ids, sign, lambda: chain_txs.claim(ids))

    async def _set_aside(self, items: Sequence[Accepted]) -> None:
        """Keeps payments that would not settle now for later; ends those that never can."""
        now_us = self._app.clock.now_us()
        await self._app.store.write(_later(items, now_us))
        await self._concluder.bury(items)


@operation
def _later(items: Sequence[Accepted], now_us: int) -> Op[None]:
    """When they are due again: soon those of which a wallet sent something that is not mined yet.

    That is an approval mostly. The older they are, the longer they wait.
    """
    due: dict[int, list[str]] = {}
    for item in items:
        pause_us = (now_us - item.confirmation.at_us) // 4
        pause_us = min(max(pause_us, _RETRY_MIN_US), _RETRY_MAX_US)
        due.setdefault(pause_us, []).append(item.payment.id)
    for pause_us, ids in due.items():
        yield from chain_txs.release(ids, now_us + pause_us)
