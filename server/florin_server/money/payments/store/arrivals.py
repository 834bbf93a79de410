"""A check whether a buyer's money may still be on its way to a payment that is over."""

from __future__ import annotations

from sqlalchemy import and_, exists, or_, select

from florin_server.db.engine.query import Op, Statement, operation, param
from florin_server.db.tables.tables import (
    confirmation_table,
    deposit_address_table,
    held_money_table,
    ledger_journal_table,
    resolved_build_table,
    watched_address_table,
)
from florin_server.domain.ledger import journals

_OF_PAYMENT = (
    # a wallet submitted a signature or a transaction, or the payment was seen on the chain
    confirmation_table.c.payment_id == param("payment_id"),
    # a wallet fetched what it signs, and may have sent it without a confirm
    resolved_build_table.c.payment_id == param("payment_id"),
    # or by a link, as a transaction that it sends itself
    watched_address_table.c.payment_id == param("payment_id"),
    # or sends to an address of its own
    deposit_address_table.c.payment_id == param("payment_id"),
    # money that came late, or from a blocked payer
    held_money_table.c.payment_id == param("payment_id"),
    and_(
        ledger_journal_table.c.idem_key > param("from_key"),
        ledger_journal_table.c.idem_key < param("to_key"),
        ledger_journal_table.c.payment_id == param("payment_id"),
    ),
)
_TRACES = Statement(
    select(*(or_(*(exists().where(column_element) for column_element in _OF_PAYMENT)),)), bool
)


@operation
def has_traces(payment_id: str) -> Op[bool]:
    """Return whether a signature, a transaction or money for a payment is known or possible."""
    # keys of late money, each event after a colon: an index has no other path to a payment
    from_key = journals.late_key(payment_id, "")
    to_key = f"{from_key[:-1]};"
    return (yield from _TRACES.single(payment_id=payment_id, from_key=from_key, to_key=to_key))
