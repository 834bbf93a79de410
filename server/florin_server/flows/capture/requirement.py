"""Data about a buyer before a payment: who is asked for it, and what counts.

What a credential told counts for the payment if it confirms it; what others told about the same
account does not, and is deleted then. For later payments through the same app it counts from that
confirm on, if the account signed something for it. A payment that the buyer's wallet sent by
itself, or that was bound by what the chain tells, proves nobody's data: anybody can copy what is
on the chain. Whatever was told for it stays, as told by whom it was, and the buyer is asked again.

A wallet key is one credential: its wallet answers for all of its users. Whoever confirms what an
account signed is taken for its wallet, so a wallet must give it to nobody else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import orjson

from florin_server.domain.caip import canonical_asset
from florin_server.domain.capture import buyer_data
from florin_server.domain.errors import Code, FlorinError, Issue
from florin_server.domain.payments.payment import Build, Option, Payment
from florin_server.flows.app import App, Caller
from florin_server.flows.capture import forms
from florin_server.flows.capture.collected import checked, invalid, sealed, teller
from florin_server.store.capture import collected_data
from florin_server.store.capture.collected_data import Told, Way, source_of


@dataclass(frozen=True, slots=True)
class Asked:
    """Which options wait for data: the form of each by option id, and one form for all of them."""

    urls: Mapping[str, str]
    url: str | None = None


def applies(app: App, payment: Payment, option: Option) -> bool:
    """True if the operator wants to know who pays this payment with this asset."""
    chosen = app.settings.capture
    if not chosen.enabled or ("live" if payment.live else "test") not in chosen.modes:
        return False
    if chosen.assets and canonical_asset(option.asset, checksum=False) not in chosen.assets:
        return False
    return payment.value >= chosen.from_amount.get(payment.unit.partition("/")[2], 0)


def build_of(payment: Payment, option: Option) -> Build:
    """What stands for all actions of an option as long as data is missing.

    Nobody can tell it from another build, and it stays good after the data was given.
    """
    seed = payment.salt + b"collect" + option.id.encode()
    return Build(hashlib.sha256(seed).hexdigest()[:32])


async def ask(app: App, caller: Caller, payment: Payment, options: Sequence[Option]) -> Asked:
    """Finds out which options wait for data of the caller's, and tells its forms for them."""
    wanted = [option for option in options if applies(app, payment, option)]
    if not wanted:
        return Asked({})
    who = teller(app, caller, payment)
    now_us, missing = app.clock.now_us(), {option.payer for option in wanted}
    missing -= await app.store.read(collected_data.given(payment.id, missing, who.sources, now_us))
    if missing:
        known = collected_data.reusable(missing, who.app, now_us, live=payment.live)
        missing -= await app.store.read(known)
    if not missing:
        return Asked({})
    waiting = [option for option in wanted if option.payer in missing]
    # as the wallet wrote them, in the order of the options
    written = {option.payer: option.account for option in waiting}
    urls = {
        payer: forms.url(app, payment, who, {payer: account}) for payer, account in written.items()
    }
    return Asked(
        {option.id: urls[option.payer] for option in waiting},
        forms.url(app, payment, who, written),
    )


async def require(
    app: App, caller: Caller, payment: Payment, option: Option, collected: str | None
) -> Told:
    """Goes on only with the data that the option needs from the caller.

    `collected` is the JSON of data that a wallet brings along; it is stored if it was missing, and
    told as brought. FlorinError(params_validation) if it is missing, or not what the form asks for.
    """
    if not app.settings.capture.enabled:
        return Told()
    who = teller(app, caller, payment)
    told = Told(who.sources)
    if not applies(app, payment, option):
        return told
    now_us, payers = app.clock.now_us(), [option.payer]
    if await app.store.read(collected_data.given(payment.id, payers, told.sources, now_us)):
        return replace(told, needed=True)
    if await app.store.read(collected_data.reusable(payers, who.app, now_us, live=payment.live)):
        return told
    try:
        data = _brought(collected)
    except FlorinError as refused:
        url = forms.url(app, payment, who, {option.payer: option.account})
        details = {"reason": "ic_required", "url": url}
        raise FlorinError(
            refused.code, refused.message, issues=refused.issues, details=details
        ) from None
    source = source_of(Way.INLINE, who.ids[0])
    brought = sealed(app, payment, option.payer, source, who.app, data)
    await app.store.write(collected_data.put([brought]))
    return replace(told, brought=brought, needed=True)


def _brought(collected: str | None) -> bytes:
    """The data that a wallet brings along, as it is kept."""
    try:
        value = orjson.loads(collected) if collected else None
    except orjson.JSONDecodeError:
        raise invalid([Issue("", "is not valid JSON")], "collectedData") from None
    if buyer_data.is_empty(value):
        raise FlorinError(Code.PARAMS_VALIDATION, "IC data required but not found")
    return checked(value, "collectedData")
