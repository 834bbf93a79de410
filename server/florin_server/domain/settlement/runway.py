"""The runway of an account that pays for Florin's transactions: how long its coin lasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

SAMPLE_MAX: Final = 200
SAMPLE_US: Final = 7 * 86_400 * 1_000_000
# a shorter span says nothing about a pace
_SPAN_MIN_US: Final = 3600 * 1_000_000
# bounds of what is reported, whatever transactions cost
_ITEMS_MAX: Final = 10**15
_SECONDS_MAX: Final = 100 * 365 * 86_400
_MINUTE_S, _HOUR_S, _DAY_S, _YEAR_S = 60, 3600, 86_400, 365 * 86_400
_DIGITS: Final = 3


class PaidTransaction(NamedTuple):
    """A final transaction: when it was signed, its payments and payouts, its cost in coin."""

    at_us: int
    item_count: int
    cost: int


@dataclass(frozen=True, slots=True)
class Runway:
    """The runway of the coin `asset` (CAIP-19) of `account` (CAIP-10).

    It is derived from the account's final transactions of the last 7 days, at most the newest 200.
    `balance` and `transaction_cost` (their average) are in minor units, None if unknown. `items`
    are payments and payouts. `items_left` is how many more the balance pays for, and `seconds_left`
    how long it lasts at their pace; None without transactions, and if they span less than an hour.
    """

    account: str
    asset: str
    balance: int | None = None
    transactions: int = 0
    items: int = 0
    transaction_cost: int | None = None
    items_left: int | None = None
    seconds_left: int | None = None


def compute_runway(
    account: str,
    asset: str,
    balance: int | None,
    transactions: Sequence[PaidTransaction],
    now_us: int,
) -> Runway:
    """Return the runway of a balance after an account's newest transactions, in any order."""
    since_us = now_us - SAMPLE_US
    newest = sorted(transactions, reverse=True)[:SAMPLE_MAX]
    sample = [paid for paid in newest if paid.at_us >= since_us]
    if not sample:
        return Runway(account, asset, balance)
    # rent that returns can exceed the fees of a sample
    cost = max(0, sum(paid.cost for paid in sample))
    items = sum(paid.item_count for paid in sample)
    # an earlier transaction shows that the account worked for the whole time
    first_us = since_us if len(sample) < len(newest) else sample[-1].at_us
    span_us = now_us - first_us
    items_left = seconds_left = None
    if balance is not None and cost:
        held = max(0, balance)
        items_left = min(_ITEMS_MAX, held * items // cost) if items else None
        if span_us >= _SPAN_MIN_US:
            seconds_left = min(_SECONDS_MAX, held * span_us // (cost * 1_000_000))
    return Runway(
        account,
        asset,
        balance,
        len(sample),
        items,
        -(-cost // len(sample)),
        items_left,
        seconds_left,
    )


def format_runway(runway: Runway, items: str = "payments") -> str:
    """Return how long the coin lasts, in words; say so where nothing is known."""
    if not runway.transactions:
        return "no transactions yet"
    parts = []
    if runway.items_left is not None:
        parts.append(f"about {round_count(runway.items_left):,} {items}")
    if runway.seconds_left is not None:
        parts.append(f"{format_runway_time(runway.seconds_left)} at the recent pace")
    return ", ".join(parts) or "not known"


def round_count(count: int) -> int:
    """Return a count with three digits that mean something, rounded down."""
    step = int(10 ** max(0, len(str(count)) - _DIGITS))
    return count // step * step


def format_runway_time(seconds: int) -> str:
    """Return a time in one unit, rounded down."""
    if seconds >= _YEAR_S:
        return "more than a year"
    for unit_s, name in ((_DAY_S, "days"), (_HOUR_S, "h"), (_MINUTE_S, "min")):
        if seconds >= 2 * unit_s:
            return f"{seconds // unit_s} {name}"
    return "less than 2 min"
