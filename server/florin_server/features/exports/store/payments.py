"""The export of payments with their events, options and confirms."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Boolean, Select, Text, case, func, select, type_coerce

from florin_server.db.engine.query import (
    Op,
    Row,
    Statement,
    is_in,
    operation,
    param,
)
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
from florin_server.domain.payments.payment import PaymentStatus
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
)
_ID, _STATUS, _CREATED, _TX, _UNIT = 0, 4, 11, 17, 18


def _select_payments() -> Select[Row]:
    return select(*_PAYMENT)


_AFTER = Statement(
    _select_payments()
    # ids contain only milliseconds
    .where(payment.c.id > param("after"), payment.c.created_at_us > param("since_us"))
    .order_by(payment.c.id)
    .limit(param("limit"))
)
_FIND = Statement(_select_payments().where(is_in(payment.c.id, "ids")))
_EVENTS = Statement(
    select(
        payment_event.c.payment_id,
        payment_event.c.version,
        payment_event.c.status,
        payment_event.c.at_us,
        payment_event.c.cause,
        type_coerce(payment_event.c.detail, Text),  # as it was written
    )
    .where(is_in(payment_event.c.payment_id, "ids"))
    .order_by(payment_event.c.payment_id, payment_event.c.version)
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
    ).where(is_in(confirm.c.payment_id, "ids"))
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
        func.coalesce(_fetched.c.n, 0),
        _fetched.c.first,
        _fetched.c.last,
        type_coerce(case((payment.c.option_id == payment_option.c.id, 1), else_=0), Boolean),
    )
    .join_from(payment_option, payment, payment.c.id == payment_option.c.payment_id)
    .outerjoin(
        _fetched,
        (_fetched.c.payment_id == payment_option.c.payment_id)
        & (_fetched.c.option_id == payment_option.c.id),
    )
    .where(is_in(payment_option.c.payment_id, "ids"))
    .order_by(payment_option.c.payment_id, payment_option.c.id)
)


@operation
def read_page(after: str, since_us: int, limit: int) -> Op[ExportPage]:
    """Return a page of payments in id order, which is the order of creation in milliseconds."""
    begin = max(after, get_payment_id_floor(since_us // 1000))
    rows = yield _AFTER(after=begin, since_us=since_us, limit=limit)
    roots = yield from _to_roots(rows)
    return ExportPage(roots, rows[-1][_ID] if len(rows) == limit else None)


@operation
def read_roots(ids: Collection[str]) -> Op[list[ExportRoot]]:
    """Return the payments with the given ids."""
    return (yield from _to_roots((yield _FIND(ids=ids))))


def _to_roots(rows: list[Row]) -> Op[list[ExportRoot]]:
    """Return payments with their related rows.

    A payment is open while it or its settlement is pending, or a reorg can undo it.
    """
    paid = [(row[_UNIT].split("/")[1], row[_TX]) for row in rows if row[_UNIT] and row[_TX]]
    blocks = yield from find_watched_blocks(paid)
    roots = []
    for row in rows:
        block = blocks.get(row[_TX])
        root = ExportRoot(row[_ID], row[_CREATED], row[_STATUS] not in _OPEN and block is None)
        root.rows.append(("payments", row))
        if block is not None:
            # the block may contain the buyer's transaction, and none of ours
            root.rows.append(("blocks", block))
        roots.append(root)
    roots_by_key, params = index_by_key(roots), {"ids": [row[_ID] for row in rows]}
    for row in (yield _EVENTS(**params)):
        roots_by_key[row[0]].rows.append(("events", row))
    for row in (yield _OPTIONS(**params)):
        roots_by_key[row[0]].rows.append(("options", row))
    for row in (yield _CONFIRMS(**params)):
        root = roots_by_key[row[0]]
        root.closed = root.closed and row[5] is ConfirmationState.DONE
        root.rows.append(("confirmations", row))
    return roots


PAYMENTS = ExportSource(
    "payments", ("payments", "events", "options", "confirmations", "blocks"), read_page, read_roots
)
