"""The history of a payment: a part for its merchant, and everything for the operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from florin_server.base.context import EventContext
from florin_server.db.context import StorageContext
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import Merchant, Payment, Refund
from florin_server.domain.payments.state import PaymentStateEvent
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.payments.service.load import find_payment_id, get_merchant, load_payment
from florin_server.money.payments.store import payments
from florin_server.money.payments.store.payments import PaymentEventRecord
from florin_server.money.refunds.service import list_refunds
from florin_server.money.settlement.store import tx_lookup
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.settings.context import SettingsContext


class _HistoryContext(ArchiveContext, StorageContext, Protocol):
    """The parts of the application that a payment's history needs."""


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    SettingsContext,
    StorageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


# only the operator can see that a payer is blocked
_BLOCKED: Final = frozenset(
    map(
        str,
        (
            PaymentStateEvent.HELD,
            PaymentStateEvent.RELEASED,
            PaymentStateEvent.RETURNED,
            PaymentStateEvent.KEPT,
        ),
    )
)
BY_OPERATOR: Final = "operator_decided"

__all__ = [
    "BY_OPERATOR",
    "PaymentEventRecord",
    "PaymentTrace",
    "PaymentTransaction",
    "get_trace",
    "list_changes",
]


@dataclass(frozen=True, slots=True)
class PaymentTransaction:
    """The transaction that brought a payment's money. Sender and block are None if unknown."""

    chain_id: str
    hash: str
    sender: str | None
    block: int | None
    confirmations: int | None


@dataclass(frozen=True, slots=True)
class PaymentTrace:
    """Everything that is known of a payment."""

    payment: Payment
    merchant: Merchant
    refunds: Sequence[Refund]
    changes: Sequence[PaymentEventRecord]
    transaction: PaymentTransaction | None


async def list_changes(app: _HistoryContext, payment: Payment) -> list[PaymentEventRecord]:
    """Return the history of a payment, as its merchant can see it; the oldest first."""
    event_records: list[PaymentEventRecord] = []
    before = None
    for event_record in await _read_changes(app, payment):
        moved, before = event_record.status is not before, event_record.status
        if event_record.cause not in _BLOCKED:
            event_records.append(event_record)
        elif moved:
            event_records.append(replace(event_record, cause=BY_OPERATOR, detail=None))
    return event_records


async def _read_changes(app: _HistoryContext, payment: Payment) -> Sequence[PaymentEventRecord]:
    if event_records := await app.store.read(payments.list_events(payment.id)):
        return event_records
    archived_payment = await app.archive.find(payment.id)
    return () if archived_payment is None else archived_payment.changes


async def get_trace(app: _Context, payment_ref: str) -> PaymentTrace:
    """Return the full history of any payment, for the operator; payment_not_found."""
    payment_id = find_payment_id(app, payment_ref)
    payment = await load_payment(app, payment_id) if payment_id else None
    if payment is None:
        raise ApiError(ErrorCode.PAYMENT_NOT_FOUND)
    return PaymentTrace(
        payment=payment,
        merchant=await get_merchant(app, payment),
        refunds=await list_refunds(app, payment),
        changes=await _read_changes(app, payment),
        transaction=await _find_transaction(app, payment),
    )


async def _find_transaction(app: _Context, payment: Payment) -> PaymentTransaction | None:
    """Return the transaction, with its block if Florin sent it and never raised its fee."""
    if payment.tx_id is None or payment.option_unit is None:
        return None
    chain_id = payment.option_unit.removeprefix("caip19/").rpartition("/")[0]
    sender_and_block = await app.store.read(
        tx_lookup.find_sender_and_block(chain_id, payment.tx_id)
    )
    sender, block = sender_and_block or (None, None)
    head = app.settlers[chain_id].head if chain_id in app.settlers else 0
    deep = head - block + 1 if block is not None and head >= block else None
    return PaymentTransaction(chain_id, payment.tx_id, sender, block, deep)
