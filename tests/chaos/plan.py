"""Plan a chaos run: how buyers pay, which faults hit the chains, and when the service dies.

Equal seeds give equal plans. Times are seconds of the machine since the first payment.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

# blocks until an event is final; reorganizations go as deep as this allows, and never deeper
CONFIRMATIONS = 4
REORG_MAX = CONFIRMATIONS - 1
NODES_MAX, KEYS_MAX = 2, 2
# seconds between two payments, and the shortest run
PACE_S, LEAST_S = 0.15, 3.0
KILL_EVERY_S = 6.0
JUMP_EVERY_S = 10.0
# longer than a blockhash is valid
LAPSED_SLOTS = 160
# durable steps of a payment, approximately
STEPS_A_PAYMENT = 8
# share of all orders
SHARE_OF_FOES = 0.2


# the first number of the buyers who move their money
MOVERS = 500


class Way(StrEnum):
    """The payment method of an order."""

    EIP3009 = "eip3009"
    PERMIT2 = "permit2"
    DIRECT = "direct"
    COIN = "coin"
    TOKEN = "token"
    TOKEN_2022 = "token-2022"

    @property
    def on_solana(self) -> bool:
        return self in {Way.TOKEN, Way.TOKEN_2022}

    @property
    def sends(self) -> bool:
        """Return whether the wallet sends the payment itself."""
        return self in {Way.DIRECT, Way.COIN}


class Mood(StrEnum):
    """The behavior of a buyer."""

    HONEST = "honest"
    SILENT = "silent"  # sends the payment itself and never confirms
    HOLLOW = "hollow"  # confirms a transaction that it never sends
    BROKE = "broke"  # moves its money elsewhere after signing
    GONE = "gone"  # never comes back
    CANCELS = "cancels"
    UNFETCHED = "unfetched"  # sends the offered call at once, and never confirms
    # attackers
    BURNER = "burner"  # an account that passes the simulation, and burns gas in a block
    TURNCOAT = "turncoat"  # a plain key that becomes such an account after its confirm
    MOVER = "mover"  # moves its money away and back all the time
    LATE = "late"  # pays with its deadline postponed, at once or at an expired price
    DOUBLE = "double"  # pays by signature, and again directly
    CREATOR = "creator"  # pays from an account that the payment creates, sometimes in vain
    CLOSER = "closer"  # pays itself a cent, closes the account opened for it, asks for our accounts
    BLOCKED = "blocked"  # is on a blocklist when it pays
    MEDDLER = "meddler"  # pays nothing, and crowds the payments of others


# buyers who did nothing wrong
PAYS = frozenset({Mood.HONEST, Mood.SILENT, Mood.UNFETCHED})


# the payment methods of attackers
_FOES = {
    Mood.BURNER: (Way.EIP3009,),
    Mood.TURNCOAT: (Way.EIP3009,),
    Mood.MOVER: (Way.EIP3009,),
    Mood.LATE: (Way.COIN, Way.DIRECT),
    Mood.DOUBLE: (Way.EIP3009,),
    Mood.CREATOR: (Way.EIP3009,),
    Mood.CLOSER: (Way.TOKEN,),
    Mood.BLOCKED: (Way.COIN,),
    Mood.MEDDLER: (Way.COIN,),
}
FOES = frozenset(_FOES)
_WAYS = {
    Way.EIP3009: 35,
    Way.PERMIT2: 15,
    Way.DIRECT: 10,
    Way.COIN: 12,
    Way.TOKEN: 14,
    Way.TOKEN_2022: 14,
}
_WEATHER = {
    # faults of a node: the probability of each effect per call
    "sends": {"drop": 0.25, "fail": 0.15, "late": 0.15},
    "nulls": {"null": 0.3},
    "garbage": {"garbage": 0.2},
    "refusals": {"refuse": 0.25},
    "slowness": {"slow": 0.5},
    "silence": {"silent": 1.0},
    "strangers": {"stranger": 0.6},
}
# a node's behavior without other faults
USUAL = {"evm": {"stranger": 0.15}, "solana": {}}


@dataclass(frozen=True)
class Order:
    """One payment. `buyer` is a number among the buyers of the same method."""

    n: int
    at_s: float
    way: Way
    cents: int
    mood: Mood
    buyer: int
    settled: bool  # the merchant has its own destination
    thinks_s: float  # between its signature and its confirm
    refunded: bool = False
    variant: int = 0  # selects one of several variants of an attack


@dataclass(frozen=True)
class Gust:
    """A temporary fault of a chain (`evm`, `solana`) or of a node in front of it."""

    at_s: float
    chain: str
    what: str
    for_s: float = 0.0
    nodes: tuple[int, ...] = ()  # which of the chain's nodes
    weather: dict[str, float] = field(default_factory=dict)
    depth: int = 0
    drops: float = 0.0
    delay: int = 0


@dataclass(frozen=True)
class Kill:
    """A SIGKILL after `steps` durable steps (all, or the named ones), at once or after a delay."""

    steps: int
    after_s: float
    named: str = ""


@dataclass(frozen=True)
class Plan:
    seed: int
    orders: tuple[Order, ...]
    gusts: tuple[Gust, ...]
    kills: tuple[Kill, ...]
    lasts_s: float
    nodes: int = 1  # of each chain
    keys: int = 1  # keys that send on the EVM chain

    @property
    def foes(self) -> int:
        """Return the number of attackers."""
        return sum(order.mood in FOES for order in self.orders)

    def told(self) -> str:
        """Return a line for each kind."""
        ways = Counter(str(order.way) for order in self.orders)
        moods = Counter(str(order.mood) for order in self.orders)
        moods["refunded"] = sum(order.refunded for order in self.orders)
        gusts = Counter(f"{gust.chain} {gust.what}" for gust in self.gusts)
        kills = ", ".join(
            f"{kill.steps} {kill.named or 'steps'}+{kill.after_s:.2f}s" for kill in self.kills
        )
        return (
            f"seed {self.seed}: {len(self.orders)} payments in {self.lasts_s:.0f} s, "
            f"nodes of each chain: {self.nodes}, keys: {self.keys}\n"
            f"  ways  {_counted(ways)}\n  moods {_counted(moods)}\n"
            f"  attackers {self.foes} of {len(self.orders)}\n"
            f"  gusts {_counted(gusts)}\n  kills {kills}"
        )


def plan(seed: int, payments: int, *, embedded: bool = False, foe: Mood | None = None) -> Plan:
    """Plan a run. Embedded chains have no node in front, and a faucet that prevents bankruptcy.

    With `foe`, all attackers are of that kind.
    """
    chance = random.Random(f"chaos {seed} {embedded}")
    lasts_s = max(LEAST_S, payments * PACE_S)
    nodes = 1 if embedded else chance.randint(1, NODES_MAX)
    keys = 1 if embedded else chance.randint(1, KEYS_MAX)
    foes = _foes(seed, payments, embedded=embedded, only=foe)
    orders = tuple(
        _order(chance, n, payments, lasts_s, embedded, foes.get(n)) for n in range(payments)
    )
    gusts = [
        *_chain_gusts(chance, lasts_s),
        *_node_gusts(chance, lasts_s, "evm", nodes, list(_WEATHER)),
        *_node_gusts(
            chance, lasts_s, "solana", nodes, [text for text in _WEATHER if text != "strangers"]
        ),
        *_pauses(chance, lasts_s),
        *_jumps(random.Random(f"jumps {seed} {embedded}"), lasts_s),
    ]
    gusts.sort(key=lambda gust: gust.at_s)
    return Plan(seed, orders, tuple(gusts), _kills(chance, payments, lasts_s), lasts_s, nodes, keys)


def _foes(seed: int, payments: int, *, embedded: bool, only: Mood | None) -> dict[int, Mood]:
    """Return the attackers by number: all kinds take turns, from one seed to the next."""
    # an open faucet prevents bankruptcy
    kinds = [mood for mood in _FOES if not (embedded and mood is Mood.MOVER)]
    kinds = kinds if only is None else [only]
    count = round(payments * SHARE_OF_FOES)
    places = random.Random(f"foes {seed} {embedded}").sample(range(len(_WAYS), payments), count)
    return {n: kinds[(seed * count + turn) % len(kinds)] for turn, n in enumerate(places)}


def _order(
    chance: random.Random,
    n: int,
    payments: int,
    lasts_s: float,
    embedded: bool,
    foe: Mood | None,
) -> Order:
    ways = list(_WAYS)
    # even the shortest campaign contains every method
    way = ways[n] if n < len(ways) else chance.choices(ways, list(_WAYS.values()))[0]
    moods = {Mood.HONEST: 84, Mood.GONE: 3, Mood.CANCELS: 3}
    if way.sends:
        moods |= {Mood.SILENT: 10, Mood.HOLLOW: 6}
    if way is Way.COIN:
        moods |= {Mood.UNFETCHED: 25}
    if way is Way.EIP3009 and not embedded:
        moods |= {Mood.BROKE: 8}
    mood = Mood.HONEST if n < len(ways) else chance.choices(list(moods), list(moods.values()))[0]
    if foe is not None:
        mood, way = foe, chance.choice(_FOES.get(foe, (Way.COIN,)))
    shared = way not in {Way.PERMIT2, Way.DIRECT} and mood is not Mood.BROKE
    # a buyer who moves its money has several payments that can fail
    alone = mood in FOES - {Mood.MOVER, Mood.CLOSER}
    first = MOVERS if mood is Mood.MOVER else 0
    return Order(
        n=n,
        at_s=lasts_s * n / payments + chance.uniform(0, PACE_S),
        way=way,
        cents=1 if mood is Mood.CLOSER else chance.randint(100, 5000),
        mood=mood,
        buyer=first + chance.randrange(max(2, payments // 12))
        if shared and not alone
        else 1000 + n,
        # blocked payers' money is held in full, or only the fee
        settled=chance.random() < 0.75 and mood is not Mood.BLOCKED,
        thinks_s=chance.choice((0, 0, chance.uniform(0, 0.5))),
        refunded=chance.random() < 0.2 and mood not in FOES,
        variant=chance.randrange(6),
    )


def _chain_gusts(chance: random.Random, lasts_s: float) -> list[Gust]:
    gusts, at_s = [], chance.uniform(0.2, 0.8)
    while at_s < lasts_s:
        what = chance.choices(("reorg", "fees", "stop"), (5, 1, 1))[0]
        if what == "reorg":
            depth = chance.randint(1, REORG_MAX)
            drops = chance.choice((0, 0, 0.5))
            delay = chance.randint(0, depth)
            gusts.append(Gust(at_s, "evm", what, depth=depth, drops=drops, delay=delay))
        else:
            gusts.append(Gust(at_s, "evm", what, for_s=chance.uniform(0.3, 1.5)))
        at_s += gusts[-1].for_s + chance.uniform(0.2, 1.6)
    return gusts


def _node_gusts(
    chance: random.Random, lasts_s: float, chain: str, nodes: int, kinds: list[str]
) -> list[Gust]:
    gusts, at_s = [], chance.uniform(0, 0.4)
    while at_s < lasts_s:
        chosen = chance.sample(kinds, chance.choice((1, 1, 2)))
        weather = {name: p for kind in chosen for name, p in _WEATHER[kind].items()}
        for_s = chance.uniform(0.2, 0.8 if "silence" in chosen else 1.5)
        befallen = tuple(chance.sample(range(nodes), chance.randint(1, nodes)))
        gusts.append(Gust(at_s, chain, "+".join(sorted(chosen)), for_s, befallen, weather))
        at_s += for_s + chance.uniform(0.1, 0.6)
    return gusts


def _pauses(chance: random.Random, lasts_s: float) -> list[Gust]:
    gusts, at_s = [], chance.uniform(0.5, 2)
    while at_s < lasts_s:
        gusts.append(Gust(at_s, "solana", "pause", chance.uniform(0.1, 1.0)))
        at_s += gusts[-1].for_s + chance.uniform(1, 4)
    return gusts


def _jumps(chance: random.Random, lasts_s: float) -> list[Gust]:
    """Let slots pass in which nothing lands, so that earlier signatures lapse."""
    gusts, at_s = [], chance.expovariate(1 / JUMP_EVERY_S)
    while at_s < lasts_s:
        gusts.append(Gust(at_s, "solana", "slots", depth=LAPSED_SLOTS))
        at_s += chance.expovariate(1 / JUMP_EVERY_S)
    return gusts


def _kills(chance: random.Random, payments: int, lasts_s: float) -> tuple[Kill, ...]:
    kills = []
    count = max(1, round(lasts_s / KILL_EVERY_S))
    steps = max(30, payments * STEPS_A_PAYMENT // (count + 1))
    for _ in range(count):
        if chance.random() < 0.4:
            # the moment at which the chain knows more than the service
            sent = chance.randint(1, max(2, payments // (6 * (count + 1))))
            kills.append(Kill(sent, 0, "after broadcast"))
        else:
            kills.append(Kill(chance.randint(steps // 2, steps), _later(chance)))
        if chance.random() < 0.3:
            # once more during recovery
            kills.append(Kill(chance.randint(1, 30), _later(chance)))
    return tuple(kills)


def _later(chance: random.Random) -> float:
    return chance.choice((0, 0, chance.uniform(0, 0.1)))


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
