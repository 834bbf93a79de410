"""Audit entries about payouts and held money."""

from __future__ import annotations

from typing import TypeVar

from florin_server.accounts.store import merchants
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, Operation, operation
from florin_server.domain.audit import AuditAction, AuditChange, AuditObject, list_changes
from florin_server.domain.payouts.held_money import HeldMoney, HeldMoneyState
from florin_server.domain.payouts.payout import Payout, PayoutKind
from florin_server.operations.service.audit_log import AuditStamp, create_stamp, record

P = TypeVar("P", bound=Payout | None)

_VERDICTS = {
    HeldMoneyState.RELEASED: AuditAction.HELD_MONEY_RELEASED,
    HeldMoneyState.RETURNED: AuditAction.HELD_MONEY_RETURNED,
    HeldMoneyState.KEPT: AuditAction.HELD_MONEY_KEPT,
}


def audit_payout(
    app: StorageContext,
    action: AuditAction,
    work: Operation[P],
    **about: object,
) -> Operation[P]:
    """Return work on a payout that also records it, if there is one."""
    return _run_audited(action, work, about, create_stamp(app))


@operation
def _run_audited(
    action: AuditAction,
    work: Operation[P],
    about: dict[str, object],
    stamp: AuditStamp,
) -> Op[P]:
    payout = yield from work
    if payout is None:
        return payout
    merchant = None
    if payout.kind is not PayoutKind.RETURN:
        # merchants hear nothing of money that is held from blocked payers
        merchant = yield from merchants.find_merchant(payout.merchant_id)
    changes = list_changes({}, {"kind": payout.kind, "amount": _format_amount(payout), **about})
    partner_id = None if merchant is None else merchant.partner_id
    live = None if merchant is None else payout.live
    change = AuditChange(action, AuditObject.PAYOUT, payout.id, partner_id, live, changes)
    yield from record(stamp, change)
    return payout


def describe_verdict(money: HeldMoney, verdict: HeldMoneyState) -> AuditChange | None:
    """Return the entry of a verdict, which only the operator sees."""
    action = _VERDICTS.get(verdict)
    if action is None:
        return None
    about = {"payment": money.payment_id, "amount": f"{money.held} caip19/{money.asset}"}
    return AuditChange(action, AuditObject.HELD_MONEY, money.id, changes=list_changes({}, about))


def _format_amount(payout: Payout) -> str:
    return f"{payout.value} caip19/{payout.asset}"
