"""Charts of payments: what templates draw as bars, and write as a table beside them.

They are of rows that the API listed, and of nothing else. Days are in UTC. Amounts of different
units are never added: each unit has a chart of its own, up to a number of charts, and a total.
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

from florin_server.flows.payments.lists import Phases
from florin_server.web.language import words

WIDTH: Final = 640
HEIGHT: Final = 160
# between bars, of the width of one
_GAP = 0.25
_WORDS = words("en", "site")
_SUCCEEDED = payment_pb2.PAYMENT_STATUS_SUCCEEDED
_SHARE = 0.95
# units that are drawn, those of most payments first; totals list all of them
UNITS_DRAWN: Final = 4

Rows = Sequence[listing_pb2.PaymentRow]
Pick = Callable[[listing_pb2.PaymentRow], money_pb2.Amount | None]


@dataclass(frozen=True, slots=True)
class Bar:
    """One day: its place and size in the drawing, and its figures in words.

    `mark` is where a second figure stands, as a line across; None without one.
    """

    x: float
    y: float
    width: float
    height: float
    mark: float | None
    day: str
    told: Sequence[str]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with its table: `columns` name the figures, `top` is the highest of them."""

    name: str
    title: str
    tells: str
    columns: Sequence[str]
    top: str
    bars: Sequence[Bar]


@dataclass(frozen=True, slots=True)
class _Figure:
    """The figures of one day: those that are drawn, None where there is nothing."""

    value: float | None
    second: float | None
    told: Sequence[str]


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of all days in one unit: `name` is Volume or Fees, `payments` have such an amount."""

    name: str
    unit: str
    payments: int
    amount: str


def charts(rows: Rows, phases: Mapping[str, Phases], now_us: int, days: int) -> list[Chart]:
    """Return volume, success, times and fees of the days up to now.

    `phases` has the times of rows by payment id.
    """
    grouped = _by_day(rows, now_us, days)
    shown = [row for rows_of_day in grouped.values() for row in rows_of_day]
    return [
        *_sums(_VOLUME, shown, grouped, _amount_of),
        _success(grouped),
        _time(_FINALITY, grouped, lambda row: _finality_s(phases.get(row.payment_id))),
        _time(_PAY, grouped, lambda row: _pay_s(row, phases.get(row.payment_id))),
        *_sums(_FEES, shown, grouped, _fee_of),
    ]


def totals(rows: Rows, now_us: int, days: int) -> list[Total]:
    """Return volume and fees of the days up to now, a total for each unit, the most used first."""
    grouped = _by_day(rows, now_us, days)
    shown = [row for rows_of_day in grouped.values() for row in rows_of_day]
    return [
        Total(named.title, _name_of(unit), count, _sum_of(unit, _amounts(shown, pick)))
        for named, pick in ((_VOLUME, _amount_of), (_FEES, _fee_of))
        for unit, count in _units(shown, pick)
    ]


def _by_day(rows: Rows, now_us: int, days: int) -> Mapping[date, Rows]:
    today = datetime.fromtimestamp(now_us / 1_000_000, UTC).date()
    span = [today - timedelta(days=days - 1 - n) for n in range(days)]
    by_day: dict[date, list[listing_pb2.PaymentRow]] = defaultdict(list)
    for row in rows:
        by_day[row.created_at.ToDatetime(UTC).date()].append(row)
    return {day: by_day.get(day, []) for day in span}


@dataclass(frozen=True, slots=True)
class _Named:
    name: str
    title: str
    tells: str


_VOLUME: Final = _Named("volume", "Volume", "What succeeded payments asked for")
_FEES: Final = _Named("fees", "Fees", "What the operator kept of succeeded payments")
_FINALITY: Final = _Named(
    "finality",
    "Time to finality",
    "From the accepted confirm of a payment to its success: half of them, and, as a line, 95 of "
    "100, took no longer",
)
_PAY: Final = _Named(
    "pay",
    "Time to pay",
    "From the creation of a payment to its success, the buyer's own time included: half of them, "
    "and, as a line, 95 of 100, took no longer",
)


def _amounts(rows: Iterable[listing_pb2.PaymentRow], pick: Pick) -> list[money_pb2.Amount]:
    """Return the amounts of succeeded payments, of those that have one."""
    picked = (pick(row) for row in rows if row.status == _SUCCEEDED)
    return [amount for amount in picked if amount is not None and amount.unit]


def _units(rows: Rows, pick: Pick) -> list[tuple[money_pb2.Amount, int]]:
    """Return an amount in each unit with the number of payments, the most used unit first."""
    amounts = _amounts(rows, pick)
    counts = Counter(amount.unit for amount in amounts)
    examples = {amount.unit: amount for amount in amounts}
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(examples[unit], count) for unit, count in ordered]


def _name_of(amount: money_pb2.Amount) -> str:
    """Return the ticker, of a token with its network: two networks have two units."""
    display = amount.display
    network = f" ({display.network_name})" if display.HasField("network_name") else ""
    return f"{display.asset_symbol}{network}"


def _total(unit: money_pb2.Amount, amounts: Iterable[money_pb2.Amount]) -> Decimal:
    total = sum(int(one.value or 0) for one in amounts if one.unit == unit.unit)
    return Decimal(total).scaleb(-unit.display.decimals)


def _sum_of(unit: money_pb2.Amount, amounts: Iterable[money_pb2.Amount]) -> str:
    return _WORDS.amount(_total(unit, amounts), unit.display.asset_symbol)


def _sums(named: _Named, rows: Rows, days: Mapping[date, Rows], pick: Pick) -> list[Chart]:
    """Return a chart for each of the units that most payments have; without payments, one."""
    units = [unit for unit, _ in _units(rows, pick)]
    if not units:
        figures = {day: _Figure(0, None, ("0",)) for day in days}
        return [_drawn(named, (named.title,), figures, "")]
    return [
        _chart_of(named, place, unit, days, pick)
        for place, unit in enumerate(units[:UNITS_DRAWN], start=1)
    ]


def _chart_of(
    named: _Named, place: int, unit: money_pb2.Amount, days: Mapping[date, Rows], pick: Pick
) -> Chart:
    """Return sums of exact amounts in one unit by day; floats draw and nothing else."""
    figures = {}
    for day, rows in days.items():
        amounts = _amounts(rows, pick)
        whole = _total(unit, amounts)
        figures[day] = _Figure(float(whole), None, (_sum_of(unit, amounts),))
    title = f"{named.title} in {_name_of(unit)}"
    one = _Named(f"{named.name}-{place}", title, named.tells)
    symbol = unit.display.asset_symbol
    return _drawn(one, (f"{named.title} {symbol}",), figures, symbol)


def _success(days: Mapping[date, Rows]) -> Chart:
    figures = {}
    for day, rows in days.items():
        ended = [row for row in rows if row.is_terminal]
        good = sum(row.status == _SUCCEEDED for row in ended)
        share = 100 * good / len(ended) if ended else None
        told = "" if share is None else f"{share:.1f} %"
        figures[day] = _Figure(share, None, (told, f"{good} of {len(ended)}"))
    named = _Named("success", "Success rate", "Payments that succeeded, of those that are over")
    return _drawn(named, ("Success rate", "Payments"), figures, "%", top=100)


def _time(
    named: _Named,
    days: Mapping[date, Rows],
    took_s: Callable[[listing_pb2.PaymentRow], float | None],
) -> Chart:
    figures = {}
    for day, rows in days.items():
        times = (took_s(row) for row in rows if row.status == _SUCCEEDED)
        ordered = sorted(time for time in times if time is not None)
        half, most = _at(ordered, 0.5), _at(ordered, _SHARE)
        told = ["" if one is None else f"{one:.1f} s" for one in (half, most)]
        figures[day] = _Figure(half, most, told)
    return _drawn(named, ("Half", "95 of 100"), figures, "s")


def _drawn(
    named: _Named,
    columns: Sequence[str],
    figures: Mapping[date, _Figure],
    unit: str,
    top: float = 0,
) -> Chart:
    seen = [one.value or 0 for one in figures.values()]
    seen += [one.second or 0 for one in figures.values()]
    most = max([top, *seen]) or 1
    step = WIDTH / len(figures)
    bars = []
    for place, (day, one) in enumerate(figures.items()):
        height = HEIGHT * (one.value or 0) / most
        mark = None if one.second is None else round(HEIGHT * (1 - one.second / most), 1)
        bars.append(
            Bar(
                x=round(step * (place + _GAP / 2), 1),
                y=round(HEIGHT - height, 1),
                width=round(step * (1 - _GAP), 1),
                height=round(height, 1),
                mark=mark,
                day=day.isoformat(),
                told=one.told,
            )
        )
    highest = f"{most:,.2f}".rstrip("0").rstrip(".")
    top_told = f"{highest} {unit}".strip()
    return Chart(named.name, named.title, named.tells, columns, top_told, bars)


def _amount_of(row: listing_pb2.PaymentRow) -> money_pb2.Amount:
    return row.fiat_amount if row.HasField("fiat_amount") else row.token_amount


def _fee_of(row: listing_pb2.PaymentRow) -> money_pb2.Amount | None:
    return row.fees.total if row.HasField("fees") else None


def _finality_s(phases: Phases | None) -> float | None:
    """Return the seconds from the accepted confirm to the success; None without either."""
    if phases is None or phases.accepted_us is None or phases.succeeded_us is None:
        return None
    return (phases.succeeded_us - phases.accepted_us) / 1e6


def _pay_s(row: listing_pb2.PaymentRow, phases: Phases | None) -> float | None:
    """Return the seconds from the creation to the success; None without one."""
    if phases is None or phases.succeeded_us is None:
        return None
    return float(phases.succeeded_us - row.created_at.ToMicroseconds()) / 1e6


def _at(ordered: Sequence[float], share: float) -> float | None:
    """Return the smallest value that so large a share of them does not exceed."""
    if not ordered:
        return None
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
