"""Sends transfers of others with the keys of settlements, and ends them by evidence.

They share the queues of settlements, so that one key has one sender. A transfer is claimed in the
commit that stores its transaction; only then it is broadcast. It succeeds once a final transaction
moved the money, and fails once none can.
"""

from __future__ import annotations

import logging
from typing import Final, Protocol

from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import StoreError
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.domain.settlement.chain_txs import TxState
from florin_server.domain.x402.messages import InvalidReason, InvalidX402Payment
from florin_server.domain.x402.settlement import FacilitationState
from florin_server.money.settlement.worker.senders import SenderPool
from florin_server.money.settlement.worker.transaction_queue import TransactionQueue
from florin_server.money.x402 import store
from florin_server.money.x402.store import EndedFacilitation, Facilitation
from florin_server.operations.service.quarantine import is_unexpected
from florin_server.rails.protocol import Rail
from florin_server.rails.types import RailUnavailable, SignedTransaction
from florin_server.rails.worker_failures import catch_unavailable


class _Context(EventContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

_OPEN_MAX: Final = 200
# a notification of another process can get lost
_LOOK_US: Final = 10_000_000
# a check of this age is repeated before the transfer is sent
_CHECK_US: Final = 5_000_000


class FacilitatedTransfers:
    """The transfers of others on one chain."""

    def __init__(self, app: _Context, rail: Rail) -> None:
        self._app = app
        self._rail = rail
        self._has_open = True  # they may be left of the time before this start
        self._look_at_us = 0
        app.notifier.subscribe(Topic.SETTLEMENT, self._expect_more, rail.chain_id)

    def _expect_more(self) -> None:
        self._has_open = True

    async def run_turn(self, senders: SenderPool) -> None:
        """End what has ended, and send what waits, as far as the keys have room."""
        steady_us = self._app.clock.steady_us()
        if not self._has_open and steady_us < self._look_at_us:
            return
        self._look_at_us = steady_us + _LOOK_US
        facilitations = await self._app.store.read(store.list_open(self._rail.chain_id, _OPEN_MAX))
        self._has_open = bool(facilitations)
        waiting: RailUnavailable | None = None
        # one that cannot be judged now does not keep others from their turn
        if any(each.state is FacilitationState.SENT for each in facilitations):
            for ended in await self._app.store.read(store.list_ended(self._rail.chain_id)):
                fault = await catch_unavailable(self._try_end(ended))
                waiting = waiting or fault
        for facilitation in facilitations:
            if facilitation.state is FacilitationState.WAITING:
                fault = await catch_unavailable(self._try_send(senders, facilitation))
                waiting = waiting or fault
        if waiting is not None:
            raise waiting

    async def _try_send(self, senders: SenderPool, facilitation: Facilitation) -> None:
        """Send a transfer; what fails unexpectedly ends, as nothing of it was sent."""
        now_us = self._app.clock.now_us()
        is_late = now_us >= facilitation.expires_at * 1_000_000
        status = await self._find_payment_status(facilitation, now_us)
        if status is PaymentStatus.PROCESSING and not is_late:
            # perhaps by a stranger's copy, which a reorganization can remove and bring back
            return
        if is_late or status is not PaymentStatus.REQUIRES_ACTION:
            await self._end_unsent(facilitation, InvalidReason.TRANSACTION_FAILED)
            return
        queue = senders.find_free()
        if queue is None:
            return
        try:
            if now_us - facilitation.created_at_us > _CHECK_US:
                await self._rail.facilitator.check(facilitation.transfer, now_us // 1_000_000)
            await self._send(queue, facilitation)
        except InvalidX402Payment as error:
            await self._end_unsent(facilitation, error.reason)
        except Exception as error:
            if isinstance(error, StoreError) or not is_unexpected(error):
                raise
            _log.exception("transfer %s could not be sent", facilitation.key)
            await self._end_unsent(facilitation, InvalidReason.TRANSACTION_FAILED)

    async def _find_payment_status(
        self, facilitation: Facilitation, now_us: int
    ) -> PaymentStatus | None:
        """Return the status of the payment; a transfer for another server requires action."""
        if facilitation.payment_id is None:
            return PaymentStatus.REQUIRES_ACTION
        payment = await self._app.store.payments.find(facilitation.payment_id)
        return None if payment is None else payment.with_expiry(now_us).status

    async def _end_unsent(self, facilitation: Facilitation, reason: InvalidReason) -> None:
        """End a transfer that is in no transaction of ours; a stranger's can have made it."""
        outcome = await self._rail.facilitator.find_outcome(facilitation.transfer, None)
        await self._end(facilitation, None if outcome.paid_by else reason, paid_by=outcome.paid_by)

    async def _send(self, queue: TransactionQueue, facilitation: Facilitation) -> None:
        signed: list[SignedTransaction] = []

        async def sign(nonce: int) -> SignedTransaction:
            transfer = facilitation.transfer
            signed.append(await self._rail.facilitator.sign(queue.key.address, nonce, transfer))
            return signed[0]

        await queue.send([], sign, lambda: store.claim(facilitation.key, signed[0].hash))
        self._app.notifier.notify(Topic.FACILITATION, facilitation.key)

    async def _try_end(self, ended: EndedFacilitation) -> None:
        """End a transfer whose transaction ended; one that fails unexpectedly is tried again."""
        try:
            await self._end_mined(ended)
        except Exception as error:
            if isinstance(error, StoreError) or not is_unexpected(error):
                raise
            _log.exception("transfer %s could not be ended", ended.facilitation.key)

    async def _end_mined(self, ended: EndedFacilitation) -> None:
        """End a transfer by its transaction; send it again if it can still be made."""
        facilitation = ended.facilitation
        if ended.tx_state is TxState.REPLACED:
            # its nonce was used by another transaction, or its blockhash has expired: the check
            # before it is sent again decides
            await self._app.store.write(store.release(facilitation.key))
            return
        outcome = await self._rail.facilitator.find_outcome(facilitation.transfer, ended.mined_hash)
        used = facilitation.gas if outcome.gas_used is None else outcome.gas_used
        reason = None if outcome.paid_by else InvalidReason.TRANSACTION_FAILED
        await self._end(facilitation, reason, paid_by=outcome.paid_by, gas_used=used)

    async def _end(
        self,
        facilitation: Facilitation,
        reason: InvalidReason | None,
        *,
        paid_by: str | None = None,
        gas_used: int = 0,
    ) -> None:
        """End a transfer; without its transaction it used no gas."""
        if await self._app.store.write(
            store.end_facilitation(
                facilitation,
                self._app.clock.now_us(),
                paid_by=paid_by,
                reason=reason,
                gas_used=gas_used,
            )
        ):
            if reason is not None:
                _log.warning("transfer %s failed: %s", facilitation.key, reason.value)
            self._app.notifier.notify(Topic.FACILITATION, facilitation.key)
