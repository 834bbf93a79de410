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

import orjson

from florin_server.domain.caip import canonicalize_asset
from florin_server.domain.capture import buyer_data
from florin_server.domain.errors import ApiError, ErrorCode, FieldIssue
from florin_server.domain.payments.payment import BuildAction, Payment, PaymentOption
from florin_server.flows.app import App, Caller
from florin_server.flows.capture import forms
from florin_server.flows.capture.collected import (
    encode_data,
    encrypt_data,
    get_supplier,
    invalid_data_error,
)
from florin_server.store.capture import collected_data
from florin_server.store.capture.collected_data import ConfirmedBuyerData, DataSource, format_source


@dataclass(frozen=True, slots=True)
class DataRequirement:
    """The options that wait for data: each one's form by option id, and one for all."""

    urls: Mapping[str, str]
    url: str | None = None


def is_required(app: App, payment: Payment, option: PaymentOption) -> bool:
    """Return True if the operator requires data for this payment with this asset."""
    chosen = app.settings.capture
    if not chosen.enabled or ("live" if payment.live else "test") not in chosen.modes:
        return False
    if chosen.assets and canonicalize_asset(option.asset, checksum=False) not in chosen.assets:
        return False
    return payment.value >= chosen.from_amount.get(payment.unit.partition("/")[2], 0)


def get_placeholder_build(payment: Payment, option: PaymentOption) -> BuildAction:
    """Return the placeholder for all actions of an option while data is missing.

    It looks like any other build, and stays valid after the data was given.
    """
    seed = payment.salt + b"collect" + option.id.encode()
    return BuildAction(hashlib.sha256(seed).hexdigest()[:32])


async def request_data(
    app: App, caller: Caller, payment: Payment, options: Sequence[PaymentOption]
) -> DataRequirement:
    """Return the options that wait for data of the caller, with its forms for them."""
    covered_options = [option for option in options if is_required(app, payment, option)]
    if not covered_options:
        return DataRequirement({})
    who = get_supplier(app, caller, payment)
    now_us, missing = app.clock.now_us(), {option.payer for option in covered_options}
    missing -= await app.store.read(
        collected_data.filter_accounts_with_data(payment.id, missing, who.sources, now_us)
    )
    if missing:
        op = collected_data.filter_accounts_with_reusable_data(
            missing, who.app_id, now_us, live=payment.live
        )
        missing -= await app.store.read(op)
    if not missing:
        return DataRequirement({})
    waiting = [option for option in covered_options if option.payer in missing]
    # as the wallet wrote them, in the order of the options
    written = {option.payer: option.account for option in waiting}
    urls = {
        payer: forms.get_form_url(app, payment, who, {payer: account})
        for payer, account in written.items()
    }
    return DataRequirement(
        {option.id: urls[option.payer] for option in waiting},
        forms.get_form_url(app, payment, who, written),
    )


async def require_data(
    app: App, caller: Caller, payment: Payment, option: PaymentOption, buyer_data_json: str | None
) -> ConfirmedBuyerData:
    """Return the data that the option needs from the caller.

    `buyer_data_json` is the JSON of data from the wallet; it is stored if data was missing, and
    returned as brought. ApiError(params_validation) if data is missing or does not fit the form.
    """
    if not app.settings.capture.enabled:
        return ConfirmedBuyerData()
    who = get_supplier(app, caller, payment)
    confirmed = ConfirmedBuyerData(who.sources)
    if not is_required(app, payment, option):
        return confirmed
    now_us, payers = app.clock.now_us(), [option.payer]
    if await app.store.read(
        collected_data.filter_accounts_with_data(payment.id, payers, confirmed.sources, now_us)
    ):
        return replace(confirmed, is_required=True)
    if await app.store.read(
        collected_data.filter_accounts_with_reusable_data(
            payers, who.app_id, now_us, live=payment.live
        )
    ):
        return confirmed
    try:
        data = _parse_buyer_data(buyer_data_json)
    except ApiError as refused:
        url = forms.get_form_url(app, payment, who, {option.payer: option.account})
        details = {"reason": "ic_required", "url": url}
        raise ApiError(
            refused.code, refused.message, issues=refused.issues, details=details
        ) from None
    source = format_source(DataSource.INLINE, who.source_ids[0])
    brought = encrypt_data(app, payment, option.payer, source, who.app_id, data)
    await app.store.write(collected_data.put([brought]))
    return replace(confirmed, inline_entry=brought, is_required=True)


def _parse_buyer_data(buyer_data_json: str | None) -> bytes:
    """Return the data from a wallet, in its stored form."""
    try:
        value = orjson.loads(buyer_data_json) if buyer_data_json else None
    except orjson.JSONDecodeError:
        raise invalid_data_error([FieldIssue("", "is not valid JSON")], "collectedData") from None
    if buyer_data.is_empty(value):
        raise ApiError(ErrorCode.PARAMS_VALIDATION, "IC data required but not found")
    return encode_data(value, "collectedData")
