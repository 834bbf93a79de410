"""Charts of payments, as bars and as a table beside them.

They contain only rows that the API listed. Days are in UTC. Amounts in different units are never
added: each unit has its own chart, up to a maximum number, and its own total.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final

from florin.v1 import listing_pb2, money_pb2, payment_pb2

from florin_server.money.payments.service.lists import PaymentPhases
from florin_server.web.language import get_translations

WIDTH: Final = 640
HEIGHT: Final = 160
# the gap between bars, as a share of their width
_GAP = 0.25
_TEXTS = get_translations("en", "site")
_SUCCEEDED = payment_pb2.PAYMENT_STATUS_SUCCEEDED
_HIGH_QUANTILE = 0.95
# units that are drawn, those with the most payments first; totals list all units
CHART_UNITS_MAX: Final = 4

PaymentRows = Sequence[listing_pb2.PaymentRow]
AmountGetter = Callable[[listing_pb2.PaymentRow], money_pb2.Amount | None]


@dataclass(frozen=True, slots=True)
class ChartBar:
    """One day: its place and size in the drawing, and its figures as texts.

    `mark` is the height of the line for a second figure; None without one.
    """

    x: float
    y: float
    width: float
    height: float
    mark: float | None
    day: str
    labels: Sequence[str]


@dataclass(frozen=True, slots=True)
class PaymentChart:
    """A chart with its table: `columns` name the figures, `top` is the highest of them."""

    name: str
    title: str
    description: str
    columns: Sequence[str]
    top: str
    bars: Sequence[ChartBar]


@dataclass(frozen=True, slots=True)
class _DayFigures:
    """The figures of one day; None where there is nothing to draw."""

    value: float | None
    second_value: float | None
    labels: Sequence[str]


@dataclass(frozen=True, slots=True)
class UnitTotal:
    """The sum of all days in one unit: `name` is Volume or Fees, `payments` have such an amount."""

    name: str
    unit: str
    payments: int
    amount: str


def build_charts(
    rows: PaymentRows, phases: Mapping[str, PaymentPhases], now_us: int, days: int
) -> list[PaymentChart]:
    """Return volume, success, times and fees of the days up to now.

    `phases` has the times of rows by payment id.
    """
    grouped = _group_by_day(rows, now_us, days)
    charted_rows = [row for rows_of_day in grouped.values() for row in rows_of_day]
    return [
        *_build_sum_charts(_VOLUME, charted_rows, grouped, _get_requested_amount),
        _build_success_chart(grouped),
        _build_time_chart(
            _FINALITY, grouped, lambda row: _compute_finality_s(phases.get(row.payment_id))
        ),
        _build_time_chart(
            _PAY, grouped, lambda row: _compute_pay_s(row, phases.get(row.payment_id))
        ),
        *_build_sum_charts(_FEES, charted_rows, grouped, _find_fee),
    ]


def compute_totals(rows: PaymentRows, now_us: int, days: int) -> list[UnitTotal]:
    """Return volume and fees of the days up to now, a total for each unit, the most used first."""
    grouped = _group_by_day(rows, now_us, days)
    charted_rows = [row for rows_of_day in grouped.values() for row in rows_of_day]
    return [
        UnitTotal(
            named.title,
            _format_unit_name(unit),
            count,
            _format_sum(unit, _list_amounts(charted_rows, pick)),
        )
        for named, pick in ((_VOLUME, _get_requested_amount), (_FEES, _find_fee))
        for unit, count in _list_units(charted_rows, pick)
    ]


def _group_by_day(rows: PaymentRows, now_us: int, days: int) -> Mapping[date, PaymentRows]:
    today = datetime.fromtimestamp(now_us / 1_000_000, UTC).date()
    span = [today - timedelta(days=days - 1 - n) for n in range(days)]
    by_day: dict[date, list[listing_pb2.PaymentRow]] = defaultdict(list)
    for row in rows:
        by_day[row.created_at.ToDatetime(UTC).date()].append(row)
    return {day: by_day.get(day, []) for day in span}


@dataclass(frozen=True, slots=True)
class _ChartSpec:
    name: str
    title: str
    description: str


_VOLUME: Final = _ChartSpec("volume", "Volume", "Requested amounts of succeeded payments")
_FEES: Final = _ChartSpec("fees", "Fees", "Fees that the operator kept from succeeded payments")
_FINALITY: Final = _ChartSpec(
    "finality",
    "Time to finality",
    "From the accepted confirm of a payment to its success. Bars are the median, lines the 95th "
    "percentile",
)
_PAY: Final = _ChartSpec(
    "pay",
    "Time to pay",
    "From the creation of a payment to its success, including the buyer's own time. Bars are the "
    "median, lines the 95th percentile",
)


def _list_amounts(
    rows: Iterable[listing_pb2.PaymentRow], get_amount: AmountGetter
) -> list[money_pb2.Amount]:
    """Return the amounts of succeeded payments, of those that have one."""
    picked = (get_amount(row) for row in rows if row.status == _SUCCEEDED)
    return [amount for amount in picked if amount is not None and amount.unit]


def _list_units(rows: PaymentRows, get_amount: AmountGetter) -> list[tuple[money_pb2.Amount, int]]:
    """Return an amount in each unit with the number of payments, the most used unit first."""
    amounts = _list_amounts(rows, get_amount)
    counts = Counter(amount.unit for amount in amounts)
    examples = {amount.unit: amount for amount in amounts}
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(examples[unit], count) for unit, count in ordered]


def _format_unit_name(amount: money_pb2.Amount) -> str:
    """Return the ticker, of a token with its network: two networks have two units."""
    display = amount.display
    network = f" ({display.network_name})" if display.HasField("network_name") else ""
    return f"{display.asset_symbol}{network}"


def _sum_amounts(unit: money_pb2.Amount, amounts: Iterable[money_pb2.Amount]) -> Decimal:
    total = sum(int(amount.value or 0) for amount in amounts if amount.unit == unit.unit)
    return Decimal(total).scaleb(-unit.display.decimals)


def _format_sum(unit: money_pb2.Amount, amounts: Iterable[money_pb2.Amount]) -> str:
    return _TEXTS.format_amount(_sum_amounts(unit, amounts), unit.display.asset_symbol)


def _build_sum_charts(
    spec: _ChartSpec, rows: PaymentRows, days: Mapping[date, PaymentRows], get_amount: AmountGetter
) -> list[PaymentChart]:
    """Return a chart for each of the units that most payments have; without payments, one."""
    units = [unit for unit, _ in _list_units(rows, get_amount)]
    if not units:
        figures = {day: _DayFigures(0, None, ("0",)) for day in days}
        return [_draw_chart(spec, (spec.title,), figures, "")]
    return [
        _build_unit_chart(spec, place, unit, days, get_amount)
        for place, unit in enumerate(units[:CHART_UNITS_MAX], start=1)
    ]


def _build_unit_chart(
    spec: _ChartSpec,
    position: int,
    unit: money_pb2.Amount,
    days: Mapping[date, PaymentRows],
    get_amount: AmountGetter,
) -> PaymentChart:
    """Return sums of exact amounts in one unit by day; floats draw and nothing else."""
    figures = {}
    for day, rows in days.items():
        amounts = _list_amounts(rows, get_amount)
        decimal = _sum_amounts(unit, amounts)
        figures[day] = _DayFigures(float(decimal), None, (_format_sum(unit, amounts),))
    title = f"{spec.title} in {_format_unit_name(unit)}"
    unit_spec = _ChartSpec(f"{spec.name}-{position}", title, spec.description)
    symbol = unit.display.asset_symbol
    return _draw_chart(unit_spec, (f"{spec.title} {symbol}",), figures, symbol)


def _build_success_chart(days: Mapping[date, PaymentRows]) -> PaymentChart:
    figures = {}
    for day, rows in days.items():
        ended = [row for row in rows if row.is_terminal]
        good = sum(row.status == _SUCCEEDED for row in ended)
        share = 100 * good / len(ended) if ended else None
        share_text = "" if share is None else f"{share:.1f} %"
        figures[day] = _DayFigures(share, None, (share_text, f"{good} of {len(ended)}"))
    named = _ChartSpec("success", "Success rate", "Share of finished payments that succeeded")
    return _draw_chart(named, ("Success rate", "Payments"), figures, "%", top=100)


def _build_time_chart(
    spec: _ChartSpec,
    days: Mapping[date, PaymentRows],
    measure_s: Callable[[listing_pb2.PaymentRow], float | None],
) -> PaymentChart:
    figures = {}
    for day, rows in days.items():
        times = (measure_s(row) for row in rows if row.status == _SUCCEEDED)
        ordered = sorted(time for time in times if time is not None)
        half, most = _find_quantile(ordered, 0.5), _find_quantile(ordered, _HIGH_QUANTILE)
        labels = ["" if duration is None else f"{duration:.1f} s" for duration in (half, most)]
        figures[day] = _DayFigures(half, most, labels)
    return _draw_chart(spec, ("Median", "95th percentile"), figures, "s")


def _draw_chart(
    spec: _ChartSpec,
    columns: Sequence[str],
    figures: Mapping[date, _DayFigures],
    unit: str,
    top: float = 0,
) -> PaymentChart:
    seen = [figure.value or 0 for figure in figures.values()]
    seen += [figure.second_value or 0 for figure in figures.values()]
    most = max([top, *seen]) or 1
    step = WIDTH / len(figures)
    bars = []
    for place, (day, day_figures) in enumerate(figures.items()):
        height = HEIGHT * (day_figures.value or 0) / most
        mark = (
            None
            if day_figures.second_value is None
            else round(HEIGHT * (1 - day_figures.second_value / most), 1)
        )
        bars.append(
            ChartBar(
                x=round(step * (place + _GAP / 2), 1),
                y=round(HEIGHT - height, 1),
                width=round(step * (1 - _GAP), 1),
                height=round(height, 1),
                mark=mark,
                day=day.isoformat(),
                labels=day_figures.labels,
            )
        )
    highest = f"{most:,.2f}".rstrip("0").rstrip(".")
    top_label = f"{highest} {unit}".strip()
    return PaymentChart(spec.name, spec.title, spec.description, columns, top_label, bars)


def _get_requested_amount(row: listing_pb2.PaymentRow) -> money_pb2.Amount:
    return row.fiat_amount if row.HasField("fiat_amount") else row.token_amount


def _find_fee(row: listing_pb2.PaymentRow) -> money_pb2.Amount | None:
    return row.fees.total if row.HasField("fees") else None


def _compute_finality_s(phases: PaymentPhases | None) -> float | None:
    """Return the seconds from the accepted confirm to the success; None without either."""
    if phases is None or phases.accepted_us is None or phases.succeeded_us is None:
        return None
    return (phases.succeeded_us - phases.accepted_us) / 1e6


def _compute_pay_s(row: listing_pb2.PaymentRow, phases: PaymentPhases | None) -> float | None:
    """Return the seconds from the creation to the success; None without one."""
    if phases is None or phases.succeeded_us is None:
        return None
    return float(phases.succeeded_us - row.created_at.ToMicroseconds()) / 1e6


def _find_quantile(ordered: Sequence[float], share: float) -> float | None:
    """Return the smallest value that so large a share of them does not exceed."""
    if not ordered:
        return None
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
