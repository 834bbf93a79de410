"""Options, found by the reference of their settlement events."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from sqlalchemy import Select, select, text

from florin_server.db.engine.query import Op, Statement, columns, is_in, operation, param
from florin_server.db.tables.payments import UNCONFIRMED_PREDICATE
from florin_server.db.tables.tables import payment_option_table, payment_table
from florin_server.domain.ids import get_payment_id_floor
from florin_server.domain.payments.payment import Payment, PaymentOption

# of this chain only: an equal call is a valid event on any other chain
_ON_CHAIN = (
    payment_option_table.c.chain_id == param("chain_id"),
    payment_option_table.c.reference.is_not(None),
)


class OfferedOption(NamedTuple):
    """A payment with one of its options."""

    payment: Payment
    option: PaymentOption


class OfferedReference(NamedTuple):
    """The reference of an option, with its newest known block."""

    reference: str
    head: int | None


_OFFERED = Statement(
    select(*payment_table.c, *columns(payment_option_table, PaymentOption))
    .join_from(
        payment_option_table, payment_table, payment_table.c.id == payment_option_table.c.payment_id
    )
    .where(is_in(payment_option_table.c.reference, "references"), *_ON_CHAIN),
    OfferedOption,
    payment=Payment,
    option=PaymentOption,
)


def _select_references() -> Select[Any]:
    return (
        select(payment_option_table.c.reference, payment_option_table.c.head)
        .join_from(
            payment_table,
            payment_option_table,
            payment_option_table.c.payment_id == payment_table.c.id,
        )
        .where(*_ON_CHAIN)
        .limit(param("most"))
    )


_PAYABLE = Statement(
    _select_references()
    .where(text(f"payment.{UNCONFIRMED_PREDICATE}"), payment_table.c.expires_at > param("now_s"))
    .order_by(payment_table.c.expires_at.desc()),
    OfferedReference,
)
_ENDED = Statement(
    _select_references()
    .where(payment_table.c.id >= param("made_from"), payment_table.c.expires_at >= param("ended_s"))
    .order_by(payment_table.c.id.desc()),
    OfferedReference,
)


@operation
def list_by_reference(chain_id: str, references: Collection[str]) -> Op[list[OfferedOption]]:
    """Return the options of a chain whose settlement events carry one of the references."""
    return (yield from _OFFERED.all(chain_id=chain_id, references=references))


@operation
def list_payable_references(chain_id: str, now_s: int, most: int) -> Op[list[OfferedReference]]:
    """Return references, with heads, of options that can still pay unconfirmed payments.

    At most `most`; those with the latest expiry come first.
    """
    return (yield from _PAYABLE.all(chain_id=chain_id, now_s=now_s, most=most))


@operation
def list_ended_references(
    chain_id: str, created_s: int, ended_s: int, most: int
) -> Op[list[OfferedReference]]:
    """Return references and heads of payments created and ended since two times.

    Both are Unix seconds. At most `most`; the newest come first.
    """
    return (
        yield from _ENDED.all(
            chain_id=chain_id,
            made_from=get_payment_id_floor(created_s * 1000),
            ended_s=ended_s,
            most=most,
        )
    )
