"""What was offered, found by what its settlement event carries."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Select, select, text

from florin_server.domain.ids import made_from
from florin_server.domain.payments.payment import Option, Payment
from florin_server.store.engine.query import Op, Row, Statement, any_of, columns, operation, param
from florin_server.store.payments.payments import option_of
from florin_server.store.tables.payments import UNCONFIRMED
from florin_server.store.tables.tables import payment, payment_option

_OPTION_AT = len(payment.c)
# of this chain only: the same call is as good an event on any other
_ON_CHAIN = (
    payment_option.c.chain_id == param("chain_id"),
    payment_option.c.reference.is_not(None),
)
_OFFERED = Statement(
    select(*payment.c, *columns(payment_option, Option))
    .join_from(payment_option, payment, payment.c.id == payment_option.c.payment_id)
    .where(any_of(payment_option.c.reference, "references"), *_ON_CHAIN)
)


def _references() -> Select[Row]:
    return (
        select(payment_option.c.reference, payment_option.c.head)
        .join_from(payment, payment_option, payment_option.c.payment_id == payment.c.id)
        .where(*_ON_CHAIN)
        .limit(param("most"))
    )


_PAYABLE = Statement(
    _references()
    .where(text(f"payment.{UNCONFIRMED}"), payment.c.expires_at > param("now_s"))
    .order_by(payment.c.expires_at.desc())
)
_ENDED = Statement(
    _references()
    .where(payment.c.id >= param("made_from"), payment.c.expires_at >= param("ended_s"))
    .order_by(payment.c.id.desc())
)


@operation
def by_reference(chain_id: str, references: Collection[str]) -> Op[list[tuple[Payment, Option]]]:
    """The options of a chain whose settlement events carry one of the references."""
    rows = yield _OFFERED(chain_id=chain_id, references=references)
    return [(Payment(*row[:_OPTION_AT]), option_of(row[_OPTION_AT:])) for row in rows]


@operation
def payable(chain_id: str, now_s: int, most: int) -> Op[list[tuple[str, int | None]]]:
    """References, with the heads, of what can still pay a payment that nobody confirmed.

    So many at most; those that last longest come first.
    """
    rows = yield _PAYABLE(chain_id=chain_id, now_s=now_s, most=most)
    return [(reference, head) for reference, head in rows]


@operation
def ended(chain_id: str, made_s: int, ended_s: int, most: int) -> Op[list[tuple[str, int | None]]]:
    """The same of payments that were made, and whose time ended, after two seconds each.

    So many at most; the newest come first.
    """
    rows = yield _ENDED(
        chain_id=chain_id, made_from=made_from(made_s * 1000), ended_s=ended_s, most=most
    )
    return [(reference, head) for reference, head in rows]
