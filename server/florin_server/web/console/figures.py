"""Key figures of the overview: each with its change since the period before, if that is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from florin.v1 import listing_pb2, payment_pb2

from florin_server.money.payments.service.lists import PaymentPhases
from florin_server.web.console.charts import (
    PaymentRows,
    UnitTotal,
    compute_finality_s,
    find_quantile,
    sum_unit,
)
from florin_server.web.console.pills import StatePill, get_pill
from florin_server.web.language import Translations

_SUCCEEDED = payment_pb2.PAYMENT_STATUS_SUCCEEDED
# in the order of the bar
_OUTCOMES = (
    (payment_pb2.PAYMENT_STATUS_SUCCEEDED, "succeeded"),
    (payment_pb2.PAYMENT_STATUS_EXPIRED, "expired"),
    (payment_pb2.PAYMENT_STATUS_CANCELLED, "cancelled"),
    (payment_pb2.PAYMENT_STATUS_FAILED, "failed"),
)
_LOOKS = {"succeeded": "good", "expired": "plain", "cancelled": "warn", "failed": "bad"}


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """A figure with its unit; `change` and `base` are empty where the period before is unknown.

    `direction` is up or down, empty for no change.
    """

    name: str
    value: str
    unit: str = ""
    change: str = ""
    direction: str = ""
    base: str = ""


@dataclass(frozen=True, slots=True)
class OutcomeShare:
    """The payments that ended in one way; `start` and `share` are in percent of all ended."""

    state: StatePill
    look: str
    count: int
    start: float
    share: float


@dataclass(frozen=True, slots=True)
class TokenShare:
    """The payments in one token; `share` is in percent of all paid."""

    symbol: str
    network: str
    count: int
    share: float


def build_key_figures(
    texts: Translations,
    rows: PaymentRows,
    previous: PaymentRows | None,
    phases: Mapping[str, PaymentPhases],
    volume: UnitTotal | None,
) -> list[KeyFigure]:
    """Return the figures of a period; `previous` are the rows of the one before, None if unknown.

    `volume` is the total in the chosen unit; None if nothing was paid.
    """
    paid = [row for row in rows if row.status == _SUCCEEDED]
    times = sorted(
        seconds
        for row in paid
        if (seconds := compute_finality_s(phases.get(row.payment_id))) is not None
    )
    median, high = find_quantile(times, 0.5), find_quantile(times, 0.95)
    return [
        _build_volume(texts, rows, previous, volume),
        _build_count(texts, len(paid), previous),
        _build_rate(texts, rows, previous),
        KeyFigure(texts.plain("chart.finality"), "–", base=texts.plain("figure.none_confirmed"))
        if median is None or high is None
        else KeyFigure(
            texts.plain("chart.finality"),
            _format_one_place(texts, median),
            texts.plain("figure.seconds_median"),
            base=texts.plain("figure.high_quantile", seconds=_format_one_place(texts, high)),
        ),
    ]


def list_outcomes(texts: Translations, rows: PaymentRows) -> list[OutcomeShare]:
    """Return how ended payments ended; nothing before the first one."""
    counts = Counter(row.status for row in rows if row.is_terminal)
    total, start, outcomes = counts.total(), 0.0, []
    for status, name in _OUTCOMES:
        if not total:
            break
        share = 100 * counts[status] / total
        outcomes.append(
            OutcomeShare(
                get_pill(texts, f"payment.{name}"),
                _LOOKS[name],
                counts[status],
                round(start, 2),
                round(share, 2),
            )
        )
        start += share
    return outcomes


def list_token_shares(texts: Translations, rows: PaymentRows, limit: int) -> list[TokenShare]:
    """Return the tokens that paid the most payments; the rest is one line."""
    paid = [row for row in rows if row.status == _SUCCEEDED and row.token_amount.unit]
    counts = Counter(
        (row.token_amount.display.asset_symbol, row.token_amount.display.network_name)
        for row in paid
    )
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shares = [
        TokenShare(symbol, network, count, round(100 * count / len(paid), 1))
        for (symbol, network), count in ordered[:limit]
    ]
    rest = sum(count for _, count in ordered[limit:])
    if rest:
        shares.append(
            TokenShare(
                texts.plain("overview.other_tokens"), "", rest, round(100 * rest / len(paid), 1)
            )
        )
    return shares


def _build_volume(
    texts: Translations,
    rows: PaymentRows,
    previous: PaymentRows | None,
    volume: UnitTotal | None,
) -> KeyFigure:
    name = texts.plain("chart.volume")
    if volume is None:
        return KeyFigure(name, texts.format_number(Decimal(0)))
    value, _, unit = volume.amount.rpartition("\u00a0")
    if previous is None:
        return KeyFigure(name, value, unit)
    now, before = sum_unit(rows, volume.key), sum_unit(previous, volume.key)
    change, direction = _describe_change(texts, now, before)
    base = texts.format_number(before) if change else ""
    return KeyFigure(name, value, unit, change, direction, base)


def _build_count(texts: Translations, paid: int, previous: PaymentRows | None) -> KeyFigure:
    name, value = texts.plain("figure.paid"), texts.format_number(Decimal(paid))
    if previous is None:
        return KeyFigure(name, value)
    before = Decimal(sum(row.status == _SUCCEEDED for row in previous))
    change, direction = _describe_change(texts, Decimal(paid), before)
    return KeyFigure(
        name, value, "", change, direction, texts.format_number(before) if change else ""
    )


def _build_rate(texts: Translations, rows: PaymentRows, previous: PaymentRows | None) -> KeyFigure:
    name, rate = texts.plain("figure.success_rate"), _compute_rate(rows)
    if rate is None:
        return KeyFigure(name, "–", base=texts.plain("figure.none_ended"))
    before = None if previous is None else _compute_rate(previous)
    if before is None:
        return KeyFigure(name, _format_one_place(texts, rate), "%")
    points = round(rate - before, 1)
    direction = "up" if points > 0 else "down" if points < 0 else ""
    return KeyFigure(
        name,
        _format_one_place(texts, rate),
        "%",
        texts.plain("figure.points", number=_format_one_place(texts, abs(points))),
        direction,
        _format_percent(texts, before),
    )


def _format_one_place(texts: Translations, value: float | Decimal) -> str:
    return texts.format_number(Decimal(f"{value:.1f}"))


def _format_percent(texts: Translations, value: float | Decimal) -> str:
    return texts.plain("percent", number=_format_one_place(texts, value))


def _compute_rate(rows: Sequence[listing_pb2.PaymentRow]) -> float | None:
    """Return the share of ended payments that succeeded, in percent; None without any."""
    ended = [row for row in rows if row.is_terminal]
    if not ended:
        return None
    return 100 * sum(row.status == _SUCCEEDED for row in ended) / len(ended)


def _describe_change(texts: Translations, now: Decimal, before: Decimal) -> tuple[str, str]:
    """Return a change in percent and its direction; empty where nothing was before."""
    if not before:
        return "", ""
    percent = 100 * (now - before) / before
    direction = "up" if percent > 0 else "down" if percent < 0 else ""
    return _format_percent(texts, abs(percent)), direction
