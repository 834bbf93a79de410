"""Formats of amounts, times and states in a console."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple, Protocol

from florin.v1 import (
    access_pb2,
    account_pb2,
    condition_pb2,
    held_pb2,
    ledger_pb2,
    listing_pb2,
    merchant_pb2,
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
from florin_server.domain.ledger.accounts import (
    FEE,
    GAS,
    OPENING,
    OPERATOR,
    RENT,
    SINGLE_ACCOUNTS,
)
from florin_server.domain.money import CURRENCIES, RATE_PLACES, format_minor_units
from florin_server.domain.money import compute_rate as compute_minor_rate
from florin_server.domain.payments.state import EVENT_DESCRIPTIONS, PaymentStateEvent
from florin_server.money.payments.service.checkout import find_registered
from florin_server.rails.context import ChainContext
from florin_server.web.console.pills import StatePill, find_pill, get_pill
from florin_server.web.language import get_translations


class _Context(ChainContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_TEXTS = get_translations("en", "site")
ENUMS: Final[Mapping[str, Any]] = {
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
# of coins that have more than eight decimals
_PLACES_MIN: Final = 2
_LEDGER_NAMES: Final = {
    "wallet": "Wallet",
    "merchant": "Owed to a merchant",
    "held": "Held from a payer",
    "external": "Outside account",
    FEE: "Fees earned",
    GAS: "Network fees spent",
    RENT: "Rent of opened accounts",
    OPENING: "Opening balances",
    OPERATOR: "Operator's deposits",
}
_SHORT_CHARS: Final = 16
_MONTH_S: Final = 30 * 86_400
# the largest unit that fits, and the seconds in it
_AGES: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
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


class LedgerLabel(NamedTuple):
    """An account of the ledger for people: `detail` is a part of its address or id."""

    name: str
    detail: str


def compute_rate(requested: money_pb2.Amount, paid: money_pb2.Amount) -> str:
    """Return the requested units per whole unit of the paid asset, to 8 decimals; empty if unknown.

    Rounded half up.
    """
    values = (requested.value, paid.value)
    if not all(value.isascii() and value.isdecimal() for value in values) or not int(paid.value):
        return ""
    rate = compute_minor_rate(
        int(requested.value), requested.display.decimals, int(paid.value), paid.display.decimals
    )
    return format_minor_units(rate, RATE_PLACES)


def _trim(amount: Decimal, decimals: int) -> Decimal:
    """Return an amount of a coin with many decimals without the zeros at its end, exactly."""
    if decimals <= RATE_PLACES or not amount.is_finite():
        return amount
    digits = -int(amount.normalize().as_tuple().exponent)
    return amount.quantize(Decimal(1).scaleb(-max(digits, _PLACES_MIN)))


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

    def line_amount(
        self, payment: merchant_pb2.PaymentDetail, line: merchant_pb2.PaymentLine
    ) -> str:
        """Return the amount of a line of the order, which is in the payment's unit."""
        display = payment.amount.display
        return self._format_amount(line.amount, display.decimals, display.asset_symbol)

    def network(self, amount: money_pb2.Amount) -> str:
        """Return the name of a token's network, or its CAIP-2 id; empty for a currency."""
        if amount.display.HasField("network_name"):
            return amount.display.network_name
        return amount.unit.partition("/")[2].rpartition("/")[0]

    def rate(self, requested: money_pb2.Amount, paid: money_pb2.Amount) -> str:
        """Return the currency per whole unit of the paid asset; empty for a request in a token."""
        if not requested.unit.startswith("iso4217/"):
            return ""
        rate = compute_rate(requested, paid)
        return f"{rate} {requested.display.asset_symbol}" if rate else ""

    def chain(self, chain_id: str) -> str:
        """Return the name of a chain; its CAIP-2 id if it has no asset here."""
        for live in (True, False):
            for rail, asset in self._app.list_assets(live=live).values():
                if rail.chain_id == chain_id:
                    return asset.network_name
        return chain_id

    def ledger_kind(self, kind: str) -> str:
        """Return the name of a kind of account of the ledger."""
        return _LEDGER_NAMES.get(kind, kind)

    def difference(self, checked: ledger_pb2.WalletBalance) -> str:
        """Return what a wallet holds beyond its books; a dash if it was not read or is equal."""
        if not checked.HasField("held"):
            return "–"
        try:
            difference = int(checked.held) - int(checked.booked)
        except ValueError:
            return "–"
        if not difference:
            return "–"
        return f"{'+' if difference > 0 else ''}{self.minor(checked.asset, str(difference))}"

    def ledger(self, account: str) -> LedgerLabel:
        """Return the name of an account of the ledger, and what tells it from its like."""
        kind, _, name = account.partition(":")
        if account in SINGLE_ACCOUNTS:
            return LedgerLabel(_LEDGER_NAMES.get(account, account), "")
        chain_id = name.rpartition(":")[0]
        detail = self.short(name) if not chain_id else self.account(name)
        where = self.chain(chain_id) if chain_id else ""
        label = _LEDGER_NAMES.get(kind, kind)
        return LedgerLabel(f"{label} on {where}" if where else label, detail)

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
            amount = Decimal(value).scaleb(-decimals)
            return _TEXTS.format_amount(_trim(amount, decimals), symbol)
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

    def moment(self, at_us: int) -> Timestamp:
        """Return a point in time from microseconds."""
        at = Timestamp()
        at.FromMicroseconds(at_us)
        return at

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
        name: str = ENUMS[kind].Name(number)
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

    def pill(self, kind: str, number: int) -> StatePill:
        """Return the word, color and sign of a value of an enum."""
        return get_pill(kind, self.state(kind, number))

    def word(self, state: str) -> StatePill:
        """Return the word, color and sign of a state that no enum has."""
        return find_pill(state)

    def row_pill(self, row: listing_pb2.PaymentRow) -> StatePill:
        """Return the state of a payment with that of its refunds."""
        return self._payment_pill(row.status, row.refunds, row.token_amount)

    def has_paid(self, row: listing_pb2.PaymentRow) -> bool:
        """Return True if the token amount of a payment is what was paid, not what is requested."""
        paid = row.status == payment_pb2.PAYMENT_STATUS_SUCCEEDED
        return row.HasField("token_amount") and (paid or row.HasField("buyer"))

    def payment_pill(self, payment: merchant_pb2.PaymentDetail) -> StatePill:
        """Return the state of a payment with that of its refunds."""
        return self._payment_pill(payment.status, payment.refunds, payment.info.option_amount)

    def _payment_pill(
        self,
        status: payment_pb2.PaymentStatus.ValueType,
        refunds: Sequence[refund_pb2.Refund],
        paid: money_pb2.Amount,
    ) -> StatePill:
        states = [self.state("refund", refund.status) for refund in refunds]
        active = [
            refund for refund, state in zip(refunds, states, strict=True) if state != "failed"
        ]
        if not active:
            return self.pill("payment", status)
        if any(state not in _REFUND_ENDS for state in states):
            return find_pill("refunding")
        values = [refund.amount.value for refund in active]
        if not all(value.isdecimal() and value.isascii() for value in (*values, paid.value)):
            return find_pill("refunded")
        whole = sum(map(int, values)) >= int(paid.value)
        return find_pill("refunded" if whole else "partly refunded")

    def endpoint_pill(self, endpoint: webhook_pb2.WebhookEndpoint) -> StatePill:
        """Return the state of an endpoint; one that fails at the moment is being retried."""
        if self.state("endpoint", endpoint.status) == "active" and endpoint.failures:
            return find_pill("retrying")
        return self.pill("endpoint", endpoint.status)

    def short(self, text: str) -> str:
        """Return the beginning and the end of a long id."""
        return text if len(text) <= _SHORT_CHARS else f"{text[:8]}…{text[-4:]}"

    def account(self, account: str) -> str:
        """Return the beginning and the end of the address of a CAIP-10 account."""
        address = account.rpartition(":")[2]
        return address if len(address) <= _SHORT_CHARS else f"{address[:6]}…{address[-4:]}"

    def ago(self, at: Timestamp) -> str:
        """Return how long ago a point in time was: "8 s ago"; a date after a month."""
        seconds = self._app.clock.now_us() // 1_000_000 - at.seconds
        if not 0 < seconds <= _MONTH_S:
            return "now" if seconds == 0 else self.day(at)
        size, unit = next((size, unit) for size, unit in _AGES if seconds >= size)
        return f"{seconds // size} {unit} ago"

    def day(self, at: Timestamp) -> str:
        """Return the day of a point in time, in UTC; empty if it is unset."""
        return "" if at.seconds == 0 else _TEXTS.format_date(at.seconds)

    def now_us(self) -> int:
        """Return the time of the service, microseconds since the Unix epoch."""
        return self._app.clock.now_us()

    def now_iso(self) -> str:
        """Return the time of the service as programs read it."""
        return self.iso(Timestamp(seconds=self._app.clock.now_us() // 1_000_000))

    def now(self) -> str:
        """Return the time of the service."""
        return _TEXTS.format_time(self._app.clock.now_us() // 1_000_000)
