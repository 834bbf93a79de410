"""Figures and charts of payments, from rows that the API listed.

Days are in UTC. Amounts in different units are never added: each unit has its own chart and its
own total. Drawings stretch: places across are in percent, heights in pixels, so that texts keep
their size.
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
from florin_server.web.language import Translations

HEIGHT: Final = 180
# room above the highest bar, and for the labels of days below
TOP: Final = 8
BASE: Final = HEIGHT - 22
# the gap between bars, as a share of their width
_GAP: Final = 0.3
# the most lines of the axis above its base
_STEPS_MAX: Final = 4
# more days than these have a label for every second, fifth or tenth day
_LABELS_MAX: Final = 16
# the figures of totals
VOLUME: Final = "volume"
_FEES: Final = "fees"
_SUCCEEDED = payment_pb2.PAYMENT_STATUS_SUCCEEDED
_HIGH_QUANTILE = 0.95

PaymentRows = Sequence[listing_pb2.PaymentRow]
AmountGetter = Callable[[listing_pb2.PaymentRow], money_pb2.Amount | None]


@dataclass(frozen=True, slots=True)
class ChartTick:
    """A line of the axis, `y` pixels from the top."""

    y: float
    label: str


@dataclass(frozen=True, slots=True)
class ChartBar:
    """One day: its place in the drawing, and its figures as texts.

    `x`, `width` and `middle` are in percent, `y` and `height` in pixels. `mark` is the height of a
    second figure; None without one. `label` is the day below the axis, empty where days are many.
    `ongoing` if the day is not over.
    """

    x: float
    width: float
    middle: float
    y: float | None
    height: float
    mark: float | None
    day: str
    label: str
    labels: Sequence[str]
    ongoing: bool


@dataclass(frozen=True, slots=True)
class PaymentChart:
    """A chart with its table: `columns` name the figures."""

    name: str
    title: str
    description: str
    columns: Sequence[str]
    ticks: Sequence[ChartTick]
    bars: Sequence[ChartBar]


@dataclass(frozen=True, slots=True)
class _DayFigures:
    """The figures of one day; None where there is nothing to draw."""

    value: float | None
    second_value: float | None
    labels: Sequence[str]


@dataclass(frozen=True, slots=True)
class UnitTotal:
    """The sum of all days in one unit: `figure` is volume or fees, `payments` have such an amount.

    `name` is the figure in words, `key` the unit of the API.
    """

    figure: str
    name: str
    key: str
    unit: str
    payments: int
    amount: str


def build_volume_chart(
    texts: Translations, rows: PaymentRows, now_us: int, days: int, key: str
) -> PaymentChart:
    """Return the requested amounts of succeeded payments by day, in the unit `key`.

    Sums are exact; floats draw and nothing else.
    """
    grouped = _group_by_day(rows, now_us, days)
    amounts = _list_amounts(_flatten(grouped), _get_requested_amount)
    unit = next((amount for amount in amounts if amount.unit == key), None)
    title = texts.plain("chart.volume")
    if unit is None:
        nothing = (texts.format_number(Decimal(0)),)
        figures = {day: _DayFigures(0, None, nothing) for day in grouped}
        return _draw_chart(texts, ChartLabels("volume", title, (title,)), figures)
    figures = {}
    for day, rows_of_day in grouped.items():
        amounts = _list_amounts(rows_of_day, _get_requested_amount)
        total = _sum_amounts(unit, amounts)
        count = sum(amount.unit == key for amount in amounts)
        figures[day] = _DayFigures(
            float(total),
            None,
            (_format_sum(texts, unit, amounts), texts.count("n_payments", count)),
        )
    labels = ChartLabels(
        "volume",
        texts.plain("chart.volume_in", unit=_format_unit_name(unit)),
        (
            texts.plain("chart.volume_column", unit=unit.display.asset_symbol),
            texts.plain("nav.payments"),
        ),
    )
    return _draw_chart(texts, labels, figures)


def build_time_charts(
    texts: Translations,
    rows: PaymentRows,
    phases: Mapping[str, PaymentPhases],
    now_us: int,
    days: int,
) -> list[PaymentChart]:
    """Return the times to finality and to pay by day; `phases` by payment id."""
    grouped = _group_by_day(rows, now_us, days)
    return [
        _build_time_chart(
            texts,
            "finality",
            grouped,
            lambda row: compute_finality_s(phases.get(row.payment_id)),
        ),
        _build_time_chart(
            texts, "pay", grouped, lambda row: _compute_pay_s(row, phases.get(row.payment_id))
        ),
    ]


def compute_totals(
    texts: Translations, rows: PaymentRows, now_us: int, days: int
) -> list[UnitTotal]:
    """Return volume and fees of the days up to now, a total for each unit, the most used first."""
    charted_rows = _flatten(_group_by_day(rows, now_us, days))
    return [
        UnitTotal(
            figure,
            texts.plain(f"chart.{figure}"),
            unit.unit,
            _format_unit_name(unit),
            count,
            _format_sum(texts, unit, _list_amounts(charted_rows, pick)),
        )
        for figure, pick in ((VOLUME, _get_requested_amount), (_FEES, _find_fee))
        for unit, count in _list_units(charted_rows, pick)
    ]


def sum_unit(rows: PaymentRows, key: str) -> Decimal:
    """Return the requested amounts of succeeded payments in one unit, in whole units."""
    amounts = _list_amounts(rows, _get_requested_amount)
    unit = next((amount for amount in amounts if amount.unit == key), None)
    return Decimal(0) if unit is None else _sum_amounts(unit, amounts)


def _flatten(grouped: Mapping[date, PaymentRows]) -> list[listing_pb2.PaymentRow]:
    return [row for rows in grouped.values() for row in rows]


def _group_by_day(rows: PaymentRows, now_us: int, days: int) -> Mapping[date, PaymentRows]:
    today = datetime.fromtimestamp(now_us / 1_000_000, UTC).date()
    span = [today - timedelta(days=days - 1 - n) for n in range(days)]
    by_day: dict[date, list[listing_pb2.PaymentRow]] = defaultdict(list)
    for row in rows:
        by_day[row.created_at.ToDatetime(UTC).date()].append(row)
    return {day: by_day.get(day, []) for day in span}


@dataclass(frozen=True, slots=True)
class ChartLabels:
    """The name of a chart, its title, and the names of its figures; `unit` follows the axis."""

    name: str
    title: str
    columns: Sequence[str]
    unit: str = ""


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


def _format_sum(
    texts: Translations, unit: money_pb2.Amount, amounts: Iterable[money_pb2.Amount]
) -> str:
    return texts.format_amount(_sum_amounts(unit, amounts), unit.display.asset_symbol)


def _build_time_chart(
    texts: Translations,
    name: str,
    days: Mapping[date, PaymentRows],
    measure_s: Callable[[listing_pb2.PaymentRow], float | None],
) -> PaymentChart:
    figures = {}
    for day, rows in days.items():
        times = (measure_s(row) for row in rows if row.status == _SUCCEEDED)
        ordered = sorted(time for time in times if time is not None)
        half, most = find_quantile(ordered, 0.5), find_quantile(ordered, _HIGH_QUANTILE)
        figures[day] = _DayFigures(
            half, most, [_format_seconds(texts, duration) for duration in (half, most)]
        )
    labels = ChartLabels(
        name,
        texts.plain(f"chart.{name}"),
        (texts.plain("chart.median"), texts.plain("chart.high_quantile")),
        texts.plain("unit.seconds"),
    )
    return _draw_chart(texts, labels, figures)


def _format_seconds(texts: Translations, duration_s: float | None) -> str:
    if duration_s is None:
        return ""
    number = texts.format_number(Decimal(f"{duration_s:.1f}"))
    return f"{number}\u00a0{texts.plain('unit.seconds')}"


def _draw_chart(
    texts: Translations, labels: ChartLabels, figures: Mapping[date, _DayFigures]
) -> PaymentChart:
    most = max(
        (value or 0 for day in figures.values() for value in (day.value, day.second_value)),
        default=0,
    )
    ticks = _choose_ticks(most)
    top = ticks[-1]

    def place(value: float) -> float:
        return round(BASE - (BASE - TOP) * value / top, 1)

    step, days = 100 / len(figures), list(figures)
    every = next(every for every in (1, 2, 5, 10) if len(days) / every <= _LABELS_MAX)
    bars = []
    for index, (day, day_figures) in enumerate(figures.items()):
        y = None if day_figures.value is None else place(day_figures.value)
        mark = None if day_figures.second_value is None else place(day_figures.second_value)
        is_last = index == len(days) - 1
        named = is_last or (index % every == 0 and len(days) - 1 - index >= every)
        bars.append(
            ChartBar(
                x=round(step * (index + _GAP / 2), 2),
                width=round(step * (1 - _GAP), 2),
                middle=round(step * (index + 0.5), 2),
                y=y,
                height=0 if y is None else round(BASE - y, 1),
                mark=mark,
                day=texts.format_calendar_day(day),
                label=texts.format_day(day, with_month=is_last or index == 0) if named else "",
                labels=day_figures.labels,
                ongoing=is_last,
            )
        )
    axis = [ChartTick(place(tick), _format_tick(texts, tick, labels.unit)) for tick in ticks]
    description = texts.plain(f"chart.{labels.name}.text")
    return PaymentChart(labels.name, labels.title, description, labels.columns, axis, bars)


def _choose_ticks(most: float) -> list[float]:
    """Return round values from 0 to at least the highest figure."""
    if most <= 0:
        return [0, 1]
    magnitude = 10 ** math.floor(math.log10(most / _STEPS_MAX))
    step = next(
        factor * magnitude
        for factor in (1, 2, 2.5, 5, 10)
        if factor * magnitude * _STEPS_MAX >= most
    )
    return [step * count for count in range(math.ceil(most / step - 1e-9) + 1)]


def _format_tick(texts: Translations, value: float, unit: str) -> str:
    digits = f"{value:.6f}".rstrip("0").rstrip(".")
    return f"{texts.format_number(Decimal(digits))} {unit}".strip()


def _get_requested_amount(row: listing_pb2.PaymentRow) -> money_pb2.Amount:
    return row.fiat_amount if row.HasField("fiat_amount") else row.token_amount


def _find_fee(row: listing_pb2.PaymentRow) -> money_pb2.Amount | None:
    return row.fees.total if row.HasField("fees") else None


def compute_finality_s(phases: PaymentPhases | None) -> float | None:
    """Return the seconds from the accepted confirm to the success; None without either."""
    if phases is None or phases.accepted_us is None or phases.succeeded_us is None:
        return None
    return (phases.succeeded_us - phases.accepted_us) / 1e6


def _compute_pay_s(row: listing_pb2.PaymentRow, phases: PaymentPhases | None) -> float | None:
    """Return the seconds from the creation to the success; None without one."""
    if phases is None or phases.succeeded_us is None:
        return None
    return float(phases.succeeded_us - row.created_at.ToMicroseconds()) / 1e6


def find_quantile(ordered: Sequence[float], share: float) -> float | None:
    """Return the smallest value that so large a share of them does not exceed."""
    if not ordered:
        return None
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
