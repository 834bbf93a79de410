"""What happened to a payment: for its merchant, and everything for the operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments.payment import Merchant, Payment, Refund
from florin_server.domain.payments.state import Event
from florin_server.flows.app import App
from florin_server.flows.payments.load import current, merchant_of, payment_id_of
from florin_server.flows.payouts.refund import list_refunds
from florin_server.store.payments import payments
from florin_server.store.payments.payments import Change
from florin_server.store.settlement import traced

# that a payer is blocked is for the operator alone
_BLOCKED: Final = frozenset(map(str, (Event.HELD, Event.RELEASED, Event.RETURNED, Event.KEPT)))
BY_OPERATOR: Final = "operator_decided"

__all__ = ["BY_OPERATOR", "Change", "Trace", "Transaction", "changes", "trace"]


@dataclass(frozen=True, slots=True)
class Transaction:
    """What brought a payment's money. Sender and block are None where they are not known."""

    chain_id: str
    hash: str
    sender: str | None
    block: int | None
    confirmations: int | None


@dataclass(frozen=True, slots=True)
class Trace:
    """Everything that is known of a payment."""

    payment: Payment
    merchant: Merchant
    refunds: Sequence[Refund]
    changes: Sequence[Change]
    transaction: Transaction | None


async def changes(app: App, payment: Payment) -> list[Change]:
    """What happened to a payment, as its merchant may know it; the oldest first."""
    told: list[Change] = []
    before = None
    for one in await app.store.read(payments.events(payment.id)):
        moved, before = one.status is not before, one.status
        if one.cause not in _BLOCKED:
            told.append(one)
        elif moved:
            told.append(replace(one, cause=BY_OPERATOR, detail=None))
    return told


async def trace(app: App, payment_ref: str) -> Trace:
    """The same for the operator, of anybody's payment; payment_not_found."""
    payment_id = payment_id_of(app, payment_ref)
    found = await app.store.reader.payment(payment_id) if payment_id else None
    if found is None:
        raise FlorinError(Code.PAYMENT_NOT_FOUND)
    payment = await current(app, found)
    return Trace(
        payment=payment,
        merchant=await merchant_of(app, payment),
        refunds=await list_refunds(app, payment),
        changes=await app.store.read(payments.events(payment.id)),
        transaction=await _transaction(app, payment),
    )


async def _transaction(app: App, payment: Payment) -> Transaction | None:
    """The transaction, with its block if it is one of ours whose fee was never raised."""
    if payment.tx_id is None or payment.option_unit is None:
        return None
    chain_id = payment.option_unit.removeprefix("caip19/").rpartition("/")[0]
    known = await app.store.read(traced.by_hash(chain_id, payment.tx_id))
    sender, block = known or (None, None)
    head = app.settlers[chain_id].head if chain_id in app.settlers else 0
    deep = head - block + 1 if block is not None and head >= block else None
    return Transaction(chain_id, payment.tx_id, sender, block, deep)
