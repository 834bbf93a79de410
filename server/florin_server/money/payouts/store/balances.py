"""What merchants can be paid out or owe: their balances, and the credit for refunds and fees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Select, select, text

from florin_server.db.engine.query import (
    Op,
    Statement,
    StoreError,
    is_one_of,
    operation,
    param,
    sum_u256,
)
from florin_server.db.tables.payouts import OWED_PREDICATE
from florin_server.db.tables.tables import fee_debtor_table, merchant_table, payout_table
from florin_server.domain.ledger import accounts
from florin_server.domain.payouts.payout import Payout, PayoutKind, PayoutStatus
from florin_server.money.ledger.store import ledger


class InsufficientBalance(StoreError):  # noqa: N818  (a state of the world, not a mistake)
    """The merchant's balance and credit do not cover the payout; nothing was written."""

    is_transient = True

    def __init__(self, missing: int, limit_name: str = "the merchant's balance and credit") -> None:
        super().__init__(f"{limit_name} lack {missing} minor units for this payout")


@dataclass(frozen=True, slots=True)
class CreditLimits:
    """The limits of merchants' debts in one asset, in minor units, each within the next."""

    merchant: int
    partner: int
    total: int


def _select_merchant_sum() -> Select[Any]:
    return select(sum_u256(payout_table.c.value)).where(
        text(OWED_PREDICATE),
        payout_table.c.merchant_id == param("merchant_id"),
        payout_table.c.asset == param("asset"),
        payout_table.c.held_id.is_(None),
    )


class _Debtor(NamedTuple):
    merchant_id: str
    partner_id: str | None


class _SubmittedSum(NamedTuple):
    merchant_id: str
    value: int


# a merchant owes money only after a refund or a return, or for fees
_REFUNDERS = Statement(
    select(payout_table.c.merchant_id, merchant_table.c.partner_id)
    .join_from(
        payout_table,
        merchant_table,
        merchant_table.c.id == payout_table.c.merchant_id,
        isouter=True,
    )
    .where(
        payout_table.c.asset == param("asset"),
        payout_table.c.kind != PayoutKind.BALANCE,
        is_one_of(payout_table.c.status, (PayoutStatus.SUBMITTED, PayoutStatus.DONE)),
    )
    .group_by(payout_table.c.merchant_id, merchant_table.c.partner_id),
    _Debtor,
)
_FEE_DEBTORS = Statement(
    select(fee_debtor_table.c.merchant_id, merchant_table.c.partner_id)
    .join_from(
        fee_debtor_table,
        merchant_table,
        merchant_table.c.id == fee_debtor_table.c.merchant_id,
        isouter=True,
    )
    .where(fee_debtor_table.c.asset == param("asset")),
    _Debtor,
)
_PARTNER = Statement(
    select(merchant_table.c.partner_id).where(merchant_table.c.id == param("merchant_id")), str
)
_UNDER_WAY_ALL = Statement(
    select(payout_table.c.merchant_id, sum_u256(payout_table.c.value).label("value"))
    .where(
        payout_table.c.status == PayoutStatus.SUBMITTED,
        payout_table.c.asset == param("asset"),
        payout_table.c.held_id.is_(None),
    )
    .group_by(payout_table.c.merchant_id),
    _SubmittedSum,
)
_UNDER_WAY = Statement.nullable(
    _select_merchant_sum().where(payout_table.c.status == PayoutStatus.SUBMITTED), int
)
_ASKED_FOR = Statement.nullable(_select_merchant_sum(), int)


@operation
def get_available(merchant_id: str, asset: str) -> Op[int]:
    """Return what a merchant is owed and has not requested; below zero if it owes money."""
    requested = yield from _ASKED_FOR.single(merchant_id=merchant_id, asset=asset)
    return (yield from _get_owed(merchant_id, asset)) - (requested or 0)


@operation
def find_shortfall(payout: Payout, credit: CreditLimits | None) -> Op[InsufficientBalance | None]:
    """Return what a payout lacks; None if the merchant's balance and credit cover it.

    A merchant's balance is what it is owed less what is on its way. `credit` limits the debts for
    refunds and returns, None if they have no limit. Merchants cost nothing to create, so a
    merchant's debt also counts against its partner's limit and the total.
    """
    goes_back = payout.kind is not PayoutKind.BALANCE
    if payout.backed or (goes_back and credit is None):
        return None
    sent = yield from _UNDER_WAY.single(merchant_id=payout.merchant_id, asset=payout.asset)
    owes = payout.value - ((yield from _get_owed(payout.merchant_id, payout.asset)) - (sent or 0))
    most = credit.merchant if goes_back and credit is not None else 0
    if owes > most:
        return InsufficientBalance(owes - most)
    if owes <= 0 or credit is None:
        return None
    of_partner, of_all = yield from _sum_debts(payout.merchant_id, payout.asset, owes)
    if of_partner > credit.partner:
        whose = "the balances and the credit of the partner's merchants"
        return InsufficientBalance(of_partner - credit.partner, whose)
    if of_all > credit.total:
        return InsufficientBalance(
            of_all - credit.total, "the balances and the credit of all partners"
        )
    return None


@operation
def get_credit_left(merchant_id: str, asset: str, credit: CreditLimits) -> Op[int]:
    """Return how much more a merchant could owe in an asset; below zero if it owes too much.

    Payouts that it requested count as paid.
    """
    available = yield from get_available(merchant_id, asset)
    of_partner, of_all = yield from _sum_debts(merchant_id, asset, max(0, -available))
    return min(
        available + credit.merchant,
        max(0, available) + credit.partner - of_partner,
        max(0, available) + credit.total - of_all,
    )


def _sum_debts(merchant_id: str, asset: str, owes: int) -> Op[tuple[int, int]]:
    """Return the debts of the partner's merchants and of all, if the merchant `owes` so much."""
    partner_id = yield from _PARTNER.first(merchant_id=merchant_id)
    if partner_id is None:
        partner_id = merchant_id
    of_partner = of_all = owes
    for (debtor_id, partner), debt in (yield from _list_debts(asset)).items():
        if debtor_id != merchant_id:
            of_all += debt
            of_partner += debt if partner == partner_id else 0
    return of_partner, of_all


def _list_debts(asset: str) -> Op[dict[tuple[str, str], int]]:
    """Return merchants' debts in an asset, with open payouts, by (merchant, partner)."""
    debtors = {
        (merchant_id, partner_id or merchant_id)
        for merchant_id, partner_id in (
            *(yield from _REFUNDERS.all(asset=asset)),
            *(yield from _FEE_DEBTORS.all(asset=asset)),
        )
    }
    sent = dict((yield from _UNDER_WAY_ALL.all(asset=asset)))
    named = {accounts.merchant(merchant_id) for merchant_id, _ in debtors}
    balances = yield from ledger.get_balances(named, asset)
    debts = {
        (merchant_id, partner_id): balances[accounts.merchant(merchant_id)]
        + sent.get(merchant_id, 0)
        for merchant_id, partner_id in debtors
    }
    return {key: debt for key, debt in debts.items() if debt > 0}


def _get_owed(merchant_id: str, asset: str) -> Op[int]:
    return -(yield from ledger.get_balance(accounts.merchant(merchant_id), asset))
