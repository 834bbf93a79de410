"""A merchant creates a payment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from florin_server.domain.errors import FlorinError, invalid
from florin_server.domain.ids import payment_id
from florin_server.domain.money import CURRENCIES, FiatUnit, parse_unit
from florin_server.domain.payments.option_names import SALT_BYTES
from florin_server.domain.payments.payment import Merchant, Payment, Status
from florin_server.domain.payments.state import Event
from florin_server.domain.payments.triggers import PREFIX, Trigger, trigger
from florin_server.domain.urls import is_https_url
from florin_server.flows.app import App, Caller
from florin_server.flows.payments.idempotent import failing, once
from florin_server.flows.payments.simulate import requested
from florin_server.store.engine.query import Op, operation
from florin_server.store.payments import payments, simulation
from florin_server.store.payments.idempotency import Replay

# no token knows more
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
    success_url, error_url = _checkout(wanted)
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
        raise invalid("amount.unit", "unknown unit") from error
    minimum, maximum = app.settings.amount_min, _TOKEN_UNITS_MAX
    if isinstance(unit, FiatUnit):
        if unit.code not in app.settings.currencies:
            raise invalid("amount.unit", "currency is not enabled")
        maximum = CURRENCIES[unit.code].max_value
        text = f"iso4217/{unit.code}"
    else:
        # the registry decides what an asset is called: addresses compare in lower case
        assets = app.assets(live=caller.live)
        name = next((a for a in assets if a.lower() == str(unit.asset).lower()), None)
        if name is None:
            raise invalid("amount.unit", "asset is not enabled")
        minimum, text = 1, f"caip19/{name}"
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


def _checkout(wanted: NewPayment) -> tuple[str | None, str | None]:
    """Both redirect URLs, or neither: half a redirect would strand a buyer."""
    if is_https_url(wanted.success_url) and is_https_url(wanted.error_url):
        return wanted.success_url, wanted.error_url
    return None, None
