"""Payments with their events, options and confirms."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Boolean, Select, Text, case, func, select, type_coerce

from florin_server.domain.exports.roots import Page, Root
from florin_server.domain.ids import made_from
from florin_server.domain.payments.payment import Status
from florin_server.store.engine.query import Op, Row, Statement, any_of, operation, param
from florin_server.store.exports.roots import Source, by_key
from florin_server.store.exports.watched import watched
from florin_server.store.tables.payments import ConfirmState
from florin_server.store.tables.tables import (
    confirm,
    issued,
    payment,
    payment_event,
    payment_option,
)

_OPEN = (Status.REQUIRES_ACTION, Status.PROCESSING)
# behind the columns of the table: what tells whether anything may still change
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


def _payments() -> Select[Row]:
    return select(*_PAYMENT)


_AFTER = Statement(
    _payments()
    # ids tell milliseconds only
    .where(payment.c.id > param("after"), payment.c.created_at_us > param("since_us"))
    .order_by(payment.c.id)
    .limit(param("limit"))
)
_SOME = Statement(_payments().where(any_of(payment.c.id, "ids")))
_EVENTS = Statement(
    select(
        payment_event.c.payment_id,
        payment_event.c.version,
        payment_event.c.status,
        payment_event.c.at_us,
        payment_event.c.cause,
        type_coerce(payment_event.c.detail, Text),  # as it was written
    )
    .where(any_of(payment_event.c.payment_id, "ids"))
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
    ).where(any_of(confirm.c.payment_id, "ids"))
)
_fetched = (
    select(
        issued.c.payment_id,
        issued.c.option_id,
        func.count().label("n"),
        func.min(issued.c.issued_at_us).label("first"),
        func.max(issued.c.issued_at_us).label("last"),
    )
    .where(any_of(issued.c.payment_id, "ids"))
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
    .where(any_of(payment_option.c.payment_id, "ids"))
    .order_by(payment_option.c.payment_id, payment_option.c.id)
)


@operation
def pages(after: str, since_us: int, limit: int) -> Op[Page]:
    """Payments in the order of their ids, which is that of the milliseconds they were made in."""
    begin = max(after, made_from(since_us // 1000))
    rows = yield _AFTER(after=begin, since_us=since_us, limit=limit)
    roots = yield from _with_all(rows)
    return Page(roots, rows[-1][_ID] if len(rows) == limit else None)


@operation
def some(ids: Collection[str]) -> Op[list[Root]]:
    """Some payments."""
    return (yield from _with_all((yield _SOME(ids=ids))))


def _with_all(rows: list[Row]) -> Op[list[Root]]:
    """Payments with what belongs to them.

    One is open as long as it waits, its settlement does, or a reorganisation may undo that.
    """
    paid = [(row[_UNIT].split("/")[1], row[_TX]) for row in rows if row[_UNIT] and row[_TX]]
    blocks = yield from watched(paid)
    roots = []
    for row in rows:
        block = blocks.get(row[_TX])
        root = Root(row[_ID], row[_CREATED], row[_STATUS] not in _OPEN and block is None)
        root.rows.append(("payments", row))
        if block is not None:
            # it may hold no transaction of ours, but the buyer's
            root.rows.append(("blocks", block))
        roots.append(root)
    found, asked = by_key(roots), {"ids": [row[_ID] for row in rows]}
    for row in (yield _EVENTS(**asked)):
        found[row[0]].rows.append(("events", row))
    for row in (yield _OPTIONS(**asked)):
        found[row[0]].rows.append(("options", row))
    for row in (yield _CONFIRMS(**asked)):
        root = found[row[0]]
        root.closed = root.closed and row[5] is ConfirmState.DONE
        root.rows.append(("confirmations", row))
    return roots


PAYMENTS = Source(
    "payments", ("payments", "events", "options", "confirmations", "blocks"), pages, some
)
