"""A merchant creates a payment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from florin_server.domain.errors import Code, FlorinError, invalid
from florin_server.domain.ids import payment_id
from florin_server.domain.money import (
    CURRENCIES,
    MINOR_UNITS_MAX,
    REFERENCE_CURRENCY,
    REFERENCE_UNITS_MAX,
    FiatUnit,
    parse_unit,
    suggest_unit,
)
from florin_server.domain.payments.option_names import SALT_BYTES
from florin_server.domain.payments.payment import Merchant, Payment, Status
from florin_server.domain.payments.state import Event
from florin_server.domain.payments.triggers import PREFIX, Trigger, trigger
from florin_server.domain.urls import checkout_urls
from florin_server.flows.app import App, Caller
from florin_server.flows.payments import worth
from florin_server.flows.payments.idempotent import failing, once
from florin_server.flows.payments.simulate import requested
from florin_server.flows.payments.worth import Worth
from florin_server.rails.types import Asset
from florin_server.store.engine.query import Op, operation
from florin_server.store.payments import payments, simulation
from florin_server.store.payments.idempotency import Replay

# sources of prices are asked this often at least
_RATE_RETRY_S = 30
# no token knows more
_UNITS = "must be a currency, like iso4217/USD, or an asset, like caip19/eip155:1/slip44:60"
_TOKEN_UNITS_MAX = 2**256 - 1

_OUTCOMES = {
    Trigger.SUCCEEDED: Event.SIMULATE_SUCCEEDED,
    Trigger.FAILED: Event.SIMULATE_FAILED,
    Trigger.EXPIRED: Event.SIMULATE_EXPIRED,
    Trigger.CANCELLED: Event.SIMULATE_CANCELLED,
    Trigger.STALL: Event.SIMULATE_STALL,
}


@dataclass(frozen=True, slots=True)
class NewPayment:
    """What a merchant asks for; `value` is decimal digits in minor units of `unit`."""

    unit: str
    value: str
    reference_id: str = ""
    expires_at: int | None = None
    success_url: str = ""
    error_url: str = ""


async def create(
    app: App,
    caller: Caller,
    merchant: Merchant,
    wanted: NewPayment,
    receipt: Callable[[Payment], bytes],
) -> Payment | Replay:
    """Creates the payment, or repeats the answer that its idempotency key stands for.

    `receipt` gives the bytes that are stored as the answer. A test payment may get its outcome at
    once, by its reference id.
    """
    try:
        payment = _payment(app, caller, merchant, wanted, app.clock.now_us())
    except FlorinError as fault:
        # what was good once may be so no longer: an equal request still gets its answer
        return await once(app, caller, failing(fault), receipt)
    outcome = await once(app, caller, _create(app, payment, caller.request_id), receipt)
    if not isinstance(outcome, Replay):
        app.meters.changed(Status.REQUIRES_ACTION)
        app.webhooks.asked.set()
    return outcome


@operation
def _create(app: App, payment: Payment, request_id: str) -> Op[Payment]:
    new = yield from payments.create(payment, request_id)
    # the answer is the payment as it was made; the outcome comes right behind it
    if new.trigger in _OUTCOMES:
        event, price = _OUTCOMES[new.trigger], requested(app, new)
        yield from simulation.simulate(new.id, event, price, new.created_at_us, request_id)
    return new


def _payment(
    app: App, caller: Caller, merchant: Merchant, wanted: NewPayment, now_us: int
) -> Payment:
    unit, value = _amount(app, caller, wanted)
    urls, _ = checkout_urls(wanted.success_url, wanted.error_url)
    success_url, error_url = urls or (None, None)
    if not caller.live:
        _check_lever(wanted)
    return Payment(
        id=payment_id(now_us, app.randbytes),
        partner_id=merchant.partner_id,
        merchant_id=merchant.id,
        live=caller.live,
        status=Status.REQUIRES_ACTION,
        version=0,
        unit=unit,
        value=value,
        reference_id=wanted.reference_id,
        success_url=success_url,
        error_url=error_url,
        salt=app.randbytes(SALT_BYTES),
        created_at_us=now_us,
        updated_at_us=now_us,
        expires_at=_expiry(app, wanted, now_us // 1_000_000),
    )


def _amount(app: App, caller: Caller, wanted: NewPayment) -> tuple[str, int]:
    value = int(wanted.value)
    try:
        unit = parse_unit(wanted.unit)
    except ValueError as error:
        nearest = suggest_unit(wanted.unit)
        text = f"did you mean {nearest}?" if nearest else _UNITS
        raise invalid("amount.unit", f"unknown unit: {text}") from error
    if isinstance(unit, FiatUnit):
        _check_currency(app, caller, wanted, unit.code)
        maximum = _most(app, unit.code, live=caller.live)
        minimum = _least(app, caller, currency=unit.code)
        text = f"iso4217/{unit.code}"
    else:
        maximum = _TOKEN_UNITS_MAX
        # the registry decides what an asset is called: addresses compare in lower case
        assets = app.assets(live=caller.live)
        name = next((a for a in assets if a.lower() == str(unit.asset).lower()), None)
        if name is None:
            raise invalid("amount.unit", "asset is not enabled")
        minimum, text = _least(app, caller, asset=assets[name][1]), f"caip19/{name}"
    if value < minimum:
        raise FlorinError(
            invalid("", "").code,
            f"Amount must be at least {minimum} to cover fees",
            issues=invalid("amount.value", f"must be at least {minimum}").issues,
            details={"minAmount": str(minimum), "unit": text},
        )
    if value > maximum:
        raise invalid(
            "amount.value", f"must be at most {maximum}", maxAmount=str(maximum), unit=text
        )
    return text, value


def _check_currency(app: App, caller: Caller, wanted: NewPayment, code: str) -> None:
    """Refuse a currency that no asset of the settings can ever pay.

    A payment whose outcome a test names needs no asset; neither does a mode without chains.
    """
    if code not in app.settings.currencies:
        raise invalid("amount.unit", "currency is not enabled")
    if not caller.live and trigger(wanted.reference_id) is not None:
        return
    if code not in worth.accepted_currencies(app, live=caller.live):
        raise invalid("amount.unit", f"nothing here can be paid in {code}")


def _most(app: App, code: str, *, live: bool) -> int:
    """Return the most that may be asked for in a currency, in minor units.

    What is worth more than any purchase is a mistake: the value counts where rates tell it, not
    how many units of a weak currency it takes.
    """
    decimals = CURRENCIES[REFERENCE_CURRENCY].decimals
    reference = Worth(REFERENCE_UNITS_MAX * 10**decimals, decimals, REFERENCE_CURRENCY)
    known = worth.in_currency(app, live=live, worth=reference, currency=code)
    return MINOR_UNITS_MAX if known is None else min(known, MINOR_UNITS_MAX)


def _least(
    app: App, caller: Caller, *, currency: str | None = None, asset: Asset | None = None
) -> int:
    """Return the least that may be asked for; an error if it cannot be told now."""
    found = worth.least(app, live=caller.live, currency=currency, asset=asset)
    if found is not None:
        return found
    what = currency or (asset.symbol if asset else "")
    if worth.may_be_known(app, live=caller.live, currency=currency, asset=asset):
        text = f"No price of {what} is known now, which the least amount needs"
        raise FlorinError(Code.INTERNAL_ERROR, text, unavailable=True, retry_after_s=_RATE_RETRY_S)
    raise invalid("amount.unit", f"the least amount cannot be converted: {what} has no price here")


def _check_lever(wanted: NewPayment) -> None:
    """A misspelt trigger would be a payment that waits for a wallet."""
    if wanted.reference_id.startswith(PREFIX) and trigger(wanted.reference_id) is None:
        raise invalid("referenceId", f"after {PREFIX} comes one of {', '.join(Trigger)}")


def _expiry(app: App, wanted: NewPayment, now: int) -> int:
    if wanted.expires_at is None:
        return now + app.settings.payment_ttl_s
    if wanted.expires_at <= now:
        raise invalid("expiresAt", "must be in the future")
    if wanted.expires_at > now + app.settings.payment_ttl_max_s:
        raise invalid("expiresAt", f"must be at most {app.settings.payment_ttl_max_s} s ahead")
    return wanted.expires_at
