"""What the charts of a console show, from rows as the API lists them."""

from __future__ import annotations

from florin.v1 import listing_pb2, money_pb2, payment_pb2
from florin_server.web.console.charts import HEIGHT, WIDTH, charts
from google.protobuf.timestamp_pb2 import Timestamp

DAY_S = 86_400
NOW_S = 1_800_000_000 // DAY_S * DAY_S + 3600
USD = money_pb2.AmountDisplay(asset_symbol="USD", decimals=2)
EUR = money_pb2.AmountDisplay(asset_symbol="EUR", decimals=2)


def row(day: int, status: str, value: int, took_s: float = 2, **more) -> listing_pb2.PaymentRow:
    at = Timestamp(seconds=NOW_S - day * DAY_S)
    ended = Timestamp()
    ended.FromMicroseconds(int((at.seconds + took_s) * 1_000_000))
    amount = {"unit": "iso4217/USD", "value": str(value), "display": USD}
    return listing_pb2.PaymentRow(
        status=payment_pb2.PaymentStatus.Value(f"PAYMENT_STATUS_{status}"),
        is_terminal=status != "REQUIRES_ACTION",
        created_at=at,
        last_updated_at=ended,
        **{"fiat_amount": amount, **more},
    )


def drawn(rows, days=7):
    return {one.name: one for one in charts(rows, NOW_S * 1_000_000, days)}


def test_without_payments_there_is_nothing_and_no_fault():
    for chart in drawn([]).values():
        assert len(chart.bars) == 7
        assert {bar.height for bar in chart.bars} == {0}


def test_days_are_in_order_and_within_the_drawing():
    for days in (7, 30):
        chart = drawn([row(0, "SUCCEEDED", 100)], days)["volume"]
        assert len(chart.bars) == days
        assert [bar.day for bar in chart.bars] == sorted(bar.day for bar in chart.bars)
        assert all(bar.x >= 0 and bar.x + bar.width <= WIDTH for bar in chart.bars)
        assert all(bar.y >= 0 and round(bar.y + bar.height, 1) == HEIGHT for bar in chart.bars)


def test_volume_is_exact_and_of_one_currency():
    euros = {"unit": "iso4217/EUR", "value": "999", "display": EUR}
    rows = [
        row(0, "SUCCEEDED", 2**70 + 1),
        row(0, "SUCCEEDED", 1),
        row(0, "FAILED", 500),
        row(1, "SUCCEEDED", 1250),
        row(1, "SUCCEEDED", 0, fiat_amount=euros),
    ]
    chart = drawn(rows)["volume"]
    assert chart.columns == ("Volume USD",)
    assert chart.bars[-1].told == ("11,805,916,207,174,113,034.26\u00a0USD",)
    assert chart.bars[-2].told == ("12.50\u00a0USD",)


def test_success_is_of_what_is_over():
    rows = [row(2, "SUCCEEDED", 1), row(2, "EXPIRED", 1), row(2, "REQUIRES_ACTION", 1)]
    chart = drawn(rows)["success"]
    assert chart.bars[-3].told == ("50.0 %", "1 of 2")
    assert (chart.bars[-3].height, chart.top) == (HEIGHT / 2, "100 %")
    assert chart.bars[-1].told == ("", "0 of 0")


def test_times_are_told_of_half_and_of_most():
    rows = [row(0, "SUCCEEDED", 1, took_s=one) for one in range(1, 101)]
    bar = drawn([*rows, row(0, "FAILED", 1, took_s=900)])["time"].bars[-1]
    assert bar.told == ["51.0 s", "96.0 s"]
    assert bar.mark == 0


def test_fees_are_of_one_token():
    token = money_pb2.AmountDisplay(asset_symbol="tUSD", decimals=6)
    fee = {"total": {"unit": "caip19/x", "value": "62500", "display": token}}
    chart = drawn([row(0, "SUCCEEDED", 1, fees=fee), row(0, "SUCCEEDED", 1, fees=fee)])["fees"]
    assert chart.bars[-1].told == ("0.125000\u00a0tUSD",)


def test_what_is_older_than_the_days_is_left_out():
    assert {bar.height for bar in drawn([row(7, "SUCCEEDED", 100)])["volume"].bars} == {0}
