"""Claims for money at payments' own addresses: a buyer names an account, a merchant confirms it.

Everyone with the payment's link can claim, so that a claim alone moves nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from florin_server.accounts.store import credential_checks
from florin_server.base.context import EventContext, MeterContext
from florin_server.base.topics import Topic
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.compliance.screening.service.check import is_blocked
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.audit import AuditAction, AuditChange, AuditObject, list_changes
from florin_server.domain.errors import ApiError, ErrorCode, validation_error
from florin_server.domain.ids import generate_short_id
from florin_server.domain.payments.deposits import DepositReport
from florin_server.domain.payments.payment import Merchant, Payment
from florin_server.domain.payments.state import PaymentStateEvent
from florin_server.domain.payouts.deposit_claims import (
    MESSAGE_CHARS_MAX,
    OPEN_PER_ITEM_MAX,
    PER_PAYMENT_MAX,
    ClaimDecider,
    DepositClaim,
    DepositClaimState,
)
from florin_server.domain.payouts.held_money import HeldMoney, HeldMoneyState
from florin_server.domain.refusals import deposit_claim_not_found_error
from florin_server.domain.text import has_unsafe
from florin_server.idempotency.service import fail_with, run_once
from florin_server.idempotency.store.responses import StoredResponse
from florin_server.limits.context import LimitContext
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.payments.service.load import get_merchant, get_payment
from florin_server.money.payments.service.receivers import normalize_asset
from florin_server.money.payments.store import deposit_events
from florin_server.money.payments.store.deposit_events import NamedReport
from florin_server.money.payouts.service.claimable_money import (
    filter_by_asset,
    list_claimable,
    parse_receiver,
)
from florin_server.money.payouts.service.held_money import decide
from florin_server.money.payouts.service.payout_changes import describe_verdict
from florin_server.money.payouts.store import deposit_claims, held_money
from florin_server.operations.context import WorkerContext
from florin_server.operations.service.audit_log import AuditStamp, create_stamp, record
from florin_server.rails.context import ChainContext
from florin_server.settings.context import SettingsContext

_log = logging.getLogger(__name__)


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    LimitContext,
    MeterContext,
    ScreeningContext,
    SettingsContext,
    StorageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


@dataclass(frozen=True, slots=True)
class _CreatedClaims:
    """The claims of an account, earlier ones too, and the payments that new ones changed."""

    claims: list[DepositClaim]
    changed_payments: list[Payment]
    has_new: bool


async def claim_deposit(
    app: _Context,
    caller: Caller,
    payment_ref: str,
    asset: str,
    account: str,
    *,
    message: str = "",
) -> list[DepositClaim]:
    """Claim the held money of an asset (CAIP-19) for an account (CAIP-10); return these claims.

    There is a claim for each amount that is held. An account that claimed before gets its earlier
    claims, also decided ones. ApiError if nothing can be claimed, or if there is no room.
    """
    payment = await get_payment(app, caller, payment_ref)
    app.limits.count_options(payment.id, caller.origin)
    app.limits.count_claim(payment.id)
    if len(message) > MESSAGE_CHARS_MAX:
        raise validation_error("message", f"Must have at most {MESSAGE_CHARS_MAX} characters")
    if has_unsafe(message):
        raise validation_error("message", "Must not contain control characters")
    claimable = filter_by_asset(await list_claimable(app, payment), asset)
    if not claimable:
        return await _list_earlier(app, payment, asset, account)
    receiver = await parse_receiver(app, claimable[0], account)
    merchant = await get_merchant(app, payment)
    new_claims = [
        DepositClaim(
            id=generate_short_id("clm_", app.randbytes),
            held_id=money.id,
            payment_id=payment.id,
            asset=money.asset,
            value=money.held,
            account=receiver,
            message=message or None,
            created_at_us=app.clock.now_us(),
        )
        for money in claimable
    ]
    work = _create(merchant, payment.id, new_claims)
    created = await app.store.write(credential_checks.run_if_active(caller.credential_status, work))
    for changed_payment in created.changed_payments:
        app.notifier.publish_payment(changed_payment)
    if created.has_new:
        app.notifier.publish(Topic.WEBHOOKS)
    return created.claims


async def _list_earlier(
    app: _Context, payment: Payment, asset: str, account: str
) -> list[DepositClaim]:
    """Return the claims of an account for money that is no longer claimable; ApiError if none."""
    rail = app.rails.get(asset.partition("/")[0])
    receiver = None if rail is None else rail.find_payer(account)
    claims = await app.store.read(deposit_claims.list_of_payment(payment.id))
    own = [
        claim
        for claim in claims
        if claim.account == receiver and normalize_asset(claim.asset) == normalize_asset(asset)
    ]
    if not own:
        text = f"Payment has no money of {asset[:100]} that can be claimed"
        raise ApiError(ErrorCode.INVALID_STATE, text)
    return own


@operation
def _create(
    merchant: Merchant, payment_id: str, new_claims: Sequence[DepositClaim]
) -> Op[_CreatedClaims]:
    states = {money.id: money for money in (yield from held_money.lock_of_payment(payment_id))}
    existing = yield from deposit_claims.list_of_payment(payment_id)
    count = len(existing)
    claims: list[DepositClaim] = []
    reports: list[NamedReport] = []
    for claim in new_claims:
        of_item = [item for item in existing if item.held_id == claim.held_id]
        earlier = next((item for item in of_item if item.account == claim.account), None)
        if earlier is not None:
            claims.append(earlier)
            continue
        money = states.get(claim.held_id)
        open_count = sum(item.state is DepositClaimState.OPEN for item in of_item)
        if (
            money is None
            or money.state is not HeldMoneyState.HELD
            or open_count >= OPEN_PER_ITEM_MAX
            or count >= PER_PAYMENT_MAX
        ):
            continue
        yield from deposit_claims.create(claim)
        claims.append(claim)
        reports.append(_build_report(claim, money))
        count += 1
    if claims:
        now_us = new_claims[0].created_at_us
        changed_payments = yield from deposit_events.record(reports, now_us)
        return _CreatedClaims(claims, changed_payments, has_new=bool(reports))
    if all(
        claim.held_id not in states or states[claim.held_id].state is not HeldMoneyState.HELD
        for claim in new_claims
    ):
        raise ApiError(ErrorCode.INVALID_STATE, "The money was decided about meanwhile")
    raise _too_many_error(merchant)


def _build_report(claim: DepositClaim, money: HeldMoney) -> NamedReport:
    """Return the event of a claim; the account and the message are not part of it."""
    report = DepositReport(
        address=money.deposit_address or "",
        asset=money.asset,
        value=money.held,
        sender=None,
        tx_hash=None,
        is_final=True,
        claim_id=claim.id,
    )
    return NamedReport(claim.payment_id, claim.id, PaymentStateEvent.DEPOSIT_CLAIMED, report)


def _too_many_error(merchant: Merchant) -> ApiError:
    contact = merchant.support_email or merchant.support_url
    return ApiError(
        ErrorCode.INVALID_STATE,
        "The payment cannot have more claims: contact "
        + (f"{merchant.name} at {contact}" if contact else merchant.name),
        details={"reason": "too_many_claims"},
    )


async def list_claims(app: StorageContext, payment: Payment) -> list[DepositClaim]:
    """Return all claims for money of a payment, the oldest first."""
    return await app.store.read(deposit_claims.list_of_payment(payment.id))


async def list_claims_for(
    app: StorageContext, items: Sequence[HeldMoney]
) -> dict[str, list[DepositClaim]]:
    """Return the claims for items of held money, by the item's id."""
    claims: dict[str, list[DepositClaim]] = {}
    held_ids = [item.id for item in items if item.address is not None]
    if held_ids:
        for claim in await app.store.read(deposit_claims.list_of_held_money(held_ids)):
            claims.setdefault(claim.held_id, []).append(claim)
    return claims


async def confirm_claim(
    app: _Context,
    caller: Caller,
    payment_ref: str,
    claim_id: str,
    encode_response: Callable[[DepositClaim], bytes],
) -> DepositClaim | StoredResponse:
    """Confirm a claim of a payment: a payout returns the money to its account.

    The other claims for the money are rejected. Confirming it again changes nothing. invalid_state
    if the claim was rejected or the operator decided; sanctioned_user if its account is blocked.
    """
    try:
        payment = await get_payment(app, caller, payment_ref)
        claim = await _get_claim(app, caller, payment, claim_id)
        if claim.state is DepositClaimState.OPEN:
            await _require_payable(app, payment, claim)
    except ApiError as fault:
        return await run_once(app, caller, fail_with(fault), encode_response)
    work = _confirm(app, payment, claim, (create_stamp(app), create_stamp(app)))
    outcome = await run_once(app, caller, work, encode_response)
    if isinstance(outcome, DepositClaim):
        _log.warning(
            "the merchant confirmed %s for %s of payment %s", claim.id, claim.held_id, payment.id
        )
        app.notifier.publish(Topic.PAYOUTS_DUE)
    return outcome


async def reject_claim(
    app: _Context,
    caller: Caller,
    payment_ref: str,
    claim_id: str,
    encode_response: Callable[[DepositClaim], bytes],
) -> DepositClaim | StoredResponse:
    """Reject a claim of a payment; again changes nothing. invalid_state if it was confirmed."""
    try:
        payment = await get_payment(app, caller, payment_ref)
        claim = await _get_claim(app, caller, payment, claim_id)
    except ApiError as fault:
        return await run_once(app, caller, fail_with(fault), encode_response)
    work = _reject(payment, claim, app.clock.now_us(), create_stamp(app))
    return await run_once(app, caller, work, encode_response)


async def _get_claim(
    app: StorageContext, caller: Caller, payment: Payment, claim_id: str
) -> DepositClaim:
    claim = await app.store.read(deposit_claims.find(claim_id))
    if claim is None or claim.payment_id != payment.id:
        raise deposit_claim_not_found_error(wcp_profile=caller.wcp_profile)
    return claim


async def _require_payable(app: _Context, payment: Payment, claim: DepositClaim) -> None:
    """Raise ApiError if the money of an open claim cannot go to its account."""
    claimable = {money.id: money for money in await list_claimable(app, payment)}
    money = claimable.get(claim.held_id)
    if money is None:
        raise _decided_error(claim)
    if await is_blocked(app, claim.account):
        raise ApiError(
            ErrorCode.SANCTIONED_USER, f"The account of claim {claim.id} is blocked: reject it"
        )
    try:
        await parse_receiver(app, money, claim.account)
    except ApiError as error:
        # it was an account of a buyer when it was named
        text = f"The account of claim {claim.id} can no longer receive money: reject the claim"
        raise ApiError(ErrorCode.INVALID_STATE, text) from error


def _decided_error(claim: DepositClaim) -> ApiError:
    text = f"The money of claim {claim.id} can no longer be claimed"
    return ApiError(ErrorCode.INVALID_STATE, text)


@operation
def _lock(claim: DepositClaim) -> Op[tuple[DepositClaim, HeldMoney | None]]:
    """Return a claim as it is now with its money, which stays locked."""
    money = yield from held_money.lock(claim.held_id)
    current = yield from deposit_claims.find(claim.id)
    return current or claim, money


@operation
def _confirm(
    app: _Context, payment: Payment, claim: DepositClaim, stamps: tuple[AuditStamp, AuditStamp]
) -> Op[DepositClaim]:
    current, money = yield from _lock(claim)
    if current.state is DepositClaimState.CONFIRMED:
        return current
    if current.state is DepositClaimState.REJECTED:
        text = f"Claim {claim.id} is rejected and cannot be confirmed"
        raise ApiError(ErrorCode.INVALID_STATE, text)
    if money is None or money.state is not HeldMoneyState.HELD:
        raise _decided_error(claim)
    note = f"the merchant confirmed claim {claim.id}"
    returned = HeldMoneyState.RETURNED
    decided, _ = yield from decide(
        app, money.id, returned, note, claim.account, decider=ClaimDecider.MERCHANT
    )
    change = describe_verdict(decided, returned)
    if change is not None:
        yield from record(stamps[0], change)
    action = AuditAction.PAYMENT_CLAIM_CONFIRMED
    yield from record(stamps[1], _describe(action, payment, claim))
    return (yield from deposit_claims.find(claim.id)) or current


@operation
def _reject(
    payment: Payment, claim: DepositClaim, now_us: int, stamp: AuditStamp
) -> Op[DepositClaim]:
    current, _ = yield from _lock(claim)
    if current.state is DepositClaimState.CONFIRMED:
        text = f"Claim {claim.id} is confirmed and cannot be rejected"
        raise ApiError(ErrorCode.INVALID_STATE, text)
    rejected = yield from deposit_claims.reject(claim.id, ClaimDecider.MERCHANT, now_us)
    if rejected is None:
        return current
    yield from record(stamp, _describe(AuditAction.PAYMENT_CLAIM_REJECTED, payment, claim))
    return rejected


def _describe(action: AuditAction, payment: Payment, claim: DepositClaim) -> AuditChange:
    # without the account: the log has no data about buyers
    about = {"claim": claim.id, "amount": f"{claim.value} caip19/{claim.asset}"}
    return AuditChange(
        action,
        AuditObject.PAYMENT,
        payment.id,
        payment.partner_id,
        payment.live,
        list_changes({}, about),
    )
