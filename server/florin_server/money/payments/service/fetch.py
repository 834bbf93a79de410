"""A wallet resolves a build action into calls that it can execute."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from florin_server.accounts.store import credential_checks
from florin_server.base.context import EventContext
from florin_server.compliance.buyer_data.service import requirement
from florin_server.db.context import StorageContext
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import (
    Action,
    FreeNonce,
    Payment,
    PaymentOption,
    PaymentStatus,
    ResolvedBuild,
)
from florin_server.limits.context import LimitContext
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.payments.service.load import (
    chain_unavailable_error,
    get_open_option,
    get_payment,
    not_payable_error,
)
from florin_server.money.payments.store import payments
from florin_server.money.payouts.service.account_opening import (
    list_openable,
    list_receiving_accounts,
)
from florin_server.money.settlement.store import durable_nonces
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail
from florin_server.rails.types import RailUnavailable, ReceiverUnavailable
from florin_server.settings.context import SettingsContext


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    LimitContext,
    SettingsContext,
    StorageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

# an operator may be needed to help a receiver that lacks coin
_RETRY_S = 60
# with less time than this, a blockhash serves as well
_SLOW_BUYER_US = 30 * 1_000_000
# longer than any buyer takes to sign; an abandoned fetch keeps a nonce from others
_NONCE_HOLD_US = 3600 * 1_000_000


async def fetch(
    app: _Context,
    caller: Caller,
    payment_ref: str,
    option_id: str,
    data: str,
    *,
    buyer_data_json: str | None = None,
) -> tuple[Action, ...]:
    """Return the executable actions of an option, or of its build; a repeated call is equal.

    `data` is that of the option's build, or empty. `buyer_data_json` is the JSON of data about the
    buyer from the wallet.
    """
    payment = await get_payment(app, caller, payment_ref)
    if payment.status is not PaymentStatus.REQUIRES_ACTION:
        raise not_payable_error(payment)
    option = await get_open_option(app, payment, option_id)
    build = option.build
    # it was the placeholder of the whole option while data about the buyer was missing
    total = data == requirement.get_placeholder_build(payment, option).data
    if data and not total and (build is None or data != build.data):
        raise ApiError(
            ErrorCode.INVALID_PARAMS, "Unknown data: send the data of the option's build action"
        )
    buyer_data = await requirement.require_data(app, caller, payment, option, buyer_data_json)
    if build is None:
        return option.resolve_actions(()) or ()
    resolved_builds = await _resolve(app, caller, payment, option)
    if total or (buyer_data.is_required and not data):
        return option.resolve_actions(resolved_builds) or ()
    return resolved_builds[0].actions


async def _resolve(
    app: _Context,
    caller: Caller,
    payment: Payment,
    option: PaymentOption,
    *,
    is_durable: bool = True,
) -> Sequence[ResolvedBuild]:
    """Return all that was issued for the option, the newest first; one more if it is needed now.

    Without `is_durable` it takes no durable nonce, nor if it had one before: what its wallet could
    not use once, or left, is replaced by a blockhash.
    """
    resolved_builds = await app.store.read(
        payments.list_resolved_builds(option.payment_id, option.id)
    )
    rail, until_us = app.rails[option.chain_id], _get_nonce_deadline(app, payment, option)
    is_durable = is_durable and not any(
        resolved_build.has_nonce for resolved_build in resolved_builds
    )
    usable_builds = resolved_builds if await _is_usable(app, option, resolved_builds) else ()
    request = durable_nonces.NonceRequest(payment.id, option.id, option.payer, payment.partner_id)
    spare = await _find_free_nonce(app, rail, until_us, request) if is_durable else None
    asset_accounts = list_receiving_accounts(option.asset, rail.terms.get_split(option))
    may_open = await list_openable(app, rail, payment.merchant_id, asset_accounts)
    try:
        resolved_build = await rail.offers.resolve_build(
            option, usable_builds, app.clock.now_us(), spare, may_open
        )
    except ReceiverUnavailable as error:
        _log.warning("payment %s: %s", option.payment_id, error)
        raise ApiError(
            ErrorCode.INTERNAL_ERROR, str(error), unavailable=True, retry_after_s=_RETRY_S
        ) from error
    except RailUnavailable as error:
        raise chain_unavailable_error() from error
    if resolved_build is None:
        return resolved_builds
    resolved_build = replace(resolved_build, n=len(resolved_builds))
    if spare is not None and not _may_take_nonce(app, caller, request):
        return await _resolve(app, caller, payment, option, is_durable=False)
    if spare is None:
        # two simultaneous calls can both resolve it: both return what was stored first
        issue = payments.put_resolved_build(resolved_build)
    else:
        share = (len(rail.durable_nonces.addresses) if rail.durable_nonces else 0, request)
        issue = durable_nonces.assign(resolved_build, rail.chain_id, spare, until_us, share)
    try:
        return await app.store.write(
            credential_checks.run_if_active(caller.credential_status, issue)
        )
    except durable_nonces.NonceConflict:
        return await _resolve(app, caller, payment, option)


async def _is_usable(
    app: StorageContext, option: PaymentOption, resolved_builds: Sequence[ResolvedBuild]
) -> bool:
    """Return False if the newest that was issued has a nonce that is not kept for the option."""
    if not resolved_builds or not resolved_builds[0].has_nonce:
        return True
    op = durable_nonces.has_nonce(option.chain_id, option.payment_id, option.id)
    return await app.store.read(op)


async def _find_free_nonce(
    app: StorageContext, rail: Rail, until_us: int, request: durable_nonces.NonceRequest
) -> FreeNonce | None:
    """Return a free durable nonce if the buyer can need one and no share is exceeded."""
    slow = until_us - app.clock.now_us() >= _SLOW_BUYER_US
    if rail.durable_nonces is None or not slow:
        return None
    return await app.store.read(
        durable_nonces.find_free(rail.chain_id, rail.durable_nonces.addresses, request)
    )


def _may_take_nonce(
    app: LimitContext, caller: Caller, request: durable_nonces.NonceRequest
) -> bool:
    """Count a nonce against the hour of its payer, the caller and the partner."""
    return app.limits.take_nonce(
        request.payer, caller.origin, request.partner_id, is_key=caller.app is None
    )


def _get_nonce_deadline(app: StorageContext, payment: Payment, option: PaymentOption) -> int:
    """Return how long a nonce is reserved for an option, microseconds since 1970."""
    ends = payment.expires_at if option.expires_at is None else option.expires_at
    return min(min(ends, payment.expires_at) * 1_000_000, app.clock.now_us() + _NONCE_HOLD_US)
