"""The export of payments with their events, options and confirms."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from sqlalchemy import Boolean, Select, Text, case, func, select, type_coerce

from florin_server.db.engine.query import Op, Statement, is_in, operation, param
from florin_server.db.tables.payments import ConfirmationState
from florin_server.db.tables.tables import (
    confirm,
    issued,
    payment,
    payment_event,
    payment_option,
)
from florin_server.domain.exports.roots import ExportPage, ExportRoot
from florin_server.domain.ids import get_payment_id_floor
from florin_server.domain.payments.payment import CancellationReason, FailureCode, PaymentStatus
from florin_server.features.exports.store.roots import ExportSource, index_by_key
from florin_server.features.exports.store.watched import find_watched_blocks

_OPEN = (PaymentStatus.REQUIRES_ACTION, PaymentStatus.PROCESSING)
# after the table's columns: whether the payment can still change
_PAYMENT = (
    payment.c.id,
    payment.c.partner_id,
    payment.c.merchant_id,
    payment.c.live,
    payment.c.status,
    payment.c.version,
    payment.c.unit,
    payment.c.value,
    payment.c.reference_id,
    payment.c.success_url,
    payment.c.error_url,
    payment.c.created_at_us,
    payment.c.updated_at_us,
    (payment.c.expires_at * 1_000_000).label("expires_at_us"),
    payment.c.option_id,
    payment.c.payer,
    payment.c.provider_name,
    payment.c.tx_id,
    payment.c.option_unit,
    payment.c.option_value,
    payment.c.settled_value,
    payment.c.failure_code,
    payment.c.failure_detail,
    payment.c.cancelled_reason,
    payment.c.description,
    # as they were written
    type_coerce(payment.c.lines, Text).label("lines"),
    type_coerce(payment.c.metadata, Text).label("metadata"),
)


def _select_payments() -> Select[Any]:
    return select(*_PAYMENT)


class _Payment(NamedTuple):
    id: str
    partner_id: str
    merchant_id: str
    live: bool
    status: PaymentStatus
    version: int
    unit: str
    value: int
    reference_id: str
    success_url: str | None
    error_url: str | None
    created_at_us: int
    updated_at_us: int
    expires_at_us: int
    option_id: str | None
    payer: str | None
    provider_name: str | None
    tx_id: str | None
    option_unit: str | None
    option_value: int | None
    settled_value: int | None
    failure_code: FailureCode | None
    failure_detail: str | None
    cancelled_reason: CancellationReason | None
    description: str | None
    lines: str | None
    metadata: str | None


class _Event(NamedTuple):
    payment_id: str
    version: int
    status: PaymentStatus
    at_us: int
    cause: str
    detail: str | None


class _Confirmation(NamedTuple):
    payment_id: str
    option_id: str
    at_us: int
    chain_id: str | None
    from_block: int | None
    state: ConfirmationState
    app: str
    failures: int
    reverted: int


class _Option(NamedTuple):
    payment_id: str
    id: str
    payer: str
    chain_id: str
    asset: str
    method: str
    value: int
    fee: int
    fee_basis_points: int
    eta_s: int
    head: int | None
    created_at_us: int
    expires_at_us: int | None
    fetches: int
    first_fetched_at_us: int | None
    last_fetched_at_us: int | None
    is_confirmed: bool


_AFTER = Statement(
    _select_payments()
    # ids contain only milliseconds
    .where(payment.c.id > param("after"), payment.c.created_at_us > param("since_us"))
    .order_by(payment.c.id)
    .limit(param("limit")),
    _Payment,
)
_FIND = Statement(_select_payments().where(is_in(payment.c.id, "ids")), _Payment)
_EVENTS = Statement(
    select(
        payment_event.c.payment_id,
        payment_event.c.version,
        payment_event.c.status,
        payment_event.c.at_us,
        payment_event.c.cause,
        type_coerce(payment_event.c.detail, Text).label("detail"),  # as it was written
    )
    .where(is_in(payment_event.c.payment_id, "ids"))
    .order_by(payment_event.c.payment_id, payment_event.c.version),
    _Event,
)
_CONFIRMS = Statement(
    select(
        confirm.c.payment_id,
        confirm.c.option_id,
        confirm.c.at_us,
        confirm.c.chain_id,
        confirm.c.from_block,
        confirm.c.state,
        confirm.c.app,
        confirm.c.failures,
        confirm.c.reverted,
    ).where(is_in(confirm.c.payment_id, "ids")),
    _Confirmation,
)
_fetched = (
    select(
        issued.c.payment_id,
        issued.c.option_id,
        func.count().label("n"),
        func.min(issued.c.issued_at_us).label("first"),
        func.max(issued.c.issued_at_us).label("last"),
    )
    .where(is_in(issued.c.payment_id, "ids"))
    .group_by(issued.c.payment_id, issued.c.option_id)
    .subquery()
)
_is_confirmed = case((payment.c.option_id == payment_option.c.id, 1), else_=0)
_OPTIONS = Statement(
    select(
        payment_option.c.payment_id,
        payment_option.c.id,
        payment_option.c.payer,
        payment_option.c.chain_id,
        payment_option.c.asset,
        payment_option.c.method,
        payment_option.c.value,
        payment_option.c.fee,
        payment_option.c.fee_basis_points,
        payment_option.c.eta_s,
        payment_option.c.head,
        payment_option.c.created_at_us,
        (payment_option.c.expires_at * 1_000_000).label("expires_at_us"),
        func.coalesce(_fetched.c.n, 0).label("fetches"),
        _fetched.c.first.label("first_fetched_at_us"),
        _fetched.c.last.label("last_fetched_at_us"),
        type_coerce(case((payment.c.option_id == payment_option.c.id, 1), else_=0), Boolean).label(
            "is_confirmed"
        ),
    )
    .join_from(payment_option, payment, payment.c.id == payment_option.c.payment_id)
    .outerjoin(
        _fetched,
        (_fetched.c.payment_id == payment_option.c.payment_id)
        & (_fetched.c.option_id == payment_option.c.id),
    )
    .where(is_in(payment_option.c.payment_id, "ids"))
    .order_by(payment_option.c.payment_id, payment_option.c.id),
    _Option,
)


@operation
def read_page(after: str, since_us: int, limit: int) -> Op[ExportPage]:
    """Return a page of payments in id order, which is the order of creation in milliseconds."""
    begin = max(after, get_payment_id_floor(since_us // 1000))
    rows = yield from _AFTER.all(after=begin, since_us=since_us, limit=limit)
    roots = yield from _to_roots(rows)
    return ExportPage(roots, rows[-1].id if len(rows) == limit else None)


@operation
def read_roots(ids: Collection[str]) -> Op[list[ExportRoot]]:
    """Return the payments with the given ids."""
    return (yield from _to_roots((yield from _FIND.all(ids=ids))))


def _to_roots(rows: list[_Payment]) -> Op[list[ExportRoot]]:
    """Return payments with their related rows.

    A payment is open while it or its settlement is pending, or a reorg can undo it.
    """
    paid = [
        (row.option_unit.split("/")[1], row.tx_id) for row in rows if row.option_unit and row.tx_id
    ]
    blocks = yield from find_watched_blocks(paid)
    roots = []
    for row in rows:
        block = blocks.get(row.tx_id) if row.tx_id is not None else None
        closed = row.status not in _OPEN and block is None
        root = ExportRoot(row.id, row.created_at_us, closed, [("payments", row)])
        if block is not None:
            # the block may contain the buyer's transaction, and none of ours
            root.rows.append(("blocks", block))
        roots.append(root)
    roots_by_key, params = index_by_key(roots), {"ids": [row.id for row in rows]}
    for event in (yield from _EVENTS.all(**params)):
        roots_by_key[event.payment_id].rows.append(("events", event))
    for option in (yield from _OPTIONS.all(**params)):
        roots_by_key[option.payment_id].rows.append(("options", option))
    for confirmation in (yield from _CONFIRMS.all(**params)):
        root = roots_by_key[confirmation.payment_id]
        root.closed = root.closed and confirmation.state is ConfirmationState.DONE
        root.rows.append(("confirmations", confirmation))
    return roots


PAYMENTS = ExportSource(
    "payments", ("payments", "events", "options", "confirmations", "blocks"), read_page, read_roots
)
