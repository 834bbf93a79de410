"""Formats of amounts, times and states in a console."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple, Protocol

from florin.v1 import (
    access_pb2,
    account_pb2,
    address_pb2,
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
from florin_server.money.payments.service.checkout import find_registered
from florin_server.rails.context import ChainContext
from florin_server.web.console.pills import StatePill, get_pill
from florin_server.web.language import Translations


class _Context(ChainContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


ENUMS: Final[Mapping[str, Any]] = {
    "payment": payment_pb2.PaymentStatus,
    "refund": refund_pb2.RefundStatus,
    "settlement": listing_pb2.SettlementStatus,
    "payout": payout_pb2.PayoutStatus,
    "payout_kind": payout_pb2.PayoutKind,
    "held": held_pb2.HeldPaymentState,
    "claim": held_pb2.DepositClaimState,
    "quarantine": quarantine_pb2.QuarantinedItemState,
    "verdict": ledger_pb2.BalanceVerdict,
    "condition": condition_pb2.ConditionState,
    "merchant": account_pb2.MerchantStatus,
    "partner": partner_pb2.PartnerStatus,
    "key_kind": partner_pb2.ApiKeyKind,
    "scope": access_pb2.KeyScope,
    "endpoint": webhook_pb2.WebhookEndpointStatus,
}
# of coins that have more than eight decimals
_PLACES_MIN: Final = 2
# message keys of accounts of the ledger, by kind or by the name of one that exists once
LEDGER_KEYS: Final = {
    "wallet": "ledger.wallet",
    "merchant": "ledger.merchant",
    "held": "ledger.held",
    "external": "ledger.external",
    FEE: "ledger.fee",
    GAS: "ledger.gas",
    RENT: "ledger.rent",
    OPENING: "ledger.opening",
    OPERATOR: "ledger.operator",
}
_SHORT_CHARS: Final = 16
_MONTH_S: Final = 30 * 86_400
# the largest unit that fits: the seconds in it, and its message key
_AGES: Final = ((86_400, "days"), (3_600, "hours"), (60, "minutes"), (1, "seconds"))
_REFUND_ENDS = {"succeeded", "failed"}
_PREFIXES: Final = {
    "payment": "PAYMENT_STATUS_",
    "refund": "REFUND_STATUS_",
    "settlement": "SETTLEMENT_STATUS_",
    "payout": "PAYOUT_STATUS_",
    "payout_kind": "PAYOUT_KIND_",
    "held": "HELD_PAYMENT_STATE_",
    "claim": "DEPOSIT_CLAIM_STATE_",
    "quarantine": "QUARANTINED_ITEM_STATE_",
    "verdict": "BALANCE_VERDICT_",
    "condition": "CONDITION_STATE_",
    "merchant": "MERCHANT_STATUS_",
    "partner": "PARTNER_STATUS_",
    "key_kind": "API_KEY_KIND_",
    "scope": "KEY_SCOPE_",
    "endpoint": "WEBHOOK_ENDPOINT_STATUS_",
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
    """Formats values for templates, in the language of their reader."""

    def __init__(self, app: _Context, texts: Translations) -> None:
        self._app = app
        self.texts = texts

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
        return self.texts.plain(LEDGER_KEYS[kind]) if kind in LEDGER_KEYS else kind

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
        kind, _, place = account.partition(":")
        if account in SINGLE_ACCOUNTS:
            return LedgerLabel(self.ledger_kind(account), "")
        chain_id = place.rpartition(":")[0]
        detail = self.short(place) if not chain_id else self.account(place)
        where = self.chain(chain_id) if chain_id else ""
        label = self.ledger_kind(kind)
        name = self.texts.plain("on_network", name=label, network=where) if where else label
        return LedgerLabel(name, detail)

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
        return self.token_name(configured.symbol, configured.network_name)

    def token_name(self, symbol: str, network: str) -> str:
        """Return a token as "USDC on Base"."""
        return self.texts.plain("on_network", name=symbol, network=network)

    def _get_coin(self, asset: str) -> tuple[int, str]:
        """Return decimals and symbol of an unlisted asset; native coins have 18, on Solana 9."""
        chain, _, name = asset.rpartition("/")
        if not name.startswith("slip44:"):
            return find_registered(asset) or (0, asset)
        return (9 if chain.startswith("solana:") else 18), self.texts.plain(
            "coin_of", network=chain
        )

    def _format_amount(self, value: str, decimals: int, symbol: str) -> str:
        try:
            amount = Decimal(value).scaleb(-decimals)
            return self.texts.format_amount(_trim(amount, decimals), symbol)
        except InvalidOperation:
            return f"{value} {symbol}"

    def number(self, value: float) -> str:
        """Return a count with grouped digits."""
        return self.texts.format_number(Decimal(int(value)))

    def decimal(self, value: float, places: int = 1) -> str:
        """Return a measured value, rounded to decimals."""
        return self.texts.format_number(Decimal(f"{value:.{places}f}"))

    def percent(self, value: float) -> str:
        """Return a share in percent, such as "12.5 %"."""
        return self.texts.plain("percent", number=self.decimal(value))

    def time(self, at: Timestamp) -> str:
        """Return a point in time in UTC; empty if it is unset."""
        return "" if at.seconds == 0 else self.texts.format_time(at.seconds)

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
        """Return the cause of a payment's change in words; of a newer release, its name."""
        key = f"cause.{cause}"
        return self.texts.plain(key) if key in self.texts.texts else cause.replace("_", " ")

    def state(self, kind: str, number: int) -> str:
        """Return the name of a value of an enum for code and files, such as "requires action"."""
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

    def kind(self, kind: str, number: int) -> str:
        """Return a kind in words, such as "Refund" of a payout; of a newer release, its name."""
        return self.item_kind(self.state(kind, number).replace(" ", "_"), kind)

    def item_kind(self, name: str, kind: str = "item_kind") -> str:
        """Return the kind of a quarantined item in words; of a newer release, its name."""
        key = f"{kind}.{name}"
        if key in self.texts.texts:
            return self.texts.plain(key)
        return name.replace("_", " ").capitalize()

    def pill(self, kind: str, number: int) -> StatePill:
        """Return the word, color and sign of a value of an enum."""
        return self.word(f"{kind}.{self.state(kind, number).replace(' ', '_')}")

    def word(self, name: str) -> StatePill:
        """Return the word, color and sign of a state by its name."""
        return get_pill(self.texts, name)

    def deposit_pill(self, deposit: address_pb2.PaymentDeposit) -> StatePill:
        """Return how far a deposit is: returned, final, or seen in a block."""
        if deposit.HasField("returned_by"):
            return self.word("deposit.returned")
        return self.word("deposit.final" if deposit.is_final else "deposit.seen")

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
            return self.word("payment.refunding")
        values = [refund.amount.value for refund in active]
        if not all(value.isdecimal() and value.isascii() for value in (*values, paid.value)):
            return self.word("payment.refunded")
        whole = sum(map(int, values)) >= int(paid.value)
        return self.word("payment.refunded" if whole else "payment.partly_refunded")

    def endpoint_pill(self, endpoint: webhook_pb2.WebhookEndpoint) -> StatePill:
        """Return the state of an endpoint; one that fails at the moment is being retried."""
        if self.state("endpoint", endpoint.status) == "active" and endpoint.failures:
            return self.word("endpoint.retrying")
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
            return self.texts.plain("js.ago.now") if seconds == 0 else self.day(at)
        size, unit = next((size, unit) for size, unit in _AGES if seconds >= size)
        return self.texts.plain(f"js.ago.{unit}", number=self.number(seconds // size))

    def day(self, at: Timestamp) -> str:
        """Return the day of a point in time, in UTC; empty if it is unset."""
        return "" if at.seconds == 0 else self.texts.format_date(at.seconds)

    def now_us(self) -> int:
        """Return the time of the service, microseconds since the Unix epoch."""
        return self._app.clock.now_us()

    def now_iso(self) -> str:
        """Return the time of the service as programs read it."""
        return self.iso(Timestamp(seconds=self._app.clock.now_us() // 1_000_000))

    def now(self) -> str:
        """Return the time of the service."""
        return self.texts.format_time(self._app.clock.now_us() // 1_000_000)
