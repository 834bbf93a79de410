"""Charts of payments: what templates draw as bars, and write as a table beside them.

They are of rows that the API listed, and of nothing else. Days are in UTC.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final

from florin.v1 import listing_pb2, money_pb2, payment_pb2

from florin_server.web.language import words

WIDTH: Final = 640
HEIGHT: Final = 160
# between bars, of the width of one
_GAP = 0.25
_WORDS = words("en", "site")
_SUCCEEDED = payment_pb2.PAYMENT_STATUS_SUCCEEDED
_SHARE = 0.95

Rows = Sequence[listing_pb2.PaymentRow]


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


def charts(rows: Rows, now_us: int, days: int) -> list[Chart]:
    """Volume, success, time and fees of the days up to now."""
    today = datetime.fromtimestamp(now_us / 1_000_000, UTC).date()
    span = [today - timedelta(days=days - 1 - n) for n in range(days)]
    by_day: dict[date, list[listing_pb2.PaymentRow]] = defaultdict(list)
    for row in rows:
        by_day[row.created_at.ToDatetime(UTC).date()].append(row)
    grouped = {day: by_day.get(day, []) for day in span}
    return [_volume(rows, grouped), _success(grouped), _time(grouped), _fees(rows, grouped)]


def _volume(rows: Rows, days: Mapping[date, Rows]) -> Chart:
    asked = _asked(rows)
    symbol = asked.display.asset_symbol
    return _sums(
        _Named("volume", "Volume", "What succeeded payments asked for"),
        days,
        asked,
        lambda row: _amount_of(row) if _amount_of(row).unit == asked.unit else None,
        symbol,
    )


def _fees(rows: Rows, days: Mapping[date, Rows]) -> Chart:
    units = Counter(row.fees.total.unit for row in rows if row.HasField("fees"))
    unit = units.most_common(1)[0][0] if units else ""
    totals = [row.fees.total for row in rows if row.HasField("fees")]
    of = next((one for one in totals if one.unit == unit), money_pb2.Amount())
    return _sums(
        _Named("fees", "Fees", "What the operator kept of succeeded payments"),
        days,
        of,
        lambda row: row.fees.total if row.fees.total.unit == unit else None,
        of.display.asset_symbol,
    )


@dataclass(frozen=True, slots=True)
class _Named:
    name: str
    title: str
    tells: str


def _sums(
    named: _Named,
    days: Mapping[date, Rows],
    of: money_pb2.Amount,
    pick: Callable[[listing_pb2.PaymentRow], money_pb2.Amount | None],
    symbol: str,
) -> Chart:
    """Sums of exact amounts in one unit; floats draw and nothing else."""
    figures = {}
    for day, rows in days.items():
        picked = [pick(row) for row in rows if row.status == _SUCCEEDED]
        total = sum(int(one.value) for one in picked if one is not None and one.value)
        whole = Decimal(total).scaleb(-of.display.decimals)
        told = _WORDS.amount(whole, symbol) if symbol else "0"
        figures[day] = _Figure(float(whole), None, (told,))
    return _drawn(named, (f"{named.title} {symbol}".strip(),), figures, symbol)


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


def _time(days: Mapping[date, Rows]) -> Chart:
    figures = {}
    for day, rows in days.items():
        took = sorted(_took_s(row) for row in rows if row.status == _SUCCEEDED)
        half, most = _at(took, 0.5), _at(took, _SHARE)
        told = ["" if one is None else f"{one:.1f} s" for one in (half, most)]
        figures[day] = _Figure(half, most, told)
    named = _Named(
        "time",
        "Time to finality",
        "From the creation of a payment to its success: half of them, and, as a line, 95 of 100, "
        "took no longer",
    )
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


def _asked(rows: Rows) -> money_pb2.Amount:
    """An amount in the unit that most payments ask for; empty without payments."""
    units = Counter(_amount_of(row).unit for row in rows)
    if not units:
        return money_pb2.Amount()
    unit = units.most_common(1)[0][0]
    return next(_amount_of(row) for row in rows if _amount_of(row).unit == unit)


def _amount_of(row: listing_pb2.PaymentRow) -> money_pb2.Amount:
    return row.fiat_amount if row.HasField("fiat_amount") else row.token_amount


def _took_s(row: listing_pb2.PaymentRow) -> float:
    return float(row.last_updated_at.ToMicroseconds() - row.created_at.ToMicroseconds()) / 1e6


def _at(ordered: Sequence[float], share: float) -> float | None:
    """The value that a share of them does not exceed."""
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
