"""Data about a buyer before a payment: which payments need it, and which data is valid.

Data of a credential is valid for the payment if that credential confirms it. Data of other
credentials about the same account is not valid, and is deleted then. For later payments through the
same app it is valid from that confirm on, if the account signed something for it. A payment that
the buyer's wallet sent itself, or that was bound by the chain's evidence, proves no data: anyone
can copy public data of the chain. Its data stays with its supplier, and the buyer is asked again.

A wallet key is one credential: its wallet answers for all of its users. The caller that confirms an
account's signature is treated as its wallet, so a wallet must not give the signature to others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import orjson

from florin_server.compliance.buyer_data import store as collected_data
from florin_server.compliance.buyer_data.service.collected import (
    encode_data,
    encrypt_data,
    get_supplier,
    invalid_data_error,
)
from florin_server.compliance.buyer_data.service.form_links import get_form_url
from florin_server.compliance.buyer_data.store import ConfirmedBuyerData, DataSource, format_source
from florin_server.db.context import StorageContext
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.caip import canonicalize_asset
from florin_server.domain.capture import buyer_data
from florin_server.domain.errors import ApiError, ErrorCode, FieldIssue
from florin_server.domain.payments.payment import BuildAction, Payment, PaymentOption
from florin_server.settings.context import SettingsContext


class _Context(SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


@dataclass(frozen=True, slots=True)
class DataRequirement:
    """The forms of options that wait for data: a URL by option id, and one URL for all of them."""

    urls: Mapping[str, str]
    url: str | None = None


def is_required(app: SettingsContext, payment: Payment, option: PaymentOption) -> bool:
    """Return True if the operator requires data for this payment with this option's asset."""
    return is_required_with(app, payment, option.asset)


def is_required_with(app: SettingsContext, payment: Payment, asset: str) -> bool:
    """Return True if the operator requires data for this payment with an asset (CAIP-19)."""
    capture_settings = app.settings.capture
    if (
        not capture_settings.enabled
        or ("live" if payment.live else "test") not in capture_settings.modes
    ):
        return False
    if (
        capture_settings.assets
        and canonicalize_asset(asset, checksum=False) not in capture_settings.assets
    ):
        return False
    return payment.value >= capture_settings.from_amount.get(payment.unit.partition("/")[2], 0)


def get_placeholder_build(payment: Payment, option: PaymentOption) -> BuildAction:
    """Return the placeholder for all actions of an option while data is missing.

    It looks like any other build, and stays valid once the data is there.
    """
    seed = payment.salt + b"collect" + option.id.encode()
    return BuildAction(hashlib.sha256(seed).hexdigest()[:32])


async def request_data(
    app: _Context, caller: Caller, payment: Payment, options: Sequence[PaymentOption]
) -> DataRequirement:
    """Return the forms of the options that wait for data from the caller."""
    covered_options = [option for option in options if is_required(app, payment, option)]
    if not covered_options:
        return DataRequirement({})
    supplier = get_supplier(app, caller, payment)
    now_us, missing = app.clock.now_us(), {option.payer for option in covered_options}
    missing -= await app.store.read(
        collected_data.filter_accounts_with_data(payment.id, missing, supplier.sources, now_us)
    )
    if missing:
        find_reusable = collected_data.filter_accounts_with_reusable_data(
            missing, supplier.app_id, now_us, live=payment.live
        )
        missing -= await app.store.read(find_reusable)
    if not missing:
        return DataRequirement({})
    waiting = [option for option in covered_options if option.payer in missing]
    # as the wallet wrote them, in the order of the options
    accounts_by_payer = {option.payer: option.account for option in waiting}
    urls = {
        payer: get_form_url(app, payment, supplier, {payer: account})
        for payer, account in accounts_by_payer.items()
    }
    return DataRequirement(
        {option.id: urls[option.payer] for option in waiting},
        get_form_url(app, payment, supplier, accounts_by_payer),
    )


async def require_data(
    app: _Context,
    caller: Caller,
    payment: Payment,
    option: PaymentOption,
    buyer_data_json: str | None,
) -> ConfirmedBuyerData:
    """Return the data that the option needs from the caller.

    `buyer_data_json` is the JSON of data from the wallet; it is stored if data was missing, and
    returned as `inline_entry`. Raise ApiError(params_validation) if it is missing or invalid.
    """
    if not app.settings.capture.enabled:
        return ConfirmedBuyerData()
    supplier = get_supplier(app, caller, payment)
    confirmed_data = ConfirmedBuyerData(supplier.sources)
    if not is_required(app, payment, option):
        return confirmed_data
    now_us, payers = app.clock.now_us(), [option.payer]
    if await app.store.read(
        collected_data.filter_accounts_with_data(payment.id, payers, confirmed_data.sources, now_us)
    ):
        return replace(confirmed_data, is_required=True)
    if await app.store.read(
        collected_data.filter_accounts_with_reusable_data(
            payers, supplier.app_id, now_us, live=payment.live
        )
    ):
        return confirmed_data
    try:
        data = _parse_buyer_data(buyer_data_json)
    except ApiError as error:
        url = get_form_url(app, payment, supplier, {option.payer: option.account})
        details = {"reason": "ic_required", "url": url}
        raise ApiError(error.code, error.message, issues=error.issues, details=details) from None
    source = format_source(DataSource.INLINE, supplier.source_ids[0])
    entry = encrypt_data(app, payment, option.payer, source, supplier.app_id, data)
    await app.store.write(collected_data.put([entry]))
    return replace(confirmed_data, inline_entry=entry, is_required=True)


def _parse_buyer_data(buyer_data_json: str | None) -> bytes:
    """Return the data from a wallet, in its stored form."""
    try:
        value = orjson.loads(buyer_data_json) if buyer_data_json else None
    except orjson.JSONDecodeError:
        raise invalid_data_error([FieldIssue("", "is not valid JSON")], "collectedData") from None
    if buyer_data.is_empty(value):
        raise ApiError(ErrorCode.PARAMS_VALIDATION, "IC data required but not found")
    return encode_data(value, "collectedData")
