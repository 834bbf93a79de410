"""Maintains a relayer's durable nonces: created once, used one at a time, advanced if abandoned.

A nonce is free again when a final block shows another value of it. A buyer that never signed, or
signed and never confirmed, leaves it unchanged: it is advanced then, and what was signed with it is
void.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, Operation, operation
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.domain.quarantine import QuarantinedItemKind
from florin_server.money.settlement.store import durable_nonces
from florin_server.money.settlement.store.durable_nonces import NonceHolding
from florin_server.money.settlement.worker.transaction_queue import TransactionQueue
from florin_server.operations.context import QuarantineContext
from florin_server.rails.protocol import Rail
from florin_server.rails.provisioning import AffordableAccounts, DurableNonces, NonceValues
from florin_server.rails.types import RailUnavailable, SignedTransaction


class _Context(QuarantineContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

# the number that one transaction creates or advances
_BATCH_SIZE = 5
# a payment that was confirmed in time has this long to land: twice the life of a blockhash at 400
# ms a slot
_GRACE_US = 120 * 1_000_000


class DurableNonceKeeper:
    """Maintains the durable nonces of one chain.

    `shortage` says which could not be paid for at the latest check; empty if all could.
    """

    def __init__(self, app: _Context, rail: Rail) -> None:
        self.shortage = ""
        self._app = app
        self._rail = rail

    async def run_turn(self, queue: TransactionQueue) -> None:
        """Compare what is stored with the chain, and do what is required.

        What cannot be done now waits: payments are not to be kept by it.
        """
        try:
            await self._run_turn(queue)
        except RailUnavailable as error:
            _log.warning("%s: durable nonces wait: %s", self._rail.chain_id, error)

    async def _run_turn(self, queue: TransactionQueue) -> None:
        work = self._rail.durable_nonces
        if work is None:
            return
        nonce_holdings = await self._app.store.read(
            durable_nonces.list_accounts(self._rail.chain_id)
        )
        # also unused ones: a buyer may still have them
        addresses = list(
            dict.fromkeys(
                [*work.addresses, *(nonce_holding.address for nonce_holding in nonce_holdings)]
            )
        )
        if not addresses:
            return
        values = await work.get_values(addresses)
        await self._record_values(values, nonce_holdings)
        if queue.key.is_paused or any(
            work.is_preparation(tx.raw, addresses) for tx in queue.list_without_items()
        ):
            # it creates or advances some of them, and others wait for it
            return
        existing_addresses = {
            nonce_holding.address
            for nonce_holding in nonce_holdings
            if nonce_holding.address in values.by_account
        }
        absent = self._filter_active(
            [address for address in work.addresses if address not in existing_addresses]
        )
        left = self._filter_active(
            [
                nonce_holding.address
                for nonce_holding in nonce_holdings
                if self._is_abandoned(nonce_holding, values)
            ]
        )
        if missing := await self._select_affordable(absent, work):
            await self._run_each(
                missing, "make", lambda part: self._create_missing(part, values, queue, work)
            )
        elif left:
            unused = left[:_BATCH_SIZE]
            await self._run_each(unused, "advance", lambda part: self._advance(part, queue, work))

    async def _select_affordable(
        self, missing: Sequence[str], work: DurableNonces
    ) -> Sequence[str]:
        """Return those of the missing accounts that are made now, and note what others lack."""
        affordable_accounts = (
            await work.get_affordable(len(missing)) if missing else AffordableAccounts(0, "")
        )
        if affordable_accounts.problem and affordable_accounts.problem != self.shortage:
            _log.info("%s", affordable_accounts.problem)
        self.shortage = affordable_accounts.problem
        return missing[: min(_BATCH_SIZE, affordable_accounts.count)]

    async def _run_each(
        self,
        addresses: Sequence[str],
        step: str,
        work: Callable[[Sequence[str]], Awaitable[None]],
    ) -> None:
        await self._app.quarantine.run_each(
            QuarantinedItemKind.DURABLE_NONCE, self._rail.chain_id, addresses, str, step, work
        )

    def _filter_active(self, addresses: Sequence[str]) -> list[str]:
        filter_active, chain_id = self._app.quarantine.filter_active, self._rail.chain_id
        return filter_active(QuarantinedItemKind.DURABLE_NONCE, chain_id, addresses, str)

    def _is_quarantined(self, address: str) -> bool:
        return self._app.quarantine.contains(
            QuarantinedItemKind.DURABLE_NONCE, self._rail.chain_id, address
        )

    async def _advance(
        self, addresses: Sequence[str], queue: TransactionQueue, work: DurableNonces
    ) -> None:
        await self._send(queue, lambda: work.sign_advance(addresses), _claim_nothing)
        _log.info("%s: advanced %d durable nonces", self._rail.chain_id, len(addresses))

    async def _record_values(
        self, values: NonceValues, taken_nonces: Sequence[NonceHolding]
    ) -> None:
        chain_id = self._rail.chain_id
        for nonce_holding in taken_nonces:
            now = values.by_account.get(nonce_holding.address)
            if now is None or now == nonce_holding.value or values.slot < nonce_holding.slot:
                continue
            if self._is_quarantined(nonce_holding.address):
                continue
            async with self._app.quarantine.isolate(
                QuarantinedItemKind.DURABLE_NONCE, chain_id, nonce_holding.address, "record advance"
            ):
                seen = durable_nonces.record_advance(
                    chain_id, nonce_holding.address, nonce_holding.value, now, values.slot
                )
                await self._app.store.write(seen)

    async def _create_missing(
        self,
        missing: Sequence[str],
        values: NonceValues,
        queue: TransactionQueue,
        work: DurableNonces,
    ) -> None:
        chain_id = self._rail.chain_id
        if existing_addresses := [address for address in missing if address in values.by_account]:
            # they exist, but the store lost them
            await self._app.store.write(durable_nonces.register(chain_id, existing_addresses))
            return
        await self._send(
            queue,
            lambda: work.sign_creation(missing),
            lambda: durable_nonces.register(chain_id, missing),
        )
        _log.info("%s: created %d durable nonces", chain_id, len(missing))

    def _is_abandoned(self, nonce: NonceHolding, values: NonceValues) -> bool:
        """Return True if the owner of a nonce will not use it any more, or must not."""
        if nonce.status is None or values.by_account.get(nonce.address) != nonce.value:
            return False
        until_us = nonce.held_until_us
        if nonce.status is PaymentStatus.PROCESSING:
            until_us += _GRACE_US
        return nonce.status.is_final or self._app.clock.now_us() >= until_us

    async def _send(
        self,
        queue: TransactionQueue,
        make_signed: Callable[[], Awaitable[SignedTransaction]],
        claim: Callable[[], Operation[None]],
    ) -> None:
        async def sign(nonce: int) -> SignedTransaction:  # noqa: ARG001
            return await make_signed()

        await queue.send([], sign, claim)


@operation
def _claim_nothing() -> Op[None]:
    yield from ()
