"""Who is to be told of changes of payments, written down in the transaction of the change."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import case, false, literal, or_, select

from florin_server.store.engine.query import Op, Statement, any_of, insert, operation, param
from florin_server.store.tables.tables import payment, webhook_delivery, webhook_endpoint

_COLUMNS = [column.name for column in webhook_delivery.c]
_end, _row = webhook_endpoint.c, webhook_delivery.c
_new = insert(webhook_delivery).from_select(
    _COLUMNS,
    select(
        _end.id,
        payment.c.id,
        payment.c.version - 1,
        payment.c.version,
        literal(0),
        payment.c.updated_at_us,
        payment.c.updated_at_us,
        false(),
        literal(0),
    )
    .join_from(
        payment,
        webhook_endpoint,
        or_(_end.owner == payment.c.merchant_id, _end.owner == payment.c.partner_id),
    )
    # ids of merchants may be chosen, so an owner alone proves nothing
    .where(
        any_of(payment.c.id, "ids"),
        _end.partner_id == payment.c.partner_id,
        _end.live == payment.c.live,
    )
    # whoever locks rows locks them in the same order
    .order_by(_end.id, payment.c.id),
)
_given_up = _row.next_at_us.is_(None)
_TELL = Statement(
    _new.on_conflict_do_update(
        index_elements=["endpoint_id", "payment_id"],
        set_={
            "newest": _new.excluded.newest,
            # one that was given up is tried again, from where it stopped
            "attempts": case((_given_up, 0), else_=_row.attempts),
            "since_us": case((_given_up, _new.excluded.since_us), else_=_row.since_us),
            "next_at_us": case((_given_up, _new.excluded.next_at_us), else_=_row.next_at_us),
        },
    )
)
_AGAIN = insert(webhook_delivery)
_REPLAY = Statement(
    _AGAIN.on_conflict_do_update(
        index_elements=["endpoint_id", "payment_id"],
        set_={
            "told": case((_row.told < _AGAIN.excluded.told, _row.told), else_=_AGAIN.excluded.told),
            "newest": _AGAIN.excluded.newest,
            "attempts": 0,
            "since_us": _AGAIN.excluded.since_us,
            "next_at_us": _AGAIN.excluded.next_at_us,
            "claimed": false(),
            # whoever tries it now no longer ends it
            "epoch": _row.epoch + 1,
        },
    )
)
_VERSION = Statement(
    select(payment.c.version).where(payment.c.id == param("payment_id")).with_for_update(read=True)
)


@operation
def tell(payment_ids: Collection[str]) -> Op[None]:
    """Part of an operation: the newest change of payments is to be told to whoever wants it."""
    yield _TELL(ids=payment_ids)


@operation
def replay(endpoint_id: str, payment_id: str, version: int, now_us: int) -> Op[int]:
    """Has an endpoint told a payment's changes again from a version on; answers the newest one."""
    rows = yield _VERSION(payment_id=payment_id)
    newest = int(rows[0][0])
    told = min(version, newest) - 1
    yield _REPLAY(
        endpoint_id=endpoint_id,
        payment_id=payment_id,
        told=told,
        newest=newest,
        attempts=0,
        since_us=now_us,
        next_at_us=now_us,
        claimed=False,
        epoch=0,
    )
    return newest
