"""Confirmed payments that wait for their end on chain, with all that settles them."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Select, select, text

from florin_server.db.engine.query import columns, param
from florin_server.db.tables.payments import UNSETTLED_PREDICATE, ConfirmationState
from florin_server.db.tables.tables import confirm as confirmation_table
from florin_server.db.tables.tables import payment as payment_table
from florin_server.db.tables.tables import payment_option
from florin_server.domain.payments.payment import Confirmation, Payment, PaymentOption
from florin_server.domain.settlement.chain_txs import SettlementItem

NOT_HELD = confirmation_table.c.state != ConfirmationState.HELD


def select_items() -> Select[*tuple[Any, ...]]:
    """Build a query of a chain's payments that wait for their end on chain, the oldest first."""
    return (
        select(
            *payment_table.c,
            *columns(payment_option, PaymentOption),
            *columns(confirmation_table, Confirmation),
            confirmation_table.c.from_block,
            confirmation_table.c.app,
            confirmation_table.c.failures,
            confirmation_table.c.reverted,
        )
        .join_from(
            confirmation_table, payment_table, payment_table.c.id == confirmation_table.c.payment_id
        )
        .join(
            payment_option,
            (payment_option.c.payment_id == confirmation_table.c.payment_id)
            & (payment_option.c.id == confirmation_table.c.option_id),
        )
        .where(
            text(UNSETTLED_PREDICATE), NOT_HELD, confirmation_table.c.chain_id == param("chain_id")
        )
        .order_by(confirmation_table.c.at_us, confirmation_table.c.payment_id)
    )


class SettlementRow(NamedTuple):
    """A confirmed payment with its option, and the counts of its transactions."""

    payment: Payment
    option: PaymentOption
    confirmation: Confirmation
    from_block: int
    app: str
    failures: int
    reverted: int


def to_settlement_item(row: SettlementRow) -> SettlementItem:
    """Return the payment to settle; one that failed before shares no transaction."""
    return SettlementItem(
        row.payment,
        row.option,
        row.confirmation,
        row.from_block,
        row.app,
        row.failures,
        isolated=row.failures > 0 or row.reverted > 0,
    )
