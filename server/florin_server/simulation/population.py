"""Who pays whom, when, how much, and what they will do: drawn from a seed, before anything happens.

Pure, and the same for the same seed, knobs and beginning. Tables are weights beside each other.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import accumulate
from typing import Final

from florin_server.simulation.knobs import Knobs

SECOND_US: Final = 1_000_000
HOUR_US: Final = 3_600 * SECOND_US
DAY_US: Final = 24 * HOUR_US

# how many orders there are in each hour of the day (UTC), by the kind of a shop
_BY_DAY: Final = (
    1,
    1,
    1,
    1,
    1,
    2,
    6,
    14,
    18,
    16,
    16,
    20,
    24,
    20,
    16,
    16,
    18,
    20,
    14,
    8,
    5,
    3,
    2,
    1,
)
_EVENINGS: Final = (5, 3, 2, 1, 1, 1, 2, 4, 6, 7, 8, 9, 11, 10, 9, 9, 10, 13, 17, 21, 24, 22, 16, 9)
# and on each day of the week, from Monday
_WORKDAYS: Final = (18, 18, 18, 19, 20, 12, 5)
_WEEKENDS: Final = (12, 11, 12, 14, 19, 26, 23)
# what buyers bring along
_OPENS_S, _THINKS_S = 12.0, 18.0  # medians: until the page is open, and until it is signed
_REFUND_H: Final = 20.0  # median, from the payment to the wish for a refund
_RETURNING: Final = 0.35  # of all orders, of buyers who have been there before
_DOUBLE: Final = 0.05  # of all orders, by somebody who clicks everything twice
_CENTS_MAX: Final = 250_000


class Deed(StrEnum):
    """What a buyer does with a payment."""

    PAYS = "pays"
    IGNORES = "ignores"  # never opens it
    LOOKS = "looks"  # sees the options, and leaves
    HESITATES = "hesitates"  # has what is to be signed, and does not sign it
    CANCELS = "cancels"
    LATE = "late"  # signs when the payment is over, or sends when it is called off
    BLUNDERS = "blunders"  # its wallet hands in something else


ABANDONS: Final = (Deed.IGNORES, Deed.LOOKS, Deed.HESITATES)
_ABANDONING: Final = (5, 3, 2)
_ODD: Final = {Deed.CANCELS: 0.025, Deed.LATE: 0.025, Deed.BLUNDERS: 0.01}


class Purse(StrEnum):
    """What a buyer pays from: a kind of wallet, and what it prefers to part with."""

    DOLLARS = "dollars"  # EVM, by signature
    EUROS = "euros"  # EVM, by Permit2
    COIN = "coin"  # EVM, sends it
    SOLANA = "solana"
    SOLANA_2022 = "solana 2022"

    @property
    def chain(self) -> str:
        """The kind of chain that it is on."""
        return "solana" if self in {Purse.SOLANA, Purse.SOLANA_2022} else "evm"


# who comes to pay in a currency: nobody has none of what is asked for, but for a few
_PURSES: Final = {
    "USD": {
        Purse.DOLLARS: 48,
        Purse.SOLANA: 26,
        Purse.SOLANA_2022: 10,
        Purse.COIN: 12,
        Purse.EUROS: 2,
    },
    "EUR": {Purse.EUROS: 70, Purse.COIN: 24, Purse.SOLANA: 4},
    "GBP": {Purse.COIN: 92, Purse.DOLLARS: 8},
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of shop. `cents` is the median of a basket, `spread` the sigma of its logarithm."""

    name: str
    cents: int
    spread: float
    hours: tuple[int, ...]
    days: tuple[int, ...]
    currencies: dict[str, int]
    refunds: float  # of what is paid
    own_wallet: bool = True  # else it is paid by way of the treasury
    weight: int = 10


KINDS: Final = (
    Kind("Bakery", 850, 0.5, _BY_DAY, _WEEKENDS, {"USD": 8, "EUR": 2}, 0.01, weight=22),
    Kind("Bookshop", 2_400, 0.6, _BY_DAY, _WORKDAYS, {"USD": 7, "EUR": 2, "GBP": 1}, 0.05),
    Kind("Game keys", 3_500, 0.5, _EVENINGS, _WEEKENDS, {"USD": 9, "EUR": 1}, 0.08, weight=18),
    Kind("Web hosting", 1_900, 0.9, _EVENINGS, _WORKDAYS, {"USD": 10}, 0.03, own_wallet=False),
    Kind("Bicycles", 42_000, 0.8, _BY_DAY, _WEEKENDS, {"EUR": 6, "USD": 3, "GBP": 1}, 0.10),
)


@dataclass(frozen=True, slots=True)
class Merchant:
    """A shop, and how many of all orders it gets beside others."""

    n: int
    name: str
    kind: Kind
    weight: float


@dataclass(frozen=True, slots=True)
class Order:
    """One payment, as it will come. Times are from the beginning of the simulation."""

    n: int
    at_us: int
    merchant: int
    buyer: int  # of all buyers; the same one has the same purse
    purse: Purse
    currency: str
    cents: int
    deed: Deed
    opens_s: float
    thinks_s: float
    twice: bool  # everything is clicked twice
    refund_s: float | None  # after it has succeeded
    reorg: bool  # the block that pays it is replaced, if it is on the EVM chain


@dataclass(frozen=True, slots=True)
class Outage:
    """A chain stands still. Times are from the beginning."""

    chain: str
    from_us: int
    until_us: int


@dataclass(frozen=True, slots=True)
class Population:
    """Everything that is to happen; `orders` are in their order of time."""

    knobs: Knobs
    begin_us: int
    merchants: tuple[Merchant, ...]
    orders: tuple[Order, ...]
    outages: tuple[Outage, ...]


def populate(knobs: Knobs, begin_us: int) -> Population:
    """Draws all of it. `begin_us` is since the Unix epoch: weekdays and hours are told by it."""
    merchants = tuple(_merchants(knobs))
    orders = tuple(_orders(knobs, begin_us, merchants))
    return Population(knobs, begin_us, merchants, orders, tuple(_outages(knobs)))


def _chance(what: str, knobs: Knobs) -> random.Random:
    """Of its own for each table, so that one more draw of one moves no other."""
    return random.Random(f"{what} {knobs.seed}")  # noqa: S311  (stories, not secrets)


def _merchants(knobs: Knobs) -> Iterator[Merchant]:
    chance = _chance("merchants", knobs)
    for n in range(knobs.merchants):
        kind = KINDS[n % len(KINDS)]
        name = kind.name if n < len(KINDS) else f"{kind.name} {n // len(KINDS) + 1}"
        yield Merchant(n, name, kind, kind.weight * chance.uniform(0.6, 1.6))


def _orders(knobs: Knobs, begin_us: int, merchants: tuple[Merchant, ...]) -> Iterator[Order]:
    chance = _chance("orders", knobs)
    known: dict[tuple[int, str], list[tuple[int, Purse]]] = {}
    buyers = 0
    for n, (at_us, shop) in enumerate(_arrivals(chance, knobs, begin_us, merchants)):
        currencies = shop.kind.currencies
        currency = chance.choices(list(currencies), list(currencies.values()))[0]
        regulars = known.setdefault((shop.n, currency), [])
        returns, which = chance.random() < _RETURNING, chance.random()
        weights = _PURSES[currency]
        purse = chance.choices(list(weights), list(weights.values()))[0]
        if returns and regulars:
            buyer, purse = regulars[int(which * len(regulars))]
        else:
            buyer, buyers = buyers, buyers + 1
            regulars.append((buyer, purse))
        yield Order(
            n=n,
            at_us=at_us,
            merchant=shop.n,
            buyer=buyer,
            purse=purse,
            currency=currency,
            cents=_cents(chance, shop.kind),
            deed=_deed(chance, knobs),
            opens_s=_about(chance, _OPENS_S, 0.8, 300),
            thinks_s=_about(chance, _THINKS_S, 0.7, 240),
            twice=chance.random() < _DOUBLE,
            refund_s=_refund_s(chance, shop.kind, purse),
            reorg=chance.random() < knobs.reorgs,
        )


def _arrivals(
    chance: random.Random, knobs: Knobs, begin_us: int, merchants: tuple[Merchant, ...]
) -> list[tuple[int, Merchant]]:
    """When each order comes, and to whom: as many as are wanted, wherever hours are busy."""
    totals = {
        shop.n: list(accumulate(_hourly(shop.kind, knobs.days, begin_us))) for shop in merchants
    }
    found = []
    for _ in range(knobs.payments):
        shop = chance.choices(merchants, [one.weight for one in merchants])[0]
        hours = range(len(totals[shop.n]))
        hour = chance.choices(hours, cum_weights=totals[shop.n])[0]
        found.append((hour * HOUR_US + chance.randrange(HOUR_US), shop))
    return sorted(found, key=lambda one: (one[0], one[1].n))


def _hourly(kind: Kind, days: int, begin_us: int) -> Iterator[float]:
    for hour in range(days * 24):
        moment = datetime.fromtimestamp((begin_us + hour * HOUR_US) / SECOND_US, UTC)
        yield kind.hours[moment.hour] * kind.days[moment.weekday()]


def _cents(chance: random.Random, kind: Kind) -> int:
    """Log-normal, and seldom a round sum."""
    cents = round(kind.cents * math.exp(chance.gauss(0, kind.spread)))
    return min(max(cents, 50), _CENTS_MAX)


def _about(chance: random.Random, median: float, spread: float, most: float) -> float:
    """Log-normal seconds."""
    return min(median * math.exp(chance.gauss(0, spread)), most)


def _deed(chance: random.Random, knobs: Knobs) -> Deed:
    drawn = chance.random()
    abandons = chance.choices(ABANDONS, _ABANDONING)[0]
    if drawn < knobs.abandoners:
        return abandons
    # of those who stay
    drawn = (drawn - knobs.abandoners) / (1 - knobs.abandoners)
    for deed, share in _ODD.items():
        if drawn < share:
            return deed
        drawn -= share
    return Deed.PAYS


def _refund_s(chance: random.Random, kind: Kind, purse: Purse) -> float | None:
    """Never in euros, of which the treasury of a sandbox begins with none."""
    wants = chance.random() < kind.refunds
    after_s = _about(chance, _REFUND_H * 3600, 0.9, 3 * 86_400)
    return after_s if wants and purse is not Purse.EUROS else None


def _outages(knobs: Knobs) -> Iterator[Outage]:
    """One, in the busy hours of a day in the middle."""
    if knobs.outage_minutes:
        chance = _chance("outage", knobs)
        from_us = (knobs.days // 2) * DAY_US + round(chance.uniform(9, 17) * HOUR_US)
        until_us = from_us + knobs.outage_minutes * 60 * SECOND_US
        yield Outage(knobs.outage_chain, from_us, min(until_us, knobs.days * DAY_US))
