"""Charts of a console, from rows as the API lists them."""

from __future__ import annotations

from florin.v1 import listing_pb2, money_pb2, payment_pb2
from florin_server.money.payments.service.lists import PaymentPhases
from florin_server.web.console.charts import (
    CHART_UNITS_MAX,
    HEIGHT,
    WIDTH,
    build_charts,
    compute_totals,
)
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


def drawn(rows, days=7, phases=None):
    return {
        chart.name: chart for chart in build_charts(rows, phases or {}, NOW_S * 1_000_000, days)
    }


def amount(unit: str, value: int, decimals: int = 2, **display) -> dict:
    symbol = unit.rpartition("/")[2]
    shown = money_pb2.AmountDisplay(asset_symbol=symbol, decimals=decimals, **display)
    return {"unit": unit, "value": str(value), "display": shown}


def test_without_payments_there_is_nothing_and_no_fault():
    for chart in drawn([]).values():
        assert len(chart.bars) == 7
        assert {bar.height for bar in chart.bars} == {0}


def test_days_are_in_order_and_within_the_drawing():
    for days in (7, 30):
        chart = drawn([row(0, "SUCCEEDED", 100)], days)["volume-1"]
        assert len(chart.bars) == days
        assert [bar.day for bar in chart.bars] == sorted(bar.day for bar in chart.bars)
        assert all(bar.x >= 0 and bar.x + bar.width <= WIDTH for bar in chart.bars)
        assert all(bar.y >= 0 and round(bar.y + bar.height, 1) == HEIGHT for bar in chart.bars)


def test_volume_is_exact_and_each_currency_has_its_own_chart():
    euros = amount("iso4217/EUR", 999)
    rows = [
        row(0, "SUCCEEDED", 2**70 + 1),
        row(0, "SUCCEEDED", 1),
        row(0, "FAILED", 500),
        row(1, "SUCCEEDED", 1250),
        row(1, "SUCCEEDED", 0, fiat_amount=euros),
    ]
    shown = drawn(rows)
    chart = shown["volume-1"]
    assert (chart.title, chart.columns) == ("Volume in USD", ("Volume USD",))
    assert chart.bars[-1].labels == ("11,805,916,207,174,113,034.26\u00a0USD",)
    assert chart.bars[-2].labels == ("12.50\u00a0USD",)
    assert shown["volume-2"].title == "Volume in EUR"
    assert shown["volume-2"].bars[-2].labels == ("9.99\u00a0EUR",)


def test_no_currency_is_dropped_and_none_is_added_to_another():
    """With many currencies a few are drawn, and all have a total."""
    rows = []
    for place in range(CHART_UNITS_MAX + 3):
        unit = amount(f"iso4217/X{place}", 100 + place)
        rows += [row(0, "SUCCEEDED", 0, fiat_amount=unit)] * (20 - place)
    rows += [row(0, "EXPIRED", 0, fiat_amount=amount("iso4217/NO", 5)), row(7, "SUCCEEDED", 7)]
    charted = [chart.title for name, chart in drawn(rows).items() if name.startswith("volume")]
    assert charted == [f"Volume in X{place}" for place in range(CHART_UNITS_MAX)]
    assert [
        (total.unit, total.payments, total.amount)
        for total in compute_totals(rows, NOW_S * 1_000_000, 7)
    ] == [
        (f"X{place}", count, f"{(100 + place) * count / 100:.2f}\u00a0X{place}")
        for place in range(CHART_UNITS_MAX + 3)
        for count in [20 - place]
    ]


def test_same_ticker_on_two_networks_is_two_units():
    here = amount("caip19/a/USDC", 5, 6, network_name="Base")
    there = amount("caip19/b/USDC", 7, 6, network_name="Polygon")
    rows = [
        row(0, "SUCCEEDED", 1, fees={"total": here}),
        row(0, "SUCCEEDED", 1, fees={"total": here}),
        row(0, "SUCCEEDED", 1, fees={"total": there}),
    ]
    fees = [total for total in compute_totals(rows, NOW_S * 1_000_000, 7) if total.name == "Fees"]
    assert [(total.unit, total.amount) for total in fees] == [
        ("USDC (Base)", "0.000010\u00a0USDC"),
        ("USDC (Polygon)", "0.000007\u00a0USDC"),
    ]


def test_success_rate_counts_only_ended_payments():
    rows = [row(2, "SUCCEEDED", 1), row(2, "EXPIRED", 1), row(2, "REQUIRES_ACTION", 1)]
    chart = drawn(rows)["success"]
    assert chart.bars[-3].labels == ("50.0 %", "1 of 2")
    assert (chart.bars[-3].height, chart.top) == (HEIGHT / 2, "100 %")
    assert chart.bars[-1].labels == ("", "0 of 0")


def test_time_to_finality_leaves_the_buyers_thinking_out():
    """A buyer takes minutes, the chain takes seconds: the charts show both."""
    created_us = NOW_S * 1_000_000
    rows, phases = [], {}
    for second in range(1, 101):
        payment_id = f"pay_{second}"
        rows.append(row(0, "SUCCEEDED", 1, payment_id=payment_id, took_s=4_000))
        accepted_us = created_us + 300_000_000
        phases[payment_id] = PaymentPhases(accepted_us, accepted_us + second * 1_000_000)
    # simulated without a confirm, or failed: neither has a time to finality
    rows += [row(0, "SUCCEEDED", 1, payment_id="simulated"), row(0, "FAILED", 1, payment_id="bad")]
    phases |= {
        "simulated": PaymentPhases(None, created_us + 301_000_000),
        "bad": PaymentPhases(created_us, None),
    }
    shown = drawn(rows, phases=phases)
    assert (shown["finality"].title, shown["pay"].title) == ("Time to finality", "Time to pay")
    assert shown["finality"].bars[-1].labels == ["50.0 s", "95.0 s"]
    assert shown["finality"].bars[-1].mark == 0
    assert shown["pay"].bars[-1].labels == ["350.0 s", "395.0 s"]


def test_fees_chart_covers_a_single_token():
    token = money_pb2.AmountDisplay(asset_symbol="tUSD", decimals=6)
    fee = {"total": {"unit": "caip19/x", "value": "62500", "display": token}}
    chart = drawn([row(0, "SUCCEEDED", 1, fees=fee), row(0, "SUCCEEDED", 1, fees=fee)])["fees-1"]
    assert chart.bars[-1].labels == ("0.125000\u00a0tUSD",)


def test_payments_older_than_the_range_are_left_out():
    assert {bar.height for bar in drawn([row(7, "SUCCEEDED", 100)])["volume"].bars} == {0}
