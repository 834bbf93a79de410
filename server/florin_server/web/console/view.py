"""Formats of amounts, times and states in a console."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Protocol

from florin.v1 import (
    access_pb2,
    account_pb2,
    condition_pb2,
    held_pb2,
    ledger_pb2,
    listing_pb2,
    money_pb2,
    partner_pb2,
    payment_pb2,
    payout_pb2,
    quarantine_pb2,
    refund_pb2,
    webhook_pb2,
)
from google.protobuf.timestamp_pb2 import Timestamp
from grpc_rest_gateway.jsonshape import format_timestamp

from florin_server.db.context import StorageContext
from florin_server.domain.conditions import CONDITION_SPECS, ConditionName
from florin_server.domain.money import CURRENCIES, format_minor_units
from florin_server.domain.payments.state import EVENT_DESCRIPTIONS, PaymentStateEvent
from florin_server.money.payments.service.checkout import find_registered
from florin_server.rails.context import ChainContext
from florin_server.web.language import get_translations


class _Context(ChainContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_TEXTS = get_translations("en", "site")
_ENUMS: Final[Mapping[str, Any]] = {
    "payment": payment_pb2.PaymentStatus,
    "refund": refund_pb2.RefundStatus,
    "settlement": listing_pb2.SettlementStatus,
    "payout": payout_pb2.PayoutStatus,
    "payout_kind": payout_pb2.PayoutKind,
    "held": held_pb2.HeldPaymentState,
    "quarantine": quarantine_pb2.QuarantinedItemState,
    "verdict": ledger_pb2.BalanceVerdict,
    "condition": condition_pb2.ConditionState,
    "merchant": account_pb2.MerchantStatus,
    "partner": partner_pb2.PartnerStatus,
    "key": partner_pb2.ApiKeyKind,
    "scope": access_pb2.KeyScope,
    "endpoint": webhook_pb2.WebhookEndpointStatus,
}
_REFUND_ENDS = {"succeeded", "failed"}
_PREFIXES: Final = {
    "payment": "PAYMENT_STATUS_",
    "refund": "REFUND_STATUS_",
    "settlement": "SETTLEMENT_STATUS_",
    "payout": "PAYOUT_STATUS_",
    "payout_kind": "PAYOUT_KIND_",
    "held": "HELD_PAYMENT_STATE_",
    "quarantine": "QUARANTINED_ITEM_STATE_",
    "verdict": "BALANCE_VERDICT_",
    "condition": "CONDITION_STATE_",
    "merchant": "MERCHANT_STATUS_",
    "partner": "PARTNER_STATUS_",
    "key": "API_KEY_KIND_",
    "scope": "KEY_SCOPE_",
    "endpoint": "WEBHOOK_ENDPOINT_STATUS_",
}
_CAUSES: Final = {
    "created": "the merchant created it",
    "operator_decided": "the operator decided on its money",
}
# states by the style of their badge: a sign as well as a color
_GOOD: Final = frozenset({"succeeded", "done", "ok", "active", "exact", "settled", "released"})
_BAD: Final = frozenset({"failed", "critical", "missing", "suspended", "refused", "set aside"})
_WARN: Final = frozenset(
    {"warning", "held", "unbooked", "expired", "inactive", "not read", "paused"}
)
PAYMENT_STATES: Final = tuple(
    name.removeprefix("PAYMENT_STATUS_").lower() for name in payment_pb2.PaymentStatus.keys()[1:]
)
SCOPES: Final = tuple(
    name.removeprefix("KEY_SCOPE_").lower() for name in access_pb2.KeyScope.keys()[1:]
)


@dataclass(frozen=True, slots=True)
class RefundSummary:
    """The refunds of a payment in one state and one sum.

    `state` is that of an unfinished refund, else "succeeded" if one succeeded, else "failed".
    `amount` is in the paid asset, without failed refunds.
    """

    state: str
    amount: money_pb2.Amount


class Formatter:
    """Formats values for templates."""

    def __init__(self, app: _Context) -> None:
        self._app = app

    def amount(self, amount: money_pb2.Amount) -> str:
        """Return an amount as "12.50 USD"; empty if it is unset."""
        if not amount.unit:
            return ""
        return self._format_amount(
            amount.value, amount.display.decimals, amount.display.asset_symbol
        )

    def network(self, amount: money_pb2.Amount) -> str:
        """Return the name of a token's network, or its CAIP-2 id; empty for a currency."""
        if amount.display.HasField("network_name"):
            return amount.display.network_name
        return amount.unit.partition("/")[2].rpartition("/")[0]

    def whole(self, amount: money_pb2.Amount) -> str:
        """Return an amount as digits in whole units, as a form takes it."""
        try:
            return format_minor_units(int(amount.value), amount.display.decimals)
        except ValueError:
            return amount.value

    def minor(self, asset: str, value: str) -> str:
        """Return minor units of a CAIP-19 asset in whole units; unchanged if it is unknown."""
        configured_asset = self._app.find_asset(asset)
        if configured_asset is None:
            return self._format_amount(value, *self._get_coin(asset))
        return self._format_amount(value, configured_asset.decimals, configured_asset.symbol)

    def asset_name(self, asset: str) -> str:
        """Return an asset as "USDC on Base"; its CAIP-19 id if it is unknown."""
        configured = self._app.find_asset(asset)
        if configured is None:
            return asset
        return f"{configured.symbol} on {configured.network_name}"

    def _get_coin(self, asset: str) -> tuple[int, str]:
        """Return decimals and symbol of an unlisted asset; native coins have 18, on Solana 9."""
        chain, _, name = asset.rpartition("/")
        if not name.startswith("slip44:"):
            return find_registered(asset) or (0, asset)
        return (9 if chain.startswith("solana:") else 18), f"coin of {chain}"

    def _format_amount(self, value: str, decimals: int, symbol: str) -> str:
        try:
            return _TEXTS.format_amount(Decimal(value).scaleb(-decimals), symbol)
        except InvalidOperation:
            return f"{value} {symbol}"

    def number(self, value: float) -> str:
        """Return a count with grouped digits."""
        return _TEXTS.format_number(Decimal(int(value)))

    def time(self, at: Timestamp) -> str:
        """Return a point in time in UTC; empty if it is unset."""
        return "" if at.seconds == 0 else _TEXTS.format_time(at.seconds)

    def iso(self, at: Timestamp) -> str:
        """Return a point in time as programs read it (RFC 3339)."""
        return format_timestamp(at)

    def second(self, at_s: int) -> str:
        """Return a point in time in UTC, from Unix seconds."""
        return _TEXTS.format_time(at_s)

    def value(self, amount: money_pb2.AmountValue) -> str:
        """Return an amount whose unit has no display names."""
        kind, _, name = amount.unit.partition("/")
        return self.minor(name, amount.value) if kind == "caip19" else amount.value

    def revenue(self, revenue: listing_pb2.Revenue) -> str:
        """Return the sum of payments in one currency; `value` of a token is in minor units."""
        kind, _, name = revenue.unit.partition("/")
        if kind == "caip19":
            return self.minor(name, revenue.value)
        currency = CURRENCIES.get(name)
        return self._format_amount(
            revenue.value, currency.decimals if currency else 0, revenue.currency
        )

    def cause(self, cause: str) -> str:
        """Return the cause of a payment's change in words."""
        if cause in _CAUSES:
            return _CAUSES[cause]
        try:
            return EVENT_DESCRIPTIONS[PaymentStateEvent(cause)]
        except (ValueError, KeyError):
            return cause.replace("_", " ")

    def state(self, kind: str, number: int) -> str:
        """Return a value of an enum in words, such as "requires action"."""
        name: str = _ENUMS[kind].Name(number)
        return name.removeprefix(_PREFIXES[kind]).lower().replace("_", " ")

    def refunds(self, row: listing_pb2.PaymentRow) -> RefundSummary | None:
        """Return the summary of a payment's refunds; None without refunds."""
        if not row.refunds:
            return None
        states = [self.state("refund", refund.status) for refund in row.refunds]
        unfinished = next((state for state in states if state not in _REFUND_ENDS), None)
        ended = "succeeded" if "succeeded" in states else "failed"
        amount = money_pb2.Amount()
        amount.CopyFrom(row.refunds[-1].amount)
        values = [
            refund.amount.value
            for refund, state in zip(row.refunds, states, strict=True)
            if state != "failed"
        ]
        if all(value.isascii() and value.isdecimal() for value in values):
            amount.value = str(sum(map(int, values)))
        return RefundSummary(unfinished or ended, amount)

    def badge_class(self, state: str) -> str:
        """Return the class of the style sheet for a state in words."""
        for css_class, states in (("good", _GOOD), ("bad", _BAD), ("warn", _WARN)):
            if state in states:
                return css_class
        return "quiet"

    def meaning(self, name: str) -> Mapping[str, Any]:
        """Return the meaning of a condition and what to do; empty for an unknown one."""
        try:
            spec = CONDITION_SPECS[ConditionName(name)]
        except (ValueError, KeyError):
            return {"tells": "", "to_do": ""}
        return {"tells": spec.description, "to_do": spec.remedy}

    def short(self, text: str) -> str:
        """Return the beginning and the end of a long id."""
        return text if len(text) <= 20 else f"{text[:10]}…{text[-6:]}"

    def now(self) -> str:
        """Return the time of the service."""
        return _TEXTS.format_time(self._app.clock.now_us() // 1_000_000)
