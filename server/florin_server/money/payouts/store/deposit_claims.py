"""Claims of buyers for held money: filed by a payment's link, decided by merchant or operator.

Every change of a claim holds the lock of its held money, and a new one those of all held money of
its payment. Read claims after that.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import case, or_, select, update

from florin_server.db.engine.query import (
    Command,
    Op,
    Statement,
    insert,
    is_in,
    operation,
    param,
)
from florin_server.db.tables.tables import deposit_claim_table
from florin_server.domain.payouts.deposit_claims import (
    ClaimDecider,
    DepositClaim,
    DepositClaimState,
)

_row = deposit_claim_table.c
_SELECT = select(*_row).order_by(_row.created_at_us, _row.id)
_PUT = Command(insert(deposit_claim_table))
_GET = Statement(select(*_row).where(_row.id == param("id_")), DepositClaim)
_OF_PAYMENT = Statement(_SELECT.where(_row.payment_id == param("payment_id")), DepositClaim)
_OF_HELD_MONEY = Statement(_SELECT.where(is_in(_row.held_id, "held_ids")), DepositClaim)
_REJECT = Statement(
    update(deposit_claim_table)
    .where(_row.id == param("id_"), _row.state == DepositClaimState.OPEN)
    .values(
        state=DepositClaimState.REJECTED, decided_at_us=param("now_us"), decided_by=param("decider")
    )
    .returning(*_row),
    DepositClaim,
)
_CLOSE = Command(
    update(deposit_claim_table)
    .where(
        _row.held_id == param("held_id"),
        # the operator can return money to an account whose claim the merchant rejected
        or_(_row.state == DepositClaimState.OPEN, _row.account == param("receiver")),
    )
    .values(
        state=case(
            (_row.account == param("receiver"), DepositClaimState.CONFIRMED),
            else_=DepositClaimState.REJECTED,
        ),
        decided_at_us=param("now_us"),
        decided_by=param("decider"),
    )
)
_WITHDRAW = Command(
    update(deposit_claim_table)
    .where(_row.held_id == param("held_id"))
    .values(
        state=DepositClaimState.REJECTED,
        decided_at_us=param("now_us"),
        decided_by=ClaimDecider.FLORIN,
    )
)


@operation
def create(claim: DepositClaim) -> Op[None]:
    """Store a claim for locked money; part of an operation."""
    yield _PUT(claim)


@operation
def find(claim_id: str) -> Op[DepositClaim | None]:
    """Return a claim by its id; None if it does not exist."""
    return (yield from _GET.first(id_=claim_id))


@operation
def list_of_payment(payment_id: str) -> Op[list[DepositClaim]]:
    """Return the claims of a payment, the oldest first."""
    return (yield from _OF_PAYMENT.all(payment_id=payment_id))


@operation
def list_of_held_money(held_ids: Collection[str]) -> Op[list[DepositClaim]]:
    """Return the claims for held money, the oldest first."""
    return (yield from _OF_HELD_MONEY.all(held_ids=held_ids))


@operation
def reject(claim_id: str, decider: ClaimDecider, now_us: int) -> Op[DepositClaim | None]:
    """Reject a claim; return None if it is not open. Part of an operation."""
    return (yield from _REJECT.first(id_=claim_id, decider=decider, now_us=now_us))


@operation
def close(held_id: str, receiver: str, decider: ClaimDecider, now_us: int) -> Op[None]:
    """Close the claims for money that was decided about; part of an operation.

    The claim of the account that receives the money is confirmed, and open ones are rejected.
    """
    yield _CLOSE(held_id=held_id, receiver=receiver, decider=decider, now_us=now_us)


@operation
def withdraw(held_id: str, now_us: int) -> Op[None]:
    """Reject all claims for money that a reorganization removed; part of an operation."""
    yield _WITHDRAW(held_id=held_id, now_us=now_us)
