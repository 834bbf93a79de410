"""A rolling upgrade: processes of the earlier release still work on this release's store.

A migration leaves a mark. While it exists, nothing is written that an older process would misread:
a payment's second refund, settlements of payments, endpoints of all types. Once no older process is
alive, the mark is removed, and the data that those processes left out is filled in page by page.

Processes report the schema that they know. A process that is killed counts for a minute.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import delete, select, update

from florin_server.db import installation
from florin_server.db.engine.query import (
    Command,
    Op,
    Statement,
    insert,
    is_in,
    isolated,
    operation,
    param,
)
from florin_server.db.tables.tables import (
    covering_payout_table,
    installation_table,
    payment_settled_table,
    payment_table,
    payout_table,
    process_table,
    refund_table,
    webhook_endpoint_table,
)
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.domain.payouts.payout import PayoutKind, PayoutStatus
from florin_server.domain.webhooks.endpoint import BODY_FORMAT
from florin_server.money.outbox.store import events, outbox

# payments that one transaction reads
PAGE: Final = 500
# the schema from which on processes know what is held back, and when it was created (Unix µs)
_MARK: Final = "older_releases"
# that time again, and the last payment that was filled in
_FILLING: Final = "filling"

_VALUE = select(installation_table.c.value).where(installation_table.c.name == param("name_"))


class _Settlement(NamedTuple):
    payment_id: str
    at_us: int


# the value that an operation read stays valid until it ends
_SHARE = Statement(_VALUE.with_for_update(read=True), str)
_LOCK = Statement(_VALUE.with_for_update(), str)
_FORGET = Command(delete(installation_table).where(installation_table.c.name == param("name_")))
_OLDER = Statement(
    select(process_table.c.id).where(process_table.c.revision < param("revision_")).limit(1), str
)
# the balances that were paid out meanwhile, in the form that payouts record now
_COVERING = Command(
    insert(covering_payout_table)
    .from_select(
        [column.name for column in covering_payout_table.c],
        select(
            payout_table.c.completed_at_us,
            payout_table.c.id,
            payout_table.c.merchant_id,
            payout_table.c.asset,
            payout_table.c.value,
            payout_table.c.tx_id,
        ).where(
            payout_table.c.kind == PayoutKind.BALANCE,
            payout_table.c.status == PayoutStatus.DONE,
            payout_table.c.completed_at_us >= param("since_us"),
        ),
    )
    .on_conflict_do_nothing()
)
_PAGE = Statement(
    select(payment_table.c.id)
    .where(payment_table.c.id > param("after"))
    .order_by(payment_table.c.id)
    .limit(param("limit")),
    str,
)
# every other writer of an event of an ended payment locks it too
_DIRECT = Statement(
    select(payment_table.c.id)
    .where(
        is_in(payment_table.c.id, "ids"),
        payment_table.c.status == PaymentStatus.SUCCEEDED,
        payment_table.c.settled_value.is_not(None),
        payment_table.c.option_unit.is_not(None),
    )
    .order_by(payment_table.c.id)
    .with_for_update(),
    str,
)
# events of refunds keep their places
_SETTLE = Statement(
    insert(payment_settled_table)
    .from_select(
        [column.name for column in payment_settled_table.c],
        select(
            payment_table.c.id,
            payment_table.c.updated_at_us,
            payment_table.c.tx_id,
            payment_table.c.option_unit,
            payment_table.c.settled_value,
            events.count_later_events(),
            payment_table.c.partner_id,
            payment_table.c.live,
        )
        .where(is_in(payment_table.c.id, "ids"))
        .order_by(payment_table.c.id),
    )
    .on_conflict_do_nothing()
    .returning(payment_settled_table.c.payment_id, payment_settled_table.c.at_us),
    _Settlement,
)
_paid = select(payment_table.c.value, payment_table.c.option_value).where(
    payment_table.c.id == refund_table.c.payment_id
)
# they refunded the whole payment, and stored no amount in its own unit
_WHOLE = Command(
    update(refund_table)
    .where(
        is_in(refund_table.c.payment_id, "ids"),
        refund_table.c.payment_value == 0,
        refund_table.c.value
        == _paid.with_only_columns(payment_table.c.option_value).scalar_subquery(),
    )
    .values(payment_value=_paid.with_only_columns(payment_table.c.value).scalar_subquery())
)
_FORMAT = Command(
    update(webhook_endpoint_table)
    .where(webhook_endpoint_table.c.version != BODY_FORMAT)
    .values(version=BODY_FORMAT)
)


@operation
def is_held() -> Op[bool]:
    """Return whether an older process may work on the store; part of an operation.

    The answer stays valid until the operation ends.
    """
    if (yield from installation.find_value(_MARK)) is None:
        return False
    return (yield from _SHARE.any(name_=_MARK))


@operation
def is_pending() -> Op[bool]:
    """Return whether an upgrade is unfinished: data is held back, or must be filled in."""
    if (yield from installation.find_value(_MARK)) is not None:
        return True
    return (yield from installation.find_value(_FILLING)) is not None


@isolated
def release(*, alone: bool) -> Op[bool]:
    """Stop holding data back unless an older process is alive; return False if one is.

    `alone` says that no other process can have the store open.
    """
    mark = yield from _LOCK.first(name_=_MARK)
    if mark is None:
        return True
    revision, since_us = mark.split(" ")
    if not alone and (yield from _OLDER.any(revision_=revision)):
        return False
    yield _FORGET(name_=_MARK)
    yield from installation.put_value(_FILLING, f"{since_us} ")
    yield _COVERING(since_us=int(since_us))
    return True


@isolated
def fill_page() -> Op[bool]:
    """Fill in one page of what older processes left out; return False once all is filled in.

    Endpoints receive `payment.settled` for payments that ended after the migration.
    """
    filling = yield from _LOCK.first(name_=_FILLING)
    if filling is None:
        return False
    since_us, after = filling.split(" ")
    ids = yield from _PAGE.all(after=after, limit=PAGE)
    if not ids:
        yield _FORMAT()
        yield _FORGET(name_=_FILLING)
        return False
    direct = yield from _DIRECT.all(ids=ids)
    settled = yield from _SETTLE.all(ids=direct)
    new = [payment_id for payment_id, at_us in settled if at_us >= int(since_us)]
    if new:
        yield from outbox.enqueue_settlements(new)
    yield _WHOLE(ids=ids)
    yield from installation.put_value(_FILLING, f"{since_us} {ids[-1]}")
    return True
