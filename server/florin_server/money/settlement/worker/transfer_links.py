"""Turns transfers that wallets made from a payment's link into options, deposits and events.

A link has no sender. The sender of an exact transfer gets an option of its own, which the event of
the transfer pays like any other. All else that the merchant got is shown as a deposit of the
payment, and pays nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from math import inf
from typing import Final, Protocol

from florin_server.db.context import StorageContext
from florin_server.domain.payments.deposits import Deposit
from florin_server.domain.payments.payment import Payment, PaymentOption
from florin_server.money.payments.store import deposits, offered_transfers, payments
from florin_server.rails.protocol import Rail
from florin_server.rails.transfers import (
    ExactTransfer,
    ObservedTransfer,
    TransferCandidate,
)
from florin_server.rails.types import SettlementEvent


class _Context(StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

# of one payment: more would be spam, which costs its sender a fee each
_SHOWN_MAX: Final = 20
_PAYMENTS_PER_QUERY: Final = 500


def _get_end(option: PaymentOption) -> float:
    return inf if option.expires_at is None else option.expires_at


class TransferLinks:
    """The links of the payments of one chain that are looked at."""

    def __init__(self, app: _Context, rail: Rail) -> None:
        self._app = app
        self._rail = rail
        self._links: dict[str, tuple[Payment, tuple[PaymentOption, ...]]] = {}

    async def load(self, payment_ids: Collection[str]) -> None:
        """Read the links of payments again."""
        ordered = sorted(payment_ids)
        for start in range(0, len(ordered), _PAYMENTS_PER_QUERY):
            part = ordered[start : start + _PAYMENTS_PER_QUERY]
            rows = await self._app.store.read(
                offered_transfers.list_links(self._rail.chain_id, part)
            )
            for payment_id in part:
                own = [row for row in rows if row.payment.id == payment_id]
                if own:
                    # of equal prices the one that holds for longest is paid
                    options = sorted((row.option for row in own), key=_get_end, reverse=True)
                    self._links[payment_id] = own[0].payment, tuple(options)

    def forget_others(self, payment_ids: Collection[str]) -> None:
        """Forget the links of all other payments."""
        for payment_id in self._links.keys() - set(payment_ids):
            del self._links[payment_id]

    def has_links(self, payment_id: str) -> bool:
        """Return True if wallets can make transfers for a payment by themselves."""
        return payment_id in self._links

    async def read(
        self, mentions: Sequence[tuple[str, str]]
    ) -> tuple[list[SettlementEvent], frozenset[str]]:
        """Return the events of transactions, and the hashes that the node cannot return yet.

        `mentions` are hashes, each with the payment whose address the transaction names.
        """
        candidates = [
            TransferCandidate(tx_hash, *self._links[payment_id])
            for tx_hash, payment_id in mentions
            if payment_id in self._links
        ]
        transfers = self._rail.transfer_requests
        if transfers is None or not candidates:
            return [], frozenset()
        result = await transfers.find_transfers(candidates)
        exact = [item.exact for item in result.transfers if item.exact is not None]
        accepted = await self._store_options(exact)
        await self._record(result.transfers)
        return [item.event for item in accepted], result.unread

    async def _store_options(self, exact: Sequence[ExactTransfer]) -> list[ExactTransfer]:
        """Store the options of senders that can pay; return their transfers."""
        accepted = [item for item in exact if self._rail.find_payer(item.option.payer) is not None]
        if accepted:
            now_us = self._app.clock.now_us()
            options = [replace(item.option, created_at_us=now_us) for item in accepted]
            await self._app.store.write(payments.put_options(options))
        return accepted

    async def _record(self, transfers: Sequence[ObservedTransfer]) -> None:
        """Store what the merchants got; of what pays nothing only as much as is shown."""
        if not transfers:
            return
        chain_id, store = self._rail.chain_id, self._app.store
        arrived = [(self._to_deposit(transfer), transfer) for transfer in transfers]
        addresses = {deposit.address for deposit, _ in arrived}
        stored = await store.read(deposits.list_of_addresses(chain_id, addresses))
        counts = {
            address: sum(item.deposit.address == address for item in stored)
            for address in addresses
        }
        shown = []
        for deposit, transfer in arrived:
            counts[deposit.address] += 1
            if transfer.exact is not None or counts[deposit.address] <= _SHOWN_MAX:
                shown.append(deposit)
            if transfer.exact is None:
                _log.warning(
                    "payment %s is not paid by %s: it moved %d of %s to the merchant, "
                    "which is not what its link says",
                    transfer.payment_id,
                    transfer.tx_hash,
                    transfer.value,
                    transfer.asset,
                )
        if shown:
            now_us = self._app.clock.now_us()
            # these are not at an address of the payment: no endpoint is notified of them
            await store.write(deposits.record(chain_id, shown, (), (), (), now_us))

    def _to_deposit(self, transfer: ObservedTransfer) -> Deposit:
        _, options = self._links[transfer.payment_id]
        return Deposit(
            address=options[0].payer.rpartition(":")[2],
            asset=transfer.asset,
            value=transfer.value,
            sender=transfer.sender,
            block_number=transfer.block_number,
            block_hash="",
            tx_hash=transfer.tx_hash,
        )
