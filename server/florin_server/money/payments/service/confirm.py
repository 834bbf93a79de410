"""A wallet confirms with results; the payment is bound to them and submitted.

The checks come in the order of the wire contract, and one atomic change decides: among simultaneous
calls, at most one confirmation is ever bound to a payment.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Protocol

from florin_server.accounts.store import credential_checks
from florin_server.base.context import EventContext, MeterContext
from florin_server.base.topics import Topic
from florin_server.compliance.buyer_data import store as collected_data
from florin_server.compliance.buyer_data.service import requirement
from florin_server.compliance.buyer_data.store import ConfirmedBuyerData
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.compliance.screening.service.check import check_lists, is_blocked
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, Operation, operation
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments import results
from florin_server.domain.payments.payment import (
    Confirmation,
    FailureCode,
    Payment,
    PaymentOption,
    PaymentStatus,
    ResolvedBuild,
)
from florin_server.domain.payments.state import PaymentStateEvent, apply_event
from florin_server.domain.payments.triggers import SandboxTrigger
from florin_server.domain.settlement.chain_txs import PayerKind
from florin_server.limits.context import LimitContext
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.context import UsageContext
from florin_server.money.payments.service.load import (
    chain_unavailable_error,
    expire_if_due,
    get_head,
    get_payment,
    require_open_option,
)
from florin_server.money.payments.store import payments
from florin_server.money.payouts.service import account_opening
from florin_server.money.settlement import service as gas_budgets
from florin_server.money.settlement.store import durable_nonces
from florin_server.money.settlement.store.token_accounts import AccountNotOpenable
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail, is_relayed
from florin_server.rails.types import NonceUnusable, RailUnavailable
from florin_server.settings.context import SettingsContext


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    LimitContext,
    MeterContext,
    ScreeningContext,
    SettingsContext,
    StorageContext,
    UsageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)


async def confirm(
    app: _Context,
    caller: Caller,
    payment_ref: str,
    option_id: str,
    outputs: Sequence[Sequence[str]],
    *,
    buyer_data_json: str | None = None,
) -> Payment:
    """Accept, refuse or repeat a confirmation; `outputs` are JSON texts, one list per result.

    `buyer_data_json` is the JSON of data about the buyer from the wallet.
    """
    # the server's clock decides whether a confirm arrived in time, for any duration of the checks
    arrived_us = app.clock.now_us()
    payment = await get_payment(app, caller, payment_ref)
    flat = results.flatten_results(outputs)
    digest = results.compute_digest(option_id, flat)
    # a payment bound by the chain's evidence is bound to the transaction alone
    digests = {digest, results.compute_digest(option_id, flat[-1:])}
    if await _is_repeated(app, caller, payment, digests):
        return payment
    offered, resolved_builds = await _find_option(app, payment, option_id)
    is_plausible = _check_outputs(app, offered, resolved_builds, flat)
    if offered is not None and is_plausible:
        # others cannot sign for it, and their outputs must not delay it
        app.limits.count_signed_confirm(payment.id, offered.payer)
    else:
        app.limits.count_confirm(payment.id, caller.origin, needs_chain=is_plausible is None)
    apply_event(payment.status, PaymentStateEvent.CONFIRM_ACCEPTED)
    option = require_open_option(app, payment, offered)
    buyer_data = await requirement.require_data(app, caller, payment, option, buyer_data_json)
    confirmation = Confirmation(payment.id, option.id, tuple(flat), digest, arrived_us)
    match = results.match_outputs(_list_expected_kinds(option, resolved_builds), flat)
    if match.verdict is results.OutputVerdict.MISMATCH:
        return await _refuse(app, caller, confirmation, "results do not match the actions")
    if payment.trigger is SandboxTrigger.DECLINED or await is_blocked(app, option.payer):
        return await _refuse(
            app, caller, confirmation, "payer is blocked", FailureCode.DECLINED_USER
        )
    await check_lists(app, live=payment.live)
    if match.verdict is results.OutputVerdict.UNREADABLE:
        raise _unreadable_error(match.index)
    rail = app.rails[option.chain_id]
    # read before the proof that the authorization is unused: its effect can only be later
    from_block = await _get_first_block(app, rail, option, resolved_builds)
    try:
        payer_kind = await _verify(rail, option, resolved_builds, flat)
    except NonceUnusable:
        # at its next fetch the wallet gets a transaction without a durable nonce
        nonce = durable_nonces.release(option.chain_id, payment.id, option.id)
        await app.store.write(credential_checks.run_if_active(caller.credential_status, nonce))
        raise
    if is_relayed(rail, option):
        await gas_budgets.check(app, caller, option, payer_kind)
    opened = (
        rail.token_accounts.list_opened_accounts(flat) if rail.token_accounts is not None else ()
    )
    claim = account_opening.claim(app, rail, payment.merchant_id, payment.id, opened)
    return await _accept(app, caller, option, confirmation, from_block, claim, buyer_data)


async def _is_repeated(
    app: StorageContext, caller: Caller, payment: Payment, digests: Collection[bytes]
) -> bool:
    """Return True if exactly this confirmation is bound to the payment: the call is a poll."""
    if payment.status is PaymentStatus.REQUIRES_ACTION:
        return False
    await app.store.read(credential_checks.require_active(caller.credential_status))
    confirmation = await app.store.read(payments.find_confirmation(payment.id))
    return confirmation is not None and confirmation.digest in digests


async def _find_option(
    app: StorageContext, payment: Payment, option_id: str
) -> tuple[PaymentOption | None, Sequence[ResolvedBuild]]:
    """Return the option and its resolved build; none if the payment no longer accepts results."""
    if payment.status is not PaymentStatus.REQUIRES_ACTION:
        return None, ()
    option = await app.store.read(payments.find_option(payment.id, option_id))
    if option is None or option.build is None:
        return option, ()
    return option, await app.store.read(payments.list_resolved_builds(payment.id, option.id))


def _check_outputs(
    app: ChainContext,
    option: PaymentOption | None,
    resolved_builds: Sequence[ResolvedBuild],
    outputs: Sequence[str],
) -> bool | None:
    """Return whether the outputs can pay the option, as far as no chain has to be called."""
    rail = app.rails.get(option.chain_id) if option else None
    if option is None or rail is None:
        return False
    return rail.verifier.is_plausible(option, resolved_builds, outputs)


def _list_expected_kinds(
    option: PaymentOption, resolved_builds: Sequence[ResolvedBuild]
) -> list[results.OutputKind]:
    actions = option.resolve_actions(resolved_builds)
    if actions is None:
        raise ApiError(
            ErrorCode.INVALID_PARAMS,
            "The option has a build action that was never fetched: fetch it, then confirm its "
            "output",
        )
    return [results.get_output_kind(action.method) for action in actions]


def _unreadable_error(index: int | None) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_PARAMS,
        "Result is not the output of its action",
        details={"reason": "unreadable_output", "index": str(index)},
    )


async def _verify(
    rail: Rail,
    option: PaymentOption,
    resolved_builds: Sequence[ResolvedBuild],
    outputs: Sequence[str],
) -> PayerKind:
    try:
        return await rail.verifier.verify(option, resolved_builds, outputs)
    except RailUnavailable as error:
        # nothing was submitted: the wallet can send the same results again
        raise chain_unavailable_error() from error


async def _refuse(
    app: _Context,
    caller: Caller,
    confirmation: Confirmation,
    detail: str,
    code: FailureCode | None = None,
) -> Payment:
    refuse = payments.refuse(confirmation, detail, code, app.clock.now_us(), caller.request_id)
    changed_payment = await app.store.write(
        credential_checks.run_if_active(caller.credential_status, refuse)
    )
    if changed_payment is not None:
        return app.notifier.publish_payment(changed_payment)
    return await _resolve_lost_race(app, caller, confirmation)


async def _accept(  # noqa: PLR0917  (one of each, none alike)
    app: _Context,
    caller: Caller,
    option: PaymentOption,
    confirmation: Confirmation,
    from_block: int,
    claim: Operation[None],
    buyer_data: ConfirmedBuyerData,
) -> Payment:
    provider = (caller.app.name, caller.app.icon_url) if caller.app else ("unknown", None)
    accept = payments.accept(
        confirmation,
        option,
        from_block,
        provider,
        confirmation.at_us,
        app=gas_budgets.get_budget_owner(caller),
        request_id=caller.request_id,
    )
    if buyer_data.sources and is_relayed(app.rails[option.chain_id], option):
        # this confirmation was signed by the account; anyone can confirm with a hash
        accept = collected_data.accept_proven(
            accept, confirmation.payment_id, option.payer, buyer_data
        )
    try:
        changed_payment = await app.store.write(
            credential_checks.run_if_active(
                caller.credential_status, _accept_with_claim(accept, claim)
            )
        )
    except AccountNotOpenable as error:
        # a transaction that opens no account is returned to every later fetch
        _log.warning("payment %s: %s", confirmation.payment_id, error)
        raise ApiError(ErrorCode.QUOTE_EXPIRED) from error
    if changed_payment is None:
        return await _resolve_lost_race(app, caller, confirmation)
    app.notifier.publish(Topic.SETTLEMENT, option.chain_id)
    return app.notifier.publish_payment(changed_payment)


@operation
def _accept_with_claim(
    accept: Operation[Payment | None], claim: Operation[None]
) -> Op[Payment | None]:
    """Accept together with a claim, or neither."""
    changed_payment = yield from accept
    if changed_payment is not None:
        yield from claim
    return changed_payment


async def _get_first_block(
    app: _Context, rail: Rail, option: PaymentOption, resolved_builds: Sequence[ResolvedBuild]
) -> int:
    """Return the first block that can contain the payment's effect.

    A reorganization can move it below today's head, as far down as blocks are not final. The
    buyer's own transaction can be in any block since the offer.
    """
    if not is_relayed(rail, option):
        return option.first_block(
            rail.reorg_depth, min(resolved_build.head for resolved_build in resolved_builds)
        )
    try:
        return max(0, await get_head(app, rail) - rail.reorg_depth)
    except RailUnavailable:
        return option.first_block(rail.reorg_depth, 0)


async def _resolve_lost_race(app: _Context, caller: Caller, confirmation: Confirmation) -> Payment:
    """Answer as if this call had come after the other change that was committed first."""
    payment = await app.store.payments.find(confirmation.payment_id)
    if payment is None:
        raise ApiError(ErrorCode.PAYMENT_NOT_FOUND)
    payment = await expire_if_due(app, payment)
    digests = {
        confirmation.digest,
        results.compute_digest(confirmation.option_id, confirmation.outputs[-1:]),
    }
    if await _is_repeated(app, caller, payment, digests):
        return payment
    apply_event(payment.status, PaymentStateEvent.CONFIRM_ACCEPTED)
    raise ApiError(ErrorCode.INTERNAL_ERROR, unavailable=True, retry_after_s=1)
