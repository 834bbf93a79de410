"""The on-chain positions of paying transactions, written when they end payments."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import delete, select

from florin_server.db.engine.query import (
    Command,
    Op,
    Statement,
    columns,
    is_in,
    operation,
    param,
    to_row_params,
    upsert,
)
from florin_server.db.tables.tables import payment_effect_table
from florin_server.domain.receipts.effect import PaymentEffect
from florin_server.domain.settlement.chain_txs import PaymentOutcome

_PUT = Command(upsert(payment_effect_table, "payment_id"))
_GET = Statement(
    select(*columns(payment_effect_table, PaymentEffect)).where(
        payment_effect_table.c.payment_id == param("payment_id")
    ),
    PaymentEffect,
)
_FORGET = Command(
    delete(payment_effect_table).where(is_in(payment_effect_table.c.payment_id, "ids"))
)


@operation
def put(payment_outcomes: Sequence[PaymentOutcome]) -> Op[None]:
    """Record what paid payments, in place of earlier records; part of an operation."""
    paid = [
        PaymentEffect(
            outcome.payment_id,
            outcome.watched_transaction.tx_hash,
            outcome.watched_transaction.block_number,
            outcome.watched_transaction.block_hash,
            outcome.position,
        )
        for outcome in payment_outcomes
        if outcome.watched_transaction is not None
    ]
    if paid:
        yield _PUT.bind_many([to_row_params(each_payment_effect) for each_payment_effect in paid])


@operation
def find(payment_id: str) -> Op[PaymentEffect | None]:
    """Return what paid a payment; None if nothing did, or its position is unknown."""
    return (yield from _GET.first(payment_id=payment_id))


@operation
def forget(payment_ids: Collection[str]) -> Op[None]:
    """Delete the records of payments that a reorg undid; part of an operation."""
    if payment_ids:
        yield _FORGET(ids=payment_ids)
