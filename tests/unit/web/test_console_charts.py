"""Charts of a console, from rows as the API lists them."""

from __future__ import annotations

import pytest
from florin.v1 import listing_pb2, money_pb2, payment_pb2
from florin_server.money.payments.service.lists import PaymentPhases
from florin_server.web.console.charts import (
    BASE,
    TOP,
    build_time_charts,
    build_volume_chart,
    compute_totals,
)
from florin_server.web.console.figures import (
    build_key_figures,
    list_outcomes,
    list_token_shares,
)
from florin_server.web.language import get_translations
from google.protobuf.timestamp_pb2 import Timestamp

TEXTS = get_translations("en", "console")
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


def volume(rows, key: str = "iso4217/USD", days: int = 7):
    return build_volume_chart(TEXTS, rows, NOW_S * 1_000_000, days, key)


def times(rows, phases, days: int = 7):
    charts = build_time_charts(TEXTS, rows, phases, NOW_S * 1_000_000, days)
    return {chart.name: chart for chart in charts}


def figures(rows, previous=None, phases=None):
    totals = compute_totals(TEXTS, rows, NOW_S * 1_000_000, 7)
    shown = build_key_figures(TEXTS, rows, previous, phases or {}, totals[0] if totals else None)
    return {figure.name: figure for figure in shown}


def amount(unit: str, value: int, decimals: int = 2, **display) -> dict:
    symbol = unit.rpartition("/")[2]
    shown = money_pb2.AmountDisplay(asset_symbol=symbol, decimals=decimals, **display)
    return {"unit": unit, "value": str(value), "display": shown}


def test_without_payments_there_is_nothing_and_no_fault():
    for chart in (volume([]), *times([], {}).values()):
        assert len(chart.bars) == 7
        assert {bar.height for bar in chart.bars} == {0}
        assert [tick.label.split()[0] for tick in chart.ticks] == ["0", "1"]


@pytest.mark.parametrize("days", [7, 30])
def test_days_are_in_order_and_within_the_drawing(days):
    chart = volume([row(0, "SUCCEEDED", 100)], days=days)
    assert len(chart.bars) == days
    starts = (NOW_S - DAY_S * (days - 1 - place) for place in range(days))
    assert [bar.day for bar in chart.bars] == [TEXTS.format_date(start) for start in starts]
    assert all(bar.x >= 0 and bar.x + bar.width <= 100 for bar in chart.bars)
    assert all(TOP <= bar.y <= BASE and round(bar.y + bar.height, 1) == BASE for bar in chart.bars)
    # today is not over; the first and the last day have their month
    assert [bar.ongoing for bar in chart.bars] == [False] * (days - 1) + [True]
    assert "Jan" in chart.bars[0].label + chart.bars[-1].label
    assert chart.bars[-1].label != ""


@pytest.mark.parametrize(
    ("cents", "labels"),
    [
        (100, ["0", "0.25", "0.5", "0.75", "1"]),
        (1_234, ["0", "5", "10", "15"]),
        (160_000, ["0", "500", "1,000", "1,500", "2,000"]),
        (7, ["0", "0.02", "0.04", "0.06", "0.08"]),
    ],
)
def test_the_axis_has_round_steps_and_covers_the_highest_bar(cents, labels):
    chart = volume([row(1, "SUCCEEDED", cents)])
    assert [tick.label for tick in chart.ticks] == labels
    assert (chart.ticks[0].y, chart.ticks[-1].y) == (BASE, TOP)
    assert chart.bars[-2].y >= TOP


def test_volume_is_exact_and_each_currency_has_its_own_chart():
    euros = amount("iso4217/EUR", 999)
    rows = [
        row(0, "SUCCEEDED", 2**70 + 1),
        row(0, "SUCCEEDED", 1),
        row(0, "FAILED", 500),
        row(1, "SUCCEEDED", 1250),
        row(1, "SUCCEEDED", 0, fiat_amount=euros),
    ]
    chart = volume(rows)
    assert (chart.title, chart.columns) == ("Volume in USD", ("Volume USD", "Payments"))
    assert chart.bars[-1].labels == ("11,805,916,207,174,113,034.26\u00a0USD", "2 payments")
    assert chart.bars[-2].labels == ("12.50\u00a0USD", "1 payment")
    other = volume(rows, "iso4217/EUR")
    assert other.title == "Volume in EUR"
    assert other.bars[-2].labels == ("9.99\u00a0EUR", "1 payment")


def test_no_currency_is_dropped_and_none_is_added_to_another():
    """Each of many currencies has a total and a chart of its own."""
    rows = []
    for place in range(7):
        unit = amount(f"iso4217/X{place}", 100 + place)
        rows += [row(0, "SUCCEEDED", 0, fiat_amount=unit)] * (20 - place)
    rows += [row(0, "EXPIRED", 0, fiat_amount=amount("iso4217/NO", 5)), row(7, "SUCCEEDED", 7)]
    totals = compute_totals(TEXTS, rows, NOW_S * 1_000_000, 7)
    assert [(total.unit, total.payments, total.amount) for total in totals] == [
        (f"X{place}", count, f"{(100 + place) * count / 100:.2f}\u00a0X{place}")
        for place in range(7)
        for count in [20 - place]
    ]
    for total in totals:
        chart = volume(rows, total.key)
        assert chart.title == f"Volume in {total.unit}"
        assert chart.bars[-1].labels == (total.amount, f"{total.payments} payments")


def test_same_ticker_on_two_networks_is_two_units():
    here = amount("caip19/a/USDC", 5, 6, network_name="Base")
    there = amount("caip19/b/USDC", 7, 6, network_name="Polygon")
    rows = [
        row(0, "SUCCEEDED", 1, fees={"total": here}),
        row(0, "SUCCEEDED", 1, fees={"total": here}),
        row(0, "SUCCEEDED", 1, fees={"total": there}),
    ]
    fees = [
        total
        for total in compute_totals(TEXTS, rows, NOW_S * 1_000_000, 7)
        if total.figure == "fees"
    ]
    assert [(total.unit, total.amount) for total in fees] == [
        ("USDC (Base)", "0.000010\u00a0USDC"),
        ("USDC (Polygon)", "0.000007\u00a0USDC"),
    ]


def test_success_rate_counts_only_ended_payments():
    rows = [row(2, "SUCCEEDED", 1), row(2, "EXPIRED", 1), row(2, "REQUIRES_ACTION", 1)]
    assert figures(rows)["Success rate"].value == "50.0"
    shares = [
        (outcome.state.word, outcome.count, outcome.share) for outcome in list_outcomes(TEXTS, rows)
    ]
    assert shares == [
        *(("Paid", 1, 50.0), ("Expired", 1, 50.0)),
        *(("Cancelled", 0, 0.0), ("Failed", 0, 0.0)),
    ]
    # nothing ended, and nothing is claimed
    assert figures([row(0, "REQUIRES_ACTION", 1)])["Success rate"].value == "–"
    assert list_outcomes(TEXTS, [row(0, "REQUIRES_ACTION", 1)]) == []


def test_figures_change_only_against_a_period_that_is_known():
    rows = [row(0, "SUCCEEDED", 300), row(0, "SUCCEEDED", 300), row(0, "FAILED", 1)]
    before = [row(7, "SUCCEEDED", 500), *[row(7, "FAILED", 1)] * 3]
    shown = figures(rows, before)
    assert (shown["Volume"].value, shown["Volume"].unit) == ("6.00", "USD")
    changes = {name: (figure.change, figure.direction) for name, figure in shown.items()}
    assert changes["Volume"] == ("20.0\u00a0%", "up")
    assert changes["Payments paid"] == ("100.0\u00a0%", "up")
    assert changes["Success rate"] == ("41.7 points", "up")
    assert figures([row(0, "SUCCEEDED", 250)], before)["Volume"].direction == "down"
    for unknown in (None, []):
        assert {figure.change for figure in figures(rows, unknown).values()} == {""}


def test_tokens_beyond_the_limit_are_one_line():
    rows = []
    for place in range(4):
        token = amount(f"caip19/x/T{place}", 5, 6, network_name="Base")
        rows += [row(0, "SUCCEEDED", 1, token_amount=token)] * (4 - place)
    shares = list_token_shares(TEXTS, [*rows, row(0, "FAILED", 1)], 2)
    assert [(share.symbol, share.count, share.share) for share in shares] == [
        *(("T0", 4, 40.0), ("T1", 3, 30.0)),
        ("Others", 3, 30.0),
    ]


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
    shown = times(rows, phases)
    assert (shown["finality"].title, shown["pay"].title) == ("Time to finality", "Time to pay")
    assert shown["finality"].bars[-1].labels == ["50.0\u00a0s", "95.0\u00a0s"]
    # the higher figure is higher in the drawing
    assert shown["finality"].bars[-1].mark < shown["finality"].bars[-1].y
    finality = figures(rows, phases=phases)["Time to finality"]
    assert (finality.value, finality.base) == ("50.0", "95.0\u00a0s for 95 of 100")
    assert shown["pay"].bars[-1].labels == ["350.0\u00a0s", "395.0\u00a0s"]


def test_fees_have_a_total_in_each_token():
    token = money_pb2.AmountDisplay(asset_symbol="tUSD", decimals=6)
    fee = {"total": {"unit": "caip19/x", "value": "62500", "display": token}}
    rows = [row(0, "SUCCEEDED", 1, fees=fee), row(0, "SUCCEEDED", 1, fees=fee)]
    totals = compute_totals(TEXTS, rows, NOW_S * 1_000_000, 7)
    assert [total.amount for total in totals if total.figure == "fees"] == ["0.125000\u00a0tUSD"]


def test_payments_older_than_the_range_are_left_out():
    assert {bar.height for bar in volume([row(7, "SUCCEEDED", 100)]).bars} == {0}


@pytest.mark.parametrize(
    ("language", "tick", "labels"),
    [
        ("de", "0,5", ("1.234,50\u00a0USD", "1 Zahlung")),
        ("fr", "0,5", ("1\u202f234,50\u00a0USD", "1 paiement")),
        ("ja", "0.5", ("1,234.50\u00a0USD", "支払い 1 件")),
    ],
)
def test_charts_write_numbers_as_the_language_does(language, tick, labels):
    texts = get_translations(language, "console")
    now_us = NOW_S * 1_000_000
    small = build_volume_chart(texts, [row(0, "SUCCEEDED", 100)], now_us, 7, "iso4217/USD")
    assert small.ticks[2].label == tick
    large = build_volume_chart(texts, [row(0, "SUCCEEDED", 123_450)], now_us, 7, "iso4217/USD")
    assert large.bars[-1].labels == labels
