"""The operator's view of money that leaves its treasuries: list, create, refuse, resolve."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Protocol

from florin_server.accounts.service.own_accounts import find_reserved_role
from florin_server.accounts.store import destinations, merchants
from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.audit import AuditAction
from florin_server.domain.caip import canonicalize_account, canonicalize_asset, parse_asset
from florin_server.domain.errors import ApiError, ErrorCode, validation_error
from florin_server.domain.ids import generate_short_id
from florin_server.domain.ledger.postings import build_payout_posting
from florin_server.domain.payments.payment import Merchant, RefundStatus
from florin_server.domain.payouts.payout import Payout, PayoutKind, PayoutStatus
from florin_server.money.payouts.service.payout_changes import audit_payout
from florin_server.money.payouts.store import balances, held_money, payouts
from florin_server.money.refunds import store as refunds
from florin_server.rails.context import ChainContext
from florin_server.rails.types import Asset


class _Context(ChainContext, EventContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

# the size of one response; older payouts are history
_LIST_MAX = 1000
_NO_KEY = "this installation has no treasury key for the chain"


async def list_payouts(app: _Context, *, include_closed: bool) -> list[Payout]:
    """Return payouts, the newest first: those that are neither done nor refused, or all."""
    found_payouts = await app.store.scan(
        payouts.list_payouts(_LIST_MAX, include_closed=include_closed)
    )
    return [
        replace(payout, problem=payout.problem or _find_shortfall(app, payout))
        for payout in found_payouts
    ]


async def find_payout(app: _Context, payout_id: str) -> Payout | None:
    """Return a payout without the worker's own data; None for an unknown payout."""
    payout = await app.store.read(payouts.find(payout_id))
    if payout is None:
        return None
    problem = payout.problem or _find_shortfall(app, payout)
    return replace(payout, problem=problem, retry_at_us=0, lapses_at=None)


async def list_problems(app: _Context, chain_id: str) -> list[str]:
    """Return what keeps the payouts of a chain from being sent, in sentences."""
    counts: dict[str, int] = {}
    for chain, problem, count in await app.store.read(payouts.count_problems()):
        if chain == chain_id and (reason := problem or _describe_missing_key(app, chain)):
            counts[reason] = counts.get(reason, 0) + count
    return [f"payouts waiting: {n}, because {why}" for why, n in counts.items()]


@dataclass(frozen=True, slots=True)
class PayoutPlan:
    """The plan of a payout: `value` of the `owed_value` minor units of an asset, to an account."""

    merchant: Merchant
    chain_id: str
    asset: str
    account: str
    owed_value: int
    value: int


@dataclass(frozen=True, slots=True)
class PayoutPreview:
    """The preview of a payout that was not requested.

    `terms` are the asset's, None if no chain here offers it. `fee_payer` is a CAIP-10 account,
    empty if unknown here. `problem` would keep it from being sent now.
    """

    plan: PayoutPlan
    terms: Asset | None
    fee_payer: str
    problem: str


async def preview(app: _Context, merchant_id: str, asset: str, amount: int | None) -> PayoutPreview:
    """Return what `create` would send; it is refused as that would be."""
    plan = await app.store.read(_plan(app, merchant_id, _normalize_asset(asset), amount))
    rail = app.rails.get(plan.chain_id)
    treasury = rail.payouts if rail else None
    return PayoutPreview(
        plan=plan,
        terms=rail.assets.get(plan.asset) if rail else None,
        fee_payer=f"{plan.chain_id}:{treasury.gas_payer}" if treasury else "",
        problem=_describe_missing_key(app, plan.chain_id),
    )


async def create(
    app: _Context, merchant_id: str, asset: str, amount: int | None, account: str = ""
) -> Payout:
    """Pay a merchant what it is owed in an asset (CAIP-19), or a part of it in minor units.

    The money goes to the merchant's destination for that asset, which must equal `account` if
    given. merchant_not_found; params_validation for an invalid asset, without a destination, with
    another one, or for more than is owed.
    """
    work = _create(app, merchant_id, _normalize_asset(asset), amount, account)
    payout = await app.store.write(audit_payout(app, AuditAction.PAYOUT_CREATED, work))
    app.notifier.publish(Topic.PAYOUTS_DUE)
    return payout


async def refuse(app: _Context, payout_id: str) -> Payout:
    """Refuse a waiting payout for good; the refund that it pays fails, held money is kept.

    invalid_params for an unknown payout, invalid_state if it is not waiting any more, or if its
    refund had succeeded before a reorganization removed it.
    """
    refused_payout = await app.store.write(
        audit_payout(app, AuditAction.PAYOUT_REFUSED, _refuse(payout_id, app.clock.now_us()))
    )
    app.notifier.publish(Topic.PAYOUT, payout_id)
    return refused_payout


async def resolve(app: _Context, payout_id: str, *, is_paid: bool) -> Payout:
    """Resolve a payout whose final transaction proves nothing, by the operator's statement.

    A paid payout is done and posted; an unpaid one waits for another transaction. invalid_params
    for an unknown payout, invalid_state for one that is not stuck, or whose chain is not in the
    settings.
    """
    payout = await app.store.read(payouts.find(payout_id))
    if payout is None:
        raise ApiError(ErrorCode.INVALID_PARAMS, f"Payout {payout_id} not found")
    rail = app.rails.get(payout.chain_id)
    if rail is None:
        raise ApiError(
            ErrorCode.INVALID_STATE, f"The chain of payout {payout_id} is not in the settings"
        )
    message = (
        f"the operator reported that {payout.tx_id} {'paid it' if is_paid else 'moved nothing'}"
    )
    posting = build_payout_posting(payout, rail.treasury) if is_paid else None
    work = payouts.resolve(payout, posting, message, app.clock.now_us())
    resolved_payout = await app.store.write(
        audit_payout(app, AuditAction.PAYOUT_RESOLVED, work, paid=is_paid)
    )
    if resolved_payout is None:
        raise ApiError(
            ErrorCode.INVALID_STATE,
            f"Payout {payout_id} is {payout.status}: Florin reads its outcome from the chain",
        )
    _log.warning("payout %s: %s", payout_id, message)
    app.notifier.publish(Topic.PAYOUT, payout_id)
    app.notifier.publish(Topic.PAYOUTS_DUE)
    return resolved_payout


def _normalize_asset(asset: str) -> str:
    try:
        return canonicalize_asset(asset.removeprefix("caip19/"))
    except ValueError as fault:
        raise validation_error("asset", "must be a CAIP-19 asset type") from fault


@operation
def _plan(app: ChainContext, merchant_id: str, asset: str, amount: int | None) -> Op[PayoutPlan]:
    merchant = yield from merchants.find_merchant(merchant_id)
    if merchant is None:
        raise ApiError(ErrorCode.MERCHANT_NOT_FOUND)
    place = yield from destinations.find_destination(merchant_id, asset)
    if place is None:
        raise validation_error("asset", f"the merchant has no settlement destination for {asset}")
    chain_id, account = str(parse_asset(asset).chain), canonicalize_account(place.account)
    if what := find_reserved_role(app.rails.values(), account):
        raise validation_error("asset", f"the merchant's settlement destination is {what}")
    owed = yield from balances.get_available(merchant_id, asset)
    value = owed if amount is None else amount
    if not 0 < value <= owed:
        raise validation_error(
            "amount", f"at most {max(owed, 0)} minor units can be paid to the merchant now"
        )
    return PayoutPlan(merchant, chain_id, asset, account, owed, value)


@operation
def _create(
    app: _Context, merchant_id: str, asset: str, amount: int | None, account: str
) -> Op[Payout]:
    # two simultaneous requests must not be promised the same money
    yield from merchants.lock(merchant_id)
    plan = yield from _plan(app, merchant_id, asset, amount)
    if account and account != plan.account:
        raise validation_error(
            "account", f"the merchant's settlement destination is {plan.account} now"
        )
    payout = Payout(
        id=generate_short_id("pout_", app.randbytes),
        kind=PayoutKind.BALANCE,
        merchant_id=merchant_id,
        payment_id=None,
        live=plan.merchant.live,
        chain_id=plan.chain_id,
        asset=plan.asset,
        value=plan.value,
        account=plan.account,
        created_at_us=app.clock.now_us(),
    )
    yield from payouts.add(payout)
    return payout


@operation
def _refuse(payout_id: str, now_us: int) -> Op[Payout]:
    yield from _require_unpromised(payout_id)
    refused_payout = yield from payouts.refuse(payout_id, now_us)
    if refused_payout is None:
        payout = yield from payouts.find(payout_id)
        if payout is None:
            raise ApiError(ErrorCode.INVALID_PARAMS, f"Payout {payout_id} not found")
        raise ApiError(
            ErrorCode.INVALID_STATE, f"Payout {payout_id} is {payout.status} and cannot be refused"
        )
    if refused_payout.held_id is not None:
        yield from held_money.record_payout_refusal(refused_payout.held_id)
    return refused_payout


@operation
def _require_unpromised(payout_id: str) -> Op[None]:
    """Refuse, as part of an operation, a refund that was reported as final: invalid_state."""
    payout = (yield from payouts.lock([payout_id])).get(payout_id)
    if payout is None or payout.payment_id is None or payout.status is not PayoutStatus.WAITING:
        return
    refund = yield from refunds.find_refund(payout_id)
    if refund is not None and refund.status is RefundStatus.SUCCEEDED:
        raise ApiError(
            ErrorCode.INVALID_STATE, f"Refund {payout_id} succeeded before and cannot be refused"
        )


def _find_shortfall(app: ChainContext, payout: Payout) -> str | None:
    waits = payout.status is PayoutStatus.WAITING
    return (_describe_missing_key(app, payout.chain_id) or None) if waits else None


def _describe_missing_key(app: ChainContext, chain_id: str) -> str:
    """Return why a chain can pay nothing out; empty if it can, or is not here."""
    if not app.rails:
        return ""
    rail = app.rails.get(chain_id)
    if rail is None:
        return "the chain is not in the settings"
    return _NO_KEY if rail.payouts is None else rail.payouts.problem
