"""Payments that ended, and to which nothing can happen without a new request.

Payments with an address of their own, or with late or held money, always stay: money can come to an
address at any time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, TextClause, exists, literal, not_, or_, select, text

from florin_server.db.engine.query import Op, Query, Statement, is_in, is_one_of, operation, param
from florin_server.db.tables.facilitation import OPEN_FACILITATION_PREDICATE
from florin_server.db.tables.payments import ConfirmationState
from florin_server.db.tables.tables import (
    archived_payment_table,
    confirmation_table,
    deposit_address_table,
    deposit_claim_table,
    facilitation_table,
    held_money_table,
    ledger_journal_table,
    nonce_account_table,
    payment_settled_table,
    payment_table,
    quarantined_item_table,
    refund_table,
    watched_address_table,
    watched_tx_table,
    webhook_delivery_table,
)
from florin_server.db.tables.webhooks import HAS_NEXT_ATTEMPT_PREDICATE
from florin_server.domain.archive import ArchiveMonth
from florin_server.domain.ledger import journals
from florin_server.domain.payments.payment import PaymentStatus, RefundStatus
from florin_server.domain.quarantine import QuarantinedItemKind, QuarantinedItemState
from florin_server.money.payments.store import simulation

_payment = payment_table.c
_journal_key = ledger_journal_table.c.idem_key
_SIMULATED = simulation.format_tx_id("")
_LATE, _SETTLE = (
    journals.key_prefix(kind) for kind in (journals.JournalKind.LATE, journals.JournalKind.SETTLE)
)


class PaymentVersion(NamedTuple):
    """A payment at one of its versions."""

    id: str
    version: int


def _has(*conditions: ColumnElement[bool] | TextClause) -> ColumnElement[bool]:
    return exists().where(*conditions).correlate(payment_table)


def _list_open_conditions() -> list[ColumnElement[bool]]:
    """Return the conditions of which none is true for a closed payment."""
    refund, item = refund_table.c, quarantined_item_table.c
    delivery = webhook_delivery_table.c
    money_arrived = or_(
        _has(payment_settled_table.c.payment_id == _payment.id),
        _payment.tx_id == literal(_SIMULATED) + _payment.id,
    )
    return [
        (_payment.status == PaymentStatus.SUCCEEDED) & not_(money_arrived),
        _has(
            refund.payment_id == _payment.id,
            or_(refund.status == RefundStatus.PENDING, refund.status == RefundStatus.PROCESSING),
        ),
        _has(
            confirmation_table.c.payment_id == _payment.id,
            confirmation_table.c.state != ConfirmationState.DONE,
        ),
        *(
            _has(table.c.payment_id == _payment.id)
            for table in (
                deposit_address_table,
                deposit_claim_table,
                held_money_table,
                nonce_account_table,
                watched_address_table,
            )
        ),
        _has(delivery.payment_id == _payment.id, text(HAS_NEXT_ATTEMPT_PREDICATE)),
        _has(
            delivery.payment_id == _payment.id,
            item.kind == QuarantinedItemKind.DELIVERY,
            item.subject == delivery.endpoint_id + literal("/") + _payment.id,
            item.state == QuarantinedItemState.SET_ASIDE,
        ),
        _has(facilitation_table.c.payment_id == _payment.id, text(OPEN_FACILITATION_PREDICATE)),
        _has(
            is_one_of(item.kind, (QuarantinedItemKind.PAYMENT, QuarantinedItemKind.EXPIRY)),
            item.subject == _payment.id,
            item.state == QuarantinedItemState.SET_ASIDE,
        ),
        _has(watched_tx_table.c.tx_hash == _payment.tx_id),
        # a range of the key: the journals have no index of payments
        _has(
            _journal_key > literal(_LATE) + _payment.id + ":",
            _journal_key < literal(_LATE) + _payment.id + ";",
        ),
        # a statement finds the owner of such an old journal through its payment
        _has(
            _journal_key == literal(_SETTLE) + _payment.id,
            ledger_journal_table.c.merchant_id.is_(None),
        ),
    ]


HAS_ENDED = is_one_of(_payment.status, [status for status in PaymentStatus if status.is_final])
"""The condition that a payment never leaves its status."""

IS_CLOSED = HAS_ENDED & not_(or_(*_list_open_conditions()))
"""The condition that a payment can be archived."""

_IDS = Statement(
    select(_payment.id)
    .where(
        _payment.id > param("after_id"),
        _payment.id < param("end_id"),
    )
    .order_by(_payment.id)
    .limit(param("most")),
    str,
)


_select_closed = (
    select(_payment.id, _payment.version)
    .where(is_in(_payment.id, "ids"), IS_CLOSED)
    .order_by(_payment.id)
)
_CLOSED = Statement(_select_closed, PaymentVersion)
_CLOSED_BEFORE = Statement(
    _select_closed.where(_payment.updated_at_us < param("before_us")), PaymentVersion
)
_key = archived_payment_table.c
_UNARCHIVED = Statement(
    select(_payment.id).where(
        _payment.id >= param("first_id"),
        _payment.id < param("end_id"),
        not_(IS_CLOSED & _has(_key.payment_id == _payment.id, _key.version == _payment.version)),
    ),
    str,
)
_LOCK = Statement(
    select(_payment.id).where(is_in(_payment.id, "ids")).order_by(_payment.id).with_for_update(),
    str,
)


def select_unarchived(month: ArchiveMonth) -> Query:
    """Return the query of the payments of a month that are in no file as they are now."""
    return Query(_UNARCHIVED, {"first_id": month.first_id, "end_id": month.end_id})


@operation
def list_ids(after_id: str, end_id: str, limit: int) -> Op[list[str]]:
    """Return the next payments after an id and before another, in the order of ids."""
    return (yield from _IDS.all(after_id=after_id, end_id=end_id, most=limit))


@operation
def list_closed(ids: Collection[str], before_us: int) -> Op[list[PaymentVersion]]:
    """Return which of the payments are closed and last changed before a time, by id."""
    return (yield from _CLOSED_BEFORE.all(ids=ids, before_us=before_us))


@operation
def lock_unchanged(payments: Sequence[PaymentVersion]) -> Op[list[str]]:
    """Lock payments, and return those that are closed and still have their version."""
    ids = [payment.id for payment in payments]
    yield from _LOCK.all(ids=ids)
    current = set((yield from _CLOSED.all(ids=ids)))
    return [payment.id for payment in payments if payment in current]
