"""A merchant creates a payment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from florin_server.base.context import EventContext, MeterContext
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.errors import (
    ApiError,
    ErrorCode,
    validation_error,
    validation_error_for,
)
from florin_server.domain.ids import generate_payment_id
from florin_server.domain.money import (
    CURRENCIES,
    MINOR_UNITS_MAX,
    REFERENCE_CURRENCY,
    REFERENCE_UNITS_MAX,
    FiatUnit,
    format_minor_units,
    parse_unit,
    suggest_unit,
)
from florin_server.domain.payments.option_names import SALT_BYTES
from florin_server.domain.payments.order import Order
from florin_server.domain.payments.payment import Merchant, Payment, PaymentStatus
from florin_server.domain.payments.state import PaymentStateEvent
from florin_server.domain.payments.triggers import TRIGGER_PREFIX, SandboxTrigger, find_trigger
from florin_server.domain.urls import parse_redirect_urls
from florin_server.idempotency.service import fail_with, run_once
from florin_server.idempotency.store.responses import StoredResponse
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.payments.service import conversion
from florin_server.money.payments.service.conversion import CurrencyValue
from florin_server.money.payments.service.simulate import get_requested_amount
from florin_server.money.payments.store import payments, simulation
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.rails.types import Asset
from florin_server.settings.context import SettingsContext


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    MeterContext,
    SettingsContext,
    StorageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


# price sources are called this often at least
_RATE_RETRY_S = 30
# the largest amount of any token
_UNIT_HELP = 'use a currency like "iso4217/USD" or an asset like "caip19/eip155:1/slip44:60"'
_TOKEN_UNITS_MAX = 2**256 - 1

_TRIGGER_EVENTS = {
    SandboxTrigger.SUCCEEDED: PaymentStateEvent.SIMULATE_SUCCEEDED,
    SandboxTrigger.FAILED: PaymentStateEvent.SIMULATE_FAILED,
    SandboxTrigger.EXPIRED: PaymentStateEvent.SIMULATE_EXPIRED,
    SandboxTrigger.CANCELLED: PaymentStateEvent.SIMULATE_CANCELLED,
    SandboxTrigger.STALL: PaymentStateEvent.SIMULATE_STALL,
}


@dataclass(frozen=True, slots=True)
class NewPayment:
    """A merchant's request; `value` is decimal digits in minor units of `unit`."""

    unit: str
    value: str
    reference_id: str = ""
    expires_at: int | None = None
    success_url: str = ""
    error_url: str = ""
    order: Order = field(default_factory=Order)


async def create(
    app: _Context,
    caller: Caller,
    merchant: Merchant,
    new_payment: NewPayment,
    encode_response: Callable[[Payment], bytes],
) -> Payment | StoredResponse:
    """Create the payment, or repeat the stored response of its idempotency key.

    `encode_response` returns the bytes that are stored as the response. A test payment can get its
    outcome at once, by its reference id.
    """
    try:
        payment = _build_payment(app, caller, merchant, new_payment, app.clock.now_us())
    except ApiError as fault:
        # a request that was valid once can be invalid now: an equal request still gets its response
        return await run_once(app, caller, fail_with(fault), encode_response)
    outcome = await run_once(app, caller, _create(app, payment, caller.request_id), encode_response)
    if not isinstance(outcome, StoredResponse):
        app.meters.record_payment_change(PaymentStatus.REQUIRES_ACTION)
        app.notifier.publish(Topic.WEBHOOKS)
    return outcome


@operation
def _create(app: _Context, payment: Payment, request_id: str) -> Op[Payment]:
    new = yield from payments.create(payment, request_id)
    # the response is the payment as created; the outcome follows immediately
    if new.trigger in _TRIGGER_EVENTS:
        event, price = _TRIGGER_EVENTS[new.trigger], get_requested_amount(app, new)
        yield from simulation.simulate(new.id, event, price, new.created_at_us, request_id)
    return new


def _build_payment(
    app: _Context, caller: Caller, merchant: Merchant, new_payment: NewPayment, now_us: int
) -> Payment:
    unit, value = _parse_amount(app, caller, new_payment)
    order = new_payment.order
    _check_order(app, order, unit, value)
    urls, _ = parse_redirect_urls(new_payment.success_url, new_payment.error_url)
    success_url, error_url = urls or (None, None)
    if not caller.live:
        _check_test_trigger(new_payment)
    return Payment(
        id=generate_payment_id(now_us, app.randbytes),
        partner_id=merchant.partner_id,
        merchant_id=merchant.id,
        live=caller.live,
        status=PaymentStatus.REQUIRES_ACTION,
        version=0,
        unit=unit,
        value=value,
        reference_id=new_payment.reference_id,
        success_url=success_url,
        error_url=error_url,
        salt=app.randbytes(SALT_BYTES),
        created_at_us=now_us,
        updated_at_us=now_us,
        expires_at=_get_expiry(app, new_payment, now_us // 1_000_000),
        description=order.description,
        lines=order.lines,
        metadata=order.metadata,
    )


def _check_order(app: ChainContext, order: Order, unit: str, value: int) -> None:
    """Refuse texts that cannot be shown, and lines that are not the whole amount."""
    if issues := tuple(order.list_issues()):
        raise validation_error_for(issues)
    if order.lines and order.total != value:
        total, amount = (_format_amount(app, unit, number) for number in (order.total, value))
        raise validation_error("lines", f"add up to {total}, but amount is {amount}")


def _format_amount(app: ChainContext, unit: str, value: int) -> str:
    kind, _, name = unit.partition("/")
    asset = CURRENCIES[name] if kind == "iso4217" else app.find_asset(name)
    if asset is None:
        return f"{value} minor units"
    return f"{format_minor_units(value, asset.decimals)} {asset.symbol}"


def _parse_amount(app: _Context, caller: Caller, new_payment: NewPayment) -> tuple[str, int]:
    value = int(new_payment.value)
    try:
        unit = parse_unit(new_payment.unit)
    except ValueError as error:
        nearest = suggest_unit(new_payment.unit)
        text = f'did you mean "{nearest}"?' if nearest else _UNIT_HELP
        raise validation_error(
            "amount.unit", f'unknown unit "{new_payment.unit[:80]}": {text}'
        ) from error
    if isinstance(unit, FiatUnit):
        _check_currency(app, caller, new_payment, unit.code)
        maximum = _get_max_value(app, unit.code, live=caller.live)
        minimum = _get_min_value(app, caller, currency=unit.code)
        text = f"iso4217/{unit.code}"
    else:
        maximum = _TOKEN_UNITS_MAX
        # the registry decides the name of an asset: addresses compare in lower case
        assets = app.list_assets(live=caller.live)
        name = next((a for a in assets if a.lower() == str(unit.asset).lower()), None)
        if name is None:
            raise validation_error("amount.unit", f"asset {unit.asset} is not enabled here")
        minimum, text = _get_min_value(app, caller, asset=assets[name][1]), f"caip19/{name}"
    if value < minimum:
        raise ApiError(
            validation_error("", "").code,
            f"Amount must be at least {minimum} to cover fees",
            issues=validation_error("amount.value", f"must be at least {minimum}").issues,
            details={"minAmount": str(minimum), "unit": text},
        )
    if value > maximum:
        raise validation_error(
            "amount.value", f"must be at most {maximum}", maxAmount=str(maximum), unit=text
        )
    return text, value


def _check_currency(app: _Context, caller: Caller, new_payment: NewPayment, code: str) -> None:
    """Refuse a currency that no asset of the settings can ever pay.

    A payment whose outcome a test names needs no asset; neither does a mode without chains.
    """
    if code not in app.settings.currencies:
        raise validation_error(
            "amount.unit",
            f"currency {code} is not enabled here: use one of {', '.join(app.settings.currencies)}",
        )
    if not caller.live and find_trigger(new_payment.reference_id) is not None:
        return
    if code not in conversion.list_accepted_currencies(app, live=caller.live):
        raise validation_error("amount.unit", f"no enabled asset has a price in {code}")


def _get_max_value(app: _Context, code: str, *, live: bool) -> int:
    """Return the largest amount of a payment in a currency, in minor units.

    An amount worth more than any purchase is a mistake: its value counts where rates exist, not the
    number of units of a weak currency.
    """
    decimals = CURRENCIES[REFERENCE_CURRENCY].decimals
    reference = CurrencyValue(REFERENCE_UNITS_MAX * 10**decimals, decimals, REFERENCE_CURRENCY)
    max_value = conversion.convert(app, live=live, amount=reference, currency=code)
    return MINOR_UNITS_MAX if max_value is None else min(max_value, MINOR_UNITS_MAX)


def _get_min_value(
    app: _Context, caller: Caller, *, currency: str | None = None, asset: Asset | None = None
) -> int:
    """Return the smallest amount of a payment; raise an error if it cannot be computed now."""
    minimum = conversion.find_minimum(app, live=caller.live, currency=currency, asset=asset)
    if minimum is not None:
        return minimum
    what = currency or (asset.symbol if asset else "")
    if conversion.may_minimum_be_unknown(app, live=caller.live, currency=currency, asset=asset):
        text = (
            f"The price of {what} is not known at the moment, and the minimum amount depends on "
            "it: try again"
        )
        raise ApiError(
            ErrorCode.INTERNAL_ERROR, text, unavailable=True, retry_after_s=_RATE_RETRY_S
        )
    raise validation_error(
        "amount.unit", f"the minimum amount cannot be converted: {what} has no price here"
    )


def _check_test_trigger(new_payment: NewPayment) -> None:
    """Refuse a misspelt trigger, which would be a payment that waits for a wallet."""
    if (
        new_payment.reference_id.startswith(TRIGGER_PREFIX)
        and find_trigger(new_payment.reference_id) is None
    ):
        raise validation_error(
            "referenceId",
            f"must be {TRIGGER_PREFIX} followed by one of {', '.join(SandboxTrigger)}",
        )


def _get_expiry(app: SettingsContext, new_payment: NewPayment, now_s: int) -> int:
    if new_payment.expires_at is None:
        return now_s + app.settings.payment_ttl_s
    if new_payment.expires_at <= now_s:
        raise validation_error("expiresAt", "must be in the future, in Unix seconds")
    if new_payment.expires_at > now_s + app.settings.payment_ttl_max_s:
        raise validation_error(
            "expiresAt",
            f"must be at most {app.settings.payment_ttl_max_s} s in the future, in Unix seconds",
        )
    return new_payment.expires_at
