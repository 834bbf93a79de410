"""How a console writes amounts, times and states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

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
from florin_gateway.jsonshape import timestamp_text
from google.protobuf.timestamp_pb2 import Timestamp

from florin_server.domain.conditions import MEANINGS, ConditionName
from florin_server.domain.money import CURRENCIES, spelled
from florin_server.domain.payments.state import EVENTS, Event
from florin_server.flows.app import App
from florin_server.flows.payments.checkout import find_registered
from florin_server.web.language import words

_WORDS = words("en", "site")
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
    "operator_decided": "the operator decided about its money",
}
# how a state looks: by a sign as well as by its colour
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


class Show:
    """What templates write values with."""

    def __init__(self, app: App) -> None:
        self._app = app

    def amount(self, amount: money_pb2.Amount) -> str:
        """An amount of an answer: "12.50 USD"; empty if there is none."""
        if not amount.unit:
            return ""
        return self._written(amount.value, amount.display.decimals, amount.display.asset_symbol)

    def whole(self, amount: money_pb2.Amount) -> str:
        """Return an amount as digits in whole units, as a form takes it."""
        try:
            return spelled(int(amount.value), amount.display.decimals)
        except ValueError:
            return amount.value

    def minor(self, asset: str, value: str) -> str:
        """Minor units of a CAIP-19 asset; of one that is not known now, as they are."""
        known = self._app.asset(asset)
        if known is None:
            return self._written(value, *self._coin(asset))
        return self._written(value, known.decimals, known.symbol)

    def _coin(self, asset: str) -> tuple[int, str]:
        """What gas is paid with is in no list of assets: a coin has 18 decimals, or 9 on Solana."""
        chain, _, name = asset.rpartition("/")
        if not name.startswith("slip44:"):
            return find_registered(asset) or (0, asset)
        return (9 if chain.startswith("solana:") else 18), f"coin of {chain}"

    def _written(self, value: str, decimals: int, symbol: str) -> str:
        try:
            return _WORDS.amount(Decimal(value).scaleb(-decimals), symbol)
        except InvalidOperation:
            return f"{value} {symbol}"

    def number(self, value: float) -> str:
        """A count."""
        return _WORDS.number(Decimal(int(value)))

    def time(self, at: Timestamp) -> str:
        """A point in time in UTC; empty if it is unset."""
        return "" if at.seconds == 0 else _WORDS.time(at.seconds)

    def iso(self, at: Timestamp) -> str:
        """The same for programs."""
        return timestamp_text(at)

    def second(self, at_s: int) -> str:
        """A point in time, of a field that holds Unix seconds."""
        return _WORDS.time(at_s)

    def value(self, amount: money_pb2.AmountValue) -> str:
        """An amount without its names."""
        kind, _, name = amount.unit.partition("/")
        return self.minor(name, amount.value) if kind == "caip19" else amount.value

    def revenue(self, one: listing_pb2.Revenue) -> str:
        """What payments in one currency come to; of a token the exact number is minor units."""
        kind, _, name = one.unit.partition("/")
        if kind == "caip19":
            return self.minor(name, one.value)
        known = CURRENCIES.get(name)
        return self._written(one.value, known.decimals if known else 0, one.currency)

    def cause(self, cause: str) -> str:
        """What changed a payment, in words."""
        if cause in _CAUSES:
            return _CAUSES[cause]
        try:
            return EVENTS[Event(cause)]
        except (ValueError, KeyError):
            return cause.replace("_", " ")

    def state(self, kind: str, number: int) -> str:
        """A value of an enum in words: "requires action"."""
        name: str = _ENUMS[kind].Name(number)
        return name.removeprefix(_PREFIXES[kind]).lower().replace("_", " ")

    def refunds(self, row: listing_pb2.PaymentRow) -> RefundSummary | None:
        """Return what the refunds of a payment come to; None if it has none."""
        if not row.refunds:
            return None
        states = [self.state("refund", one.status) for one in row.refunds]
        unfinished = next((one for one in states if one not in _REFUND_ENDS), None)
        ended = "succeeded" if "succeeded" in states else "failed"
        amount = money_pb2.Amount()
        amount.CopyFrom(row.refunds[-1].amount)
        values = [
            one.amount.value
            for one, state in zip(row.refunds, states, strict=True)
            if state != "failed"
        ]
        if all(value.isascii() and value.isdecimal() for value in values):
            amount.value = str(sum(map(int, values)))
        return RefundSummary(unfinished or ended, amount)

    def look(self, word: str) -> str:
        """How a state in words looks: a class of the style sheet."""
        for look, states in (("good", _GOOD), ("bad", _BAD), ("warn", _WARN)):
            if word in states:
                return look
        return "quiet"

    def meaning(self, name: str) -> Mapping[str, Any]:
        """What a condition tells, and what to do; empty for one of another release."""
        try:
            found = MEANINGS[ConditionName(name)]
        except (ValueError, KeyError):
            return {"tells": "", "to_do": ""}
        return {"tells": found.tells, "to_do": found.to_do}

    def short(self, text: str) -> str:
        """A long id with its beginning and its end."""
        return text if len(text) <= 20 else f"{text[:10]}…{text[-6:]}"

    def now(self) -> str:
        """The service's time."""
        return _WORDS.time(self._app.clock.now_us() // 1_000_000)
