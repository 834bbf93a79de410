"""Where the transactions stand that paid payments, written with what they end."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import delete, select

from florin_server.domain.receipts.effect import PaymentEffect
from florin_server.domain.settlement.chain_txs import Finding
from florin_server.store.engine.query import (
    Op,
    Statement,
    any_of,
    columns,
    operation,
    param,
    record,
    upsert,
)
from florin_server.store.tables.tables import payment_effect

_PUT = Statement(upsert(payment_effect, "payment_id"))
_GET = Statement(
    select(*columns(payment_effect, PaymentEffect)).where(
        payment_effect.c.payment_id == param("payment_id")
    )
)
_FORGET = Statement(delete(payment_effect).where(any_of(payment_effect.c.payment_id, "ids")))


@operation
def put(findings: Sequence[Finding]) -> Op[None]:
    """Part of an operation: writes down what paid payments, in place of what did before."""
    paid = [
        PaymentEffect(
            one.payment_id, one.at.tx_hash, one.at.block_number, one.at.block_hash, one.position
        )
        for one in findings
        if one.at is not None
    ]
    if paid:
        yield _PUT.many([record(one) for one in paid])


@operation
def get(payment_id: str) -> Op[PaymentEffect | None]:
    """What paid a payment; None if nothing did, or it is not known where."""
    rows = yield _GET(payment_id=payment_id)
    return PaymentEffect(*rows[0]) if rows else None


@operation
def forget(payment_ids: Collection[str]) -> Op[None]:
    """Part of an operation: a reorganisation undid what paid these."""
    if payment_ids:
        yield _FORGET(ids=payment_ids)
