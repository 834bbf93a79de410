"""The operator's view of what leaves its treasuries: listed, begun, refused, resolved."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from florin_server.domain.caip import canonical_account, canonical_asset, parse_asset
from florin_server.domain.errors import Code, FlorinError, invalid
from florin_server.domain.ids import short_id
from florin_server.domain.ledger.postings import paid_out
from florin_server.domain.payments.payment import Merchant, RefundStatus
from florin_server.domain.payouts.payout import Payout, PayoutKind, PayoutStatus
from florin_server.flows.accounts.own_accounts import reserved
from florin_server.flows.app import App
from florin_server.rails.types import Asset
from florin_server.store.accounts import destinations, merchants
from florin_server.store.engine.query import Op, operation
from florin_server.store.payouts import held_money, payouts, refunds

_log = logging.getLogger(__name__)

# what one answer holds; older ones are history
_LISTED_MAX = 1000
_NO_KEY = "the treasury's key on this chain is not here"


async def listed(app: App, *, all_: bool) -> list[Payout]:
    """Payouts, the newest first: those that are neither done nor refused, or all."""
    found = await app.store.survey(payouts.listed(_LISTED_MAX, all_=all_))
    return [replace(one, problem=one.problem or _lacking(app, one)) for one in found]


async def seen(app: App, payout_id: str) -> Payout | None:
    """A payout as it is told, without what is the worker's own; None for an unknown one."""
    known = await app.store.read(payouts.get(payout_id))
    if known is None:
        return None
    problem = known.problem or _lacking(app, known)
    return replace(known, problem=problem, retry_at_us=0, lapses_at=None)


async def problems(app: App, chain_id: str) -> list[str]:
    """What keeps the payouts of a chain from being sent, in sentences."""
    counts: dict[str, int] = {}
    for chain, problem, count in await app.store.read(payouts.problems()):
        if chain == chain_id and (told := problem or _missing_key(app, chain)):
            counts[told] = counts.get(told, 0) + count
    return [f"payouts that wait: {n}, because {why}" for why, n in counts.items()]


@dataclass(frozen=True, slots=True)
class PayoutPlan:
    """What a payout sends: `value` of the `owed` minor units of an asset, to an account."""

    merchant: Merchant
    chain_id: str
    asset: str
    account: str
    owed: int
    value: int


@dataclass(frozen=True, slots=True)
class PayoutPreview:
    """A payout that was not asked for, and how it would go.

    `terms` are the asset's, None for one that no chain here offers. `fee_payer` is a CAIP-10
    account, empty if it is not known here. `problem` would keep it from being sent now.
    """

    plan: PayoutPlan
    terms: Asset | None
    fee_payer: str
    problem: str


async def preview(app: App, merchant_id: str, asset: str, amount: int | None) -> PayoutPreview:
    """Return what `create` would send; it is refused as that would be."""
    plan = await app.store.read(_plan(app, merchant_id, _canonical(asset), amount))
    rail = app.rails.get(plan.chain_id)
    treasury = rail.payouts if rail else None
    return PayoutPreview(
        plan=plan,
        terms=rail.assets.get(plan.asset) if rail else None,
        fee_payer=f"{plan.chain_id}:{treasury.gas_payer}" if treasury else "",
        problem=_missing_key(app, plan.chain_id),
    )


async def create(
    app: App, merchant_id: str, asset: str, amount: int | None, account: str = ""
) -> Payout:
    """Pays a merchant what it is owed in an asset (CAIP-19), or a part of it in minor units.

    It goes to the merchant's destination for that asset, which has to be `account` if that is
    given. merchant_not_found; params_validation for an asset that is none, without destination,
    with another one, or for more than is owed.
    """
    new = await app.store.write(_create(app, merchant_id, _canonical(asset), amount, account))
    app.wake_payouts()
    return new


async def refuse(app: App, payout_id: str) -> Payout:
    """Calls a waiting payout off for good; the refund that it pays fails, held money is kept.

    invalid_params for an unknown one, invalid_state for one that is not waiting any more, or whose
    refund had succeeded before a reorganisation undid it.
    """
    refused = await app.store.write(_refuse(payout_id, app.clock.now_us()))
    app.ring(payout_id)
    return refused


async def resolve(app: App, payout_id: str, *, paid: bool) -> Payout:
    """Ends a payout whose transaction is final and does not prove it, by the operator's word.

    One that was paid is done and booked; one that was not waits, and is paid by another
    transaction. invalid_params for an unknown one, invalid_state for one that is not stuck, or
    whose chain is not served now.
    """
    known = await app.store.read(payouts.get(payout_id))
    if known is None:
        raise FlorinError(Code.INVALID_PARAMS, "Payout not found")
    rail = app.rails.get(known.chain_id)
    if rail is None:
        raise FlorinError(Code.INVALID_STATE, "The payout's chain is not served now")
    told = f"the operator told that {known.tx_id} {'paid it' if paid else 'moved nothing'}"
    posting = paid_out(known, rail.treasury) if paid else None
    resolved = await app.store.write(payouts.resolve(known, posting, told, app.clock.now_us()))
    if resolved is None:
        raise FlorinError(
            Code.INVALID_STATE, f"Payout is {known.status}, and the chain tells how it ends"
        )
    _log.warning("payout %s: %s", payout_id, told)
    app.ring(payout_id)
    app.wake_payouts()
    return resolved


def _canonical(asset: str) -> str:
    try:
        return canonical_asset(asset.removeprefix("caip19/"))
    except ValueError as fault:
        raise invalid("asset", "must be a CAIP-19 asset type") from fault


@operation
def _plan(app: App, merchant_id: str, asset: str, amount: int | None) -> Op[PayoutPlan]:
    merchant = yield from merchants.merchant(merchant_id)
    if merchant is None:
        raise FlorinError(Code.MERCHANT_NOT_FOUND)
    place = yield from destinations.destination(merchant_id, asset)
    if place is None:
        raise invalid("asset", "the merchant has no settlement destination for it")
    chain_id, account = str(parse_asset(asset).chain), canonical_account(place.account)
    if what := reserved(app.rails.values(), account):
        raise invalid("asset", f"the merchant's settlement destination is {what}")
    owed = yield from payouts.available(merchant_id, asset)
    value = owed if amount is None else amount
    if not 0 < value <= owed:
        raise invalid("amount", f"the merchant can be paid {max(owed, 0)} minor units now")
    return PayoutPlan(merchant, chain_id, asset, account, owed, value)


@operation
def _create(app: App, merchant_id: str, asset: str, amount: int | None, account: str) -> Op[Payout]:
    # two who ask at once must not be promised the same money
    yield from merchants.lock(merchant_id)
    plan = yield from _plan(app, merchant_id, asset, amount)
    if account and account != plan.account:
        raise invalid("account", f"the merchant's settlement destination is {plan.account} now")
    new = Payout(
        id=short_id("pout_", app.randbytes),
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
    yield from payouts.add(new)
    return new


@operation
def _refuse(payout_id: str, now_us: int) -> Op[Payout]:
    yield from _never_promised(payout_id)
    refused = yield from payouts.refuse(payout_id, now_us)
    if refused is None:
        known = yield from payouts.get(payout_id)
        if known is None:
            raise FlorinError(Code.INVALID_PARAMS, "Payout not found")
        raise FlorinError(Code.INVALID_STATE, f"Payout is {known.status} and cannot be refused")
    if refused.held_id is not None:
        yield from held_money.payout_refused(refused.held_id)
    return refused


@operation
def _never_promised(payout_id: str) -> Op[None]:
    """Part of an operation: invalid_state if a refund was told as final already."""
    known = (yield from payouts.lock([payout_id])).get(payout_id)
    if known is None or known.payment_id is None or known.status is not PayoutStatus.WAITING:
        return
    refund = yield from refunds.find_refund(payout_id)
    if refund is not None and refund.status is RefundStatus.SUCCEEDED:
        raise FlorinError(Code.INVALID_STATE, "Refund succeeded before and cannot be refused")


def _lacking(app: App, one: Payout) -> str | None:
    waits = one.status is PayoutStatus.WAITING
    return (_missing_key(app, one.chain_id) or None) if waits else None


def _missing_key(app: App, chain_id: str) -> str:
    """Why nothing can be paid out on a chain; empty if something can, or no chain is here."""
    if not app.rails:
        return ""
    rail = app.rails.get(chain_id)
    if rail is None:
        return "the chain is not in the settings"
    return _NO_KEY if rail.payouts is None else rail.payouts.problem
