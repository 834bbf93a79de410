"""Draw all orders of a simulation from a seed, before it starts.

The plan is a pure function of seed, configuration and start time. Tables hold relative weights.
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

from florin_sandbox.simulation.config import SimulationConfig

SECOND_US: Final = 1_000_000
HOUR_US: Final = 3_600 * SECOND_US
DAY_US: Final = 24 * HOUR_US

# relative number of orders by hour of the day (UTC), for kinds of shops
_DAY_HOURS: Final = (
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
_EVENING_HOURS: Final = (
    5,
    3,
    2,
    1,
    1,
    1,
    2,
    4,
    6,
    7,
    8,
    9,
    11,
    10,
    9,
    9,
    10,
    13,
    17,
    21,
    24,
    22,
    16,
    9,
)
# and by day of the week, from Monday
_WORKDAYS: Final = (18, 18, 18, 19, 20, 12, 5)
_WEEKENDS: Final = (12, 11, 12, 14, 19, 26, 23)
# habits of buyers
_OPEN_DELAY_S, _DECISION_DELAY_S = (
    12.0,
    18.0,
)  # medians: until the page is open, and until the buyer signs
_REFUND_DELAY_H: Final = 20.0  # median, from the payment to the refund request
_RETURNING_SHARE: Final = 0.35  # share of orders from returning buyers
_DOUBLE_CLICK_SHARE: Final = 0.05  # share of orders from buyers who click everything twice
_CENTS_MAX: Final = 250_000


class BuyerBehavior(StrEnum):
    """The behavior of a buyer towards a payment."""

    PAYS = "pays"
    IGNORES = "ignores"  # never opens it
    LOOKS = "looks"  # sees the options, and leaves
    HESITATES = "hesitates"  # gets the data to sign, and does not sign it
    CANCELS = "cancels"
    LATE = "late"  # signs after the payment expired, or sends after it was cancelled
    BLUNDERS = "blunders"  # its wallet submits wrong results


ABANDONING_BEHAVIORS: Final = (BuyerBehavior.IGNORES, BuyerBehavior.LOOKS, BuyerBehavior.HESITATES)
_ABANDONING_WEIGHTS: Final = (5, 3, 2)
_ODD_BEHAVIORS: Final = {
    BuyerBehavior.CANCELS: 0.025,
    BuyerBehavior.LATE: 0.025,
    BuyerBehavior.BLUNDERS: 0.01,
}


class WalletKind(StrEnum):
    """The kind of a buyer's wallet, and the asset with which it pays."""

    DOLLARS = "dollars"  # EVM, by signature
    EUROS = "euros"  # EVM, by Permit2
    COIN = "coin"  # EVM, by its own transaction
    SOLANA = "solana"
    SOLANA_2022 = "solana 2022"

    @property
    def chain(self) -> str:
        """Return the kind of chain of the wallet."""
        return "solana" if self in {WalletKind.SOLANA, WalletKind.SOLANA_2022} else "evm"


# kinds of wallets by currency; only a few buyers have no asset that fits the currency
_WALLET_WEIGHTS: Final = {
    "USD": {
        WalletKind.DOLLARS: 48,
        WalletKind.SOLANA: 26,
        WalletKind.SOLANA_2022: 10,
        WalletKind.COIN: 12,
        WalletKind.EUROS: 2,
    },
    "EUR": {WalletKind.EUROS: 70, WalletKind.COIN: 24, WalletKind.SOLANA: 4},
    "GBP": {WalletKind.COIN: 92, WalletKind.DOLLARS: 8},
}


@dataclass(frozen=True, slots=True)
class MerchantKind:
    """A kind of shop. `cents` is the median of a basket, `spread` the sigma of its logarithm."""

    name: str
    cents: int
    spread: float
    hours: tuple[int, ...]
    days: tuple[int, ...]
    currencies: dict[str, int]
    refunds: float  # share of paid orders
    own_wallet: bool = True  # without one, the treasury receives the money
    weight: int = 10


MERCHANT_KINDS: Final = (
    MerchantKind("Bakery", 850, 0.5, _DAY_HOURS, _WEEKENDS, {"USD": 8, "EUR": 2}, 0.01, weight=22),
    MerchantKind(
        "Bookshop", 2_400, 0.6, _DAY_HOURS, _WORKDAYS, {"USD": 7, "EUR": 2, "GBP": 1}, 0.05
    ),
    MerchantKind(
        "Game keys", 3_500, 0.5, _EVENING_HOURS, _WEEKENDS, {"USD": 9, "EUR": 1}, 0.08, weight=18
    ),
    MerchantKind(
        "Web hosting", 1_900, 0.9, _EVENING_HOURS, _WORKDAYS, {"USD": 10}, 0.03, own_wallet=False
    ),
    MerchantKind(
        "Bicycles", 42_000, 0.8, _DAY_HOURS, _WEEKENDS, {"EUR": 6, "USD": 3, "GBP": 1}, 0.10
    ),
)


@dataclass(frozen=True, slots=True)
class SimulatedMerchant:
    """A shop, and its relative share of all orders."""

    number: int
    name: str
    kind: MerchantKind
    weight: float


@dataclass(frozen=True, slots=True)
class SimulatedOrder:
    """One planned payment. Times are relative to the start of the simulation."""

    number: int
    at_us: int
    merchant: int
    buyer: int  # number of the buyer; a returning buyer keeps the wallet
    wallet_kind: WalletKind
    currency: str
    cents: int
    behavior: BuyerBehavior
    open_delay_s: float
    decision_delay_s: float
    is_double_click: bool  # the buyer clicks everything twice
    refund_delay_s: float | None  # refund request, after the payment succeeded
    has_reorg: bool  # on the EVM chain: the block that pays it is reorganized


@dataclass(frozen=True, slots=True)
class ChainOutage:
    """A period in which a chain produces no blocks. Times are relative to the start."""

    chain: str
    start_us: int
    end_us: int


@dataclass(frozen=True, slots=True)
class SimulationPlan:
    """Everything that happens in a simulation; `orders` are sorted by time."""

    config: SimulationConfig
    begin_us: int
    merchants: tuple[SimulatedMerchant, ...]
    orders: tuple[SimulatedOrder, ...]
    outages: tuple[ChainOutage, ...]


def generate_plan(config: SimulationConfig, begin_us: int) -> SimulationPlan:
    """Draw a plan. `begin_us` is since the Unix epoch, and sets the weekdays and hours."""
    merchants = tuple(_generate_merchants(config))
    orders = tuple(_generate_orders(config, begin_us, merchants))
    return SimulationPlan(config, begin_us, merchants, orders, tuple(_generate_outages(config)))


def _create_random(table: str, config: SimulationConfig) -> random.Random:
    """Create a generator per table, so that a new draw in one table changes no other table."""
    return random.Random(f"{table} {config.seed}")  # noqa: S311  (scenarios, not secrets)


def _generate_merchants(config: SimulationConfig) -> Iterator[SimulatedMerchant]:
    chance = _create_random("merchants", config)
    for n in range(config.merchants):
        kind = MERCHANT_KINDS[n % len(MERCHANT_KINDS)]
        name = (
            kind.name if n < len(MERCHANT_KINDS) else f"{kind.name} {n // len(MERCHANT_KINDS) + 1}"
        )
        yield SimulatedMerchant(n, name, kind, kind.weight * chance.uniform(0.6, 1.6))


def _generate_orders(
    config: SimulationConfig, begin_us: int, merchants: tuple[SimulatedMerchant, ...]
) -> Iterator[SimulatedOrder]:
    chance = _create_random("orders", config)
    regulars_by_shop: dict[tuple[int, str], list[tuple[int, WalletKind]]] = {}
    buyers = 0
    for n, (at_us, shop) in enumerate(_draw_arrivals(chance, config, begin_us, merchants)):
        currencies = shop.kind.currencies
        currency = chance.choices(list(currencies), list(currencies.values()))[0]
        regulars = regulars_by_shop.setdefault((shop.number, currency), [])
        returns, which = chance.random() < _RETURNING_SHARE, chance.random()
        weights = _WALLET_WEIGHTS[currency]
        purse = chance.choices(list(weights), list(weights.values()))[0]
        if returns and regulars:
            buyer, purse = regulars[int(which * len(regulars))]
        else:
            buyer, buyers = buyers, buyers + 1
            regulars.append((buyer, purse))
        yield SimulatedOrder(
            number=n,
            at_us=at_us,
            merchant=shop.number,
            buyer=buyer,
            wallet_kind=purse,
            currency=currency,
            cents=_draw_cents(chance, shop.kind),
            behavior=_draw_behavior(chance, config),
            open_delay_s=_draw_seconds(chance, _OPEN_DELAY_S, 0.8, 300),
            decision_delay_s=_draw_seconds(chance, _DECISION_DELAY_S, 0.7, 240),
            is_double_click=chance.random() < _DOUBLE_CLICK_SHARE,
            refund_delay_s=_draw_refund_delay(chance, shop.kind, purse),
            has_reorg=chance.random() < config.reorgs,
        )


def _draw_arrivals(
    chance: random.Random,
    config: SimulationConfig,
    begin_us: int,
    merchants: tuple[SimulatedMerchant, ...],
) -> list[tuple[int, SimulatedMerchant]]:
    """Draw time and merchant of each order, sorted by time; busy hours get more orders."""
    totals = {
        shop.number: list(accumulate(_list_hour_weights(shop.kind, config.days, begin_us)))
        for shop in merchants
    }
    arrivals = []
    for _ in range(config.payments):
        shop = chance.choices(merchants, [merchant.weight for merchant in merchants])[0]
        hours = range(len(totals[shop.number]))
        hour = chance.choices(hours, cum_weights=totals[shop.number])[0]
        arrivals.append((hour * HOUR_US + chance.randrange(HOUR_US), shop))
    return sorted(arrivals, key=lambda item: (item[0], item[1].number))


def _list_hour_weights(kind: MerchantKind, days: int, begin_us: int) -> Iterator[float]:
    for hour in range(days * 24):
        moment = datetime.fromtimestamp((begin_us + hour * HOUR_US) / SECOND_US, UTC)
        yield kind.hours[moment.hour] * kind.days[moment.weekday()]


def _draw_cents(chance: random.Random, kind: MerchantKind) -> int:
    """Draw a log-normal price in cents, seldom a round sum."""
    cents = round(kind.cents * math.exp(chance.gauss(0, kind.spread)))
    return min(max(cents, 50), _CENTS_MAX)


def _draw_seconds(chance: random.Random, median: float, spread: float, maximum: float) -> float:
    """Draw log-normal seconds, up to `maximum`."""
    return min(median * math.exp(chance.gauss(0, spread)), maximum)


def _draw_behavior(chance: random.Random, config: SimulationConfig) -> BuyerBehavior:
    drawn = chance.random()
    abandons = chance.choices(ABANDONING_BEHAVIORS, _ABANDONING_WEIGHTS)[0]
    if drawn < config.abandoners:
        return abandons
    # rescale to the buyers who stay
    drawn = (drawn - config.abandoners) / (1 - config.abandoners)
    for behavior, share in _ODD_BEHAVIORS.items():
        if drawn < share:
            return behavior
        drawn -= share
    return BuyerBehavior.PAYS


def _draw_refund_delay(
    chance: random.Random, kind: MerchantKind, purse: WalletKind
) -> float | None:
    """Draw the delay of a refund, if any; never in euros, of which the treasury has none."""
    wants = chance.random() < kind.refunds
    after_s = _draw_seconds(chance, _REFUND_DELAY_H * 3600, 0.9, 3 * 86_400)
    return after_s if wants and purse is not WalletKind.EUROS else None


def _generate_outages(config: SimulationConfig) -> Iterator[ChainOutage]:
    """Draw one outage, in the busy hours of a day in the middle."""
    if config.outage_minutes:
        chance = _create_random("outage", config)
        from_us = (config.days // 2) * DAY_US + round(chance.uniform(9, 17) * HOUR_US)
        until_us = from_us + config.outage_minutes * 60 * SECOND_US
        yield ChainOutage(config.outage_chain, from_us, min(until_us, config.days * DAY_US))
