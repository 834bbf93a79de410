"""Test the payments file for spreadsheets: each amount is a number in a separate cell."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from types import SimpleNamespace

from florin.v1 import listing_pb2, money_pb2, payment_pb2, refund_pb2
from florin_server.base.clock import TestClock
from florin_server.web.console.listing import build_csv
from florin_server.web.console.view import Formatter
from florin_server.web.language import get_translations
from google.protobuf.timestamp_pb2 import Timestamp

# files are the same in all languages
SHOW = Formatter(
    SimpleNamespace(find_asset=lambda _: None, clock=TestClock(0)),
    get_translations("de", "console"),
)
NUMBERS = ("amount", "asset_amount", "rate", "fee", "net", "refund_amount")
HEADER = (
    "payment_id,merchant_id,merchant,reference_id,status,live,amount,currency,asset_amount,asset,"
    "asset_id,rate,fee,net,refund_status,refund_amount,refunded_at,payer,wallet,network,"
    "transaction,created_at,last_updated_at,settled_at,refunds,"
    "fee_asset,net_asset,refund_asset"
)


def amount(unit: str, value: int, symbol: str, decimals: int) -> money_pb2.Amount:
    display = money_pb2.AmountDisplay(asset_symbol=symbol, decimals=decimals)
    return money_pb2.Amount(unit=unit, value=str(value), display=display)


def usd(value: int) -> money_pb2.Amount:
    return amount("iso4217/USD", value, "USD", 2)


def token(value: int) -> money_pb2.Amount:
    return amount("caip19/eip155:1/erc20:0xa", value, "tUSD", 6)


def row(status: str = "SUCCEEDED", **more) -> listing_pb2.PaymentRow:
    at = Timestamp(seconds=1_800_000_000)
    number = payment_pb2.PaymentStatus.Value(f"PAYMENT_STATUS_{status}")
    return listing_pb2.PaymentRow(
        payment_id="pay_1", status=number, created_at=at, last_updated_at=at, **more
    )


def read(*rows: listing_pb2.PaymentRow) -> list[dict[str, str]]:
    text = build_csv(SHOW, rows).body.decode()
    assert text.splitlines()[0] == HEADER
    return list(csv.DictReader(io.StringIO(text)))


def part(value: int, status: str = "SUCCEEDED", at: int | None = 60) -> refund_pb2.Refund:
    """Create a refund of `value` token units that ended `at` seconds after the payment."""
    refund = refund_pb2.Refund(
        refund_id=f"rfnd_{value}",
        status=refund_pb2.RefundStatus.Value(f"REFUND_STATUS_{status}"),
        amount=token(value),
    )
    if at is not None:
        refund.completed_at.seconds = 1_800_000_000 + at
    return refund


def test_amounts_and_their_units_have_columns_of_their_own():
    buyer = payment_pb2.Buyer(account_caip10="eip155:1:0xb")
    fees = listing_pb2.PaymentFees(total=token(130_200))
    (result,) = read(
        row(
            fiat_amount=usd(3_255),
            token_amount=token(32_550_000),
            buyer=buyer,
            fees=fees,
            refunds=[part(32_550_000)],
        )
    )
    assert {name: result[name] for name in NUMBERS} == {
        "amount": "32.55",
        "asset_amount": "32.550000",
        "rate": "1.00000000",
        "fee": "0.130200",
        "net": "32.419800",
        "refund_amount": "32.550000",
    }
    assert (result["currency"], result["asset"]) == ("USD", "tUSD")
    assert result["asset_id"] == "eip155:1/erc20:0xa"
    assert result["created_at"] == result["last_updated_at"] == "2027-01-15T08:00:00.000Z"
    assert (result["refund_status"], result["refunded_at"]) == (
        "succeeded",
        "2027-01-15T08:01:00.000Z",
    )


def test_each_amount_has_its_unit_where_it_has_a_value():
    (paid, waiting) = read(
        row(token_amount=token(32_550_000), refunds=[part(5_000_000)]),
        row("REQUIRES_ACTION"),
    )
    for name in ("fee", "net", "refund_amount"):
        unit = f"{name.removesuffix('_amount')}_asset"
        assert (bool(paid[name]), paid[unit]) == (True, paid["asset"])
        assert (waiting[name], waiting[unit]) == ("", "")


def test_refunds_of_a_payment_have_their_sum_and_each_amount():
    parts = [part(5_000_000), part(7_000_000, "FAILED", 180), part(500_000, at=120)]
    (result,) = read(row(token_amount=token(32_550_000), refunds=parts))
    assert (result["refund_status"], result["refund_amount"]) == ("succeeded", "5.500000")
    assert result["refunded_at"] == "2027-01-15T08:03:00.000Z"
    assert result["refunds"] == (
        "rfnd_5000000 succeeded 5.000000; rfnd_7000000 failed 7.000000; "
        "rfnd_500000 succeeded 0.500000"
    )
    (waiting,) = read(row(refunds=[part(1, "PENDING", None), part(2)]))
    assert (waiting["refund_status"], waiting["refund_amount"]) == ("pending", "0.000003")
    (failed,) = read(row(refunds=[part(1, "FAILED")]))
    assert (failed["refund_status"], failed["refund_amount"]) == ("failed", "0.000000")


def test_sums_of_a_column_are_exact_for_any_size_and_sign():
    coin = amount("caip19/eip155:1/slip44:60", 10**40 + 1, "ETH", 18)
    rows = [row(token_amount=coin), row(token_amount=coin)]
    assert sum(int(item["asset_amount"].replace(".", "")) for item in read(*rows)) == 2 * 10**40 + 2
    yen = amount("iso4217/JPY", 1_500, "JPY", 0)
    assert [item["amount"] for item in read(row(fiat_amount=yen))] == ["1500"]


def test_unknown_value_is_an_empty_cell():
    (result,) = read(row("REQUIRES_ACTION", fiat_amount=usd(5)))
    assert result["amount"] == "0.05"
    assert {result[name] for name in NUMBERS if name != "amount"} == {""}
    (failed,) = read(row("FAILED", token_amount=token(1)))
    assert (failed["asset_amount"], failed["fee"], failed["net"]) == ("0.000001", "", "")


def test_a_rate_is_rounded_to_eight_places():
    buyer = payment_pb2.Buyer(account_caip10="eip155:1:0xb")
    coin = amount("caip19/eip155:1/slip44:60", 7_221_384_158_848_501, "ETH", 18)
    (result,) = read(row(fiat_amount=usd(1_812), token_amount=coin, buyer=buyer))
    exact = Decimal("18.12") / Decimal("0.007221384158848501")
    assert result["rate"] == str(exact.quantize(Decimal("1e-8")))
