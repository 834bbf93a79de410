"""Data about a buyer before a payment: who is asked for it, where it is given, what counts.

It is told once for a payment. What was told about an account counts for its later payments only
after the account itself went along with a payment that it was told for.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import orjson

from florin_server.domain import capture
from florin_server.domain.caip import canonical_asset
from florin_server.domain.errors import Code, FlorinError, Issue
from florin_server.domain.payment import Build, Merchant, Option, Payment, Status
from florin_server.domain.sealed import Lost
from florin_server.flows.app import App
from florin_server.flows.load import current, merchant_of
from florin_server.store import captures
from florin_server.store.captures import Collected, Token

_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Asked:
    """Which options wait for data: the form of each by option id, and one form for all of them."""

    urls: Mapping[str, str]
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """A form that somebody has open; `done` tells that it was handed in."""

    payment: Payment
    merchant: Merchant
    done: bool


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


async def ask(app: App, payment: Payment, options: Sequence[Option]) -> Asked:
    """Finds out which options wait for data, and opens forms for them."""
    wanted = [option for option in options if applies(app, payment, option)]
    missing = await _missing(app, payment, {option.payer for option in wanted})
    if not missing:
        return Asked({})
    waiting = [option for option in wanted if option.payer in missing]
    # as the wallet wrote them, in the order of the options
    written = {option.payer: option.account for option in waiting}
    urls = {payer: _url(app, payment, {payer: account}) for payer, account in written.items()}
    await _open(app, payment, [*([payer] for payer in written), list(written)])
    return Asked({option.id: urls[option.payer] for option in waiting}, _url(app, payment, written))


async def require(app: App, payment: Payment, option: Option, collected: str | None) -> bool:
    """Goes on only with the data that the option needs; True if it was told for this payment.

    `collected` is the JSON of data that a wallet brings along; it is stored if it was missing.
    FlorinError(params_validation) if it is missing, or not what the form asks for.
    """
    if not applies(app, payment, option):
        return False
    now_us = app.clock.now_us()
    payers = [option.payer]
    if await app.store.read(captures.given(payment.id, payers, now_us)):
        return True
    if not await _missing(app, payment, payers):
        return False
    try:
        data = _brought(collected)
    except FlorinError as refused:
        await _open(app, payment, [payers])
        url = _url(app, payment, {option.payer: option.account})
        details = {"reason": "ic_required", "url": url}
        raise FlorinError(
            refused.code, refused.message, issues=refused.issues, details=details
        ) from None
    await app.store.write(captures.put([_collected(app, payment, option.payer, data)]))
    return True


async def form(app: App, payment_id: str | None, token: str) -> Form:
    """The form that a token opens; FlorinError(unauthorized), or payment_expired if it is dead.

    `payment_id` is what a link says beside it.
    """
    found, payment = await _found(app, token)
    if payment_id not in {None, found.payment_id}:
        raise _unauthorized()
    if found.used is None:
        _check_open(payment)
    return Form(payment, await merchant_of(app, payment), found.used is not None)


async def hand_in(app: App, token: str, value: object, *, peer: str = "") -> None:
    """Stores what a form holds for the accounts of its token; the same once more changes nothing.

    `peer` is who hands it in, in gRPC's form.
    FlorinError: unauthorized, payment_expired, rate_limited, params_validation.
    """
    found, payment = await _found(app, token)
    app.limits.form(found.hash, peer)
    if found.used is None:
        _check_open(payment)
    data = _checked(value, "data")
    # without the token nobody can try out which data has this hash
    given = hmac.digest(token.encode(), data, "sha256")
    collected = [_collected(app, payment, account, data) for account in found.accounts]
    try:
        before = await app.store.write(captures.hand_in(found, given, collected))
    except LookupError:
        raise _unauthorized() from None
    if before.used is not None and not hmac.compare_digest(before.used, given):
        raise _unauthorized()


def opened(app: App, one: Collected) -> str | None:
    """The JSON of what was told; None if the key to read it with is lost."""
    try:
        return app.seal.open(one.sealed, _place(one.payment_id, one.account)).decode()
    except Lost:
        return None


async def _missing(app: App, payment: Payment, payers: Collection[str]) -> set[str]:
    if not payers:
        return set()
    now_us = app.clock.now_us()
    known = await app.store.read(captures.on_file(payment.id, payers, now_us, live=payment.live))
    return set(payers) - known


async def _open(app: App, payment: Payment, groups: Sequence[Sequence[str]]) -> None:
    """Lets data be handed in for each group of accounts; asking again writes nothing."""
    made = {
        one.hash: one
        for one in (
            Token(_hash(_token(app, payment, group)), payment.id, sorted(group), payment.expires_at)
            for group in groups
        )
    }
    known = {one.hash for one in await app.store.read(captures.tokens(made.keys()))}
    if new := [one for one in made.values() if one.hash not in known]:
        await app.store.write(captures.put_tokens(new))


def _url(app: App, payment: Payment, accounts: Mapping[str, str]) -> str:
    """The form for some accounts, given as {canonical: as written}."""
    token = _token(app, payment, accounts)
    listed = quote(",".join(accounts.values()), safe="")
    return f"{app.links.base}/collect/?pid={payment.id}&accounts={listed}&t={token}"


def _token(app: App, payment: Payment, accounts: Collection[str]) -> str:
    """As good as random for everybody else, and the same whenever a wallet asks."""
    return app.seal.derive("token", payment.id, payment.salt.hex(), *sorted(accounts)).hex()


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


async def _found(app: App, token: str) -> tuple[Token, Payment]:
    for found in await app.store.read(captures.tokens([_hash(token)])):
        if (stored := await app.store.reader.payment(found.payment_id)) is not None:
            return found, await current(app, stored)
    raise _unauthorized()


def _check_open(payment: Payment) -> None:
    if payment.status is Status.EXPIRED:
        raise FlorinError(Code.PAYMENT_EXPIRED)
    if payment.status is not Status.REQUIRES_ACTION:
        raise _unauthorized()


def _unauthorized() -> FlorinError:
    return FlorinError(Code.UNAUTHORIZED, "This form cannot be used")


def _brought(collected: str | None) -> bytes:
    """The data that a wallet brings along, as it is kept."""
    try:
        value = orjson.loads(collected) if collected else None
    except orjson.JSONDecodeError:
        raise _invalid([Issue("", "is not valid JSON")], "collectedData") from None
    if capture.is_empty(value):
        raise FlorinError(Code.PARAMS_VALIDATION, "IC data required but not found")
    return _checked(value, "collectedData")


def _checked(value: object, member: str) -> bytes:
    """The data as it is kept; equal data is equal bytes."""
    data, issues = capture.read(value)
    if issues:
        raise _invalid(issues, member)
    return orjson.dumps(data, option=orjson.OPT_SORT_KEYS)


def _invalid(issues: Sequence[Issue], member: str) -> FlorinError:
    placed = tuple(Issue(_below(member, issue.field), issue.message) for issue in issues)
    first = placed[0]
    return FlorinError(
        Code.PARAMS_VALIDATION,
        f"Validation error: {first.field}: {first.message}",
        issues=placed,
    )


def _below(member: str, field: str) -> str:
    return member + field if not field or field.startswith("[") else f"{member}.{field}"


def _collected(app: App, payment: Payment, account: str, data: bytes) -> Collected:
    now_us = app.clock.now_us()
    sealed = app.seal.close(data, _place(payment.id, account), app.randbytes)
    kept_until_us = now_us + app.settings.capture.retention_days * _DAY_US
    return Collected(payment.id, account, sealed, now_us, kept_until_us)


def _place(payment_id: str, account: str) -> str:
    """What an envelope is bound to: it cannot be opened as anybody else's."""
    return f"{payment_id}|{account}"
