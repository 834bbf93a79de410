"""Plan a chaos run: how buyers pay, which faults hit the chains, and when the service dies.

Equal seeds give equal plans. Times are seconds of the machine since the first payment.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tests.chaos.fast_clock import SPEED

# blocks until an event is final; reorganizations go as deep as this allows, and never deeper
CONFIRMATIONS = 4
REORG_MAX = CONFIRMATIONS - 1
NODES_MAX, KEYS_MAX = 2, 2
# seconds between two payments, and the shortest run
PACE_S, LEAST_S = 1.5 / SPEED, 3.0
KILL_EVERY_S = 60 / SPEED
# where a killed process leaves leases, the next one waits for them most of this time otherwise
LEASED_KILL_EVERY_S = 200 / SPEED
JUMP_EVERY_S = 100 / SPEED
ADDRESS_CENTS_MIN = 1000
# longer than a blockhash is valid
LAPSED_SLOTS = 160
# durable steps of a payment, approximately
STEPS_PER_PAYMENT = 8
# shares of all orders
SHARE_OF_ATTACKERS, SHARE_OF_ADDRESSES = 0.2, 0.3


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
    ADDRESS = "address"
    X402 = "x402"

    @property
    def is_on_solana(self) -> bool:
        return self in {Way.TOKEN, Way.TOKEN_2022}

    @property
    def has_own_address(self) -> bool:
        """Return whether the money goes to an address of the payment's own."""
        return self in {Way.ADDRESS, Way.X402}

    @property
    def is_sent_by_wallet(self) -> bool:
        """Return whether the wallet sends the payment itself."""
        return self in {Way.DIRECT, Way.COIN}


class BuyerBehavior(StrEnum):
    """The behavior of a buyer: an honest, a careless or an attacking one."""

    HONEST = "honest"
    SILENT = "silent"  # sends the payment itself and never confirms
    HOLLOW = "hollow"  # confirms a transaction that it never sends
    BROKE = "broke"  # moves its money elsewhere after signing
    GONE = "gone"  # never comes back
    CANCELS = "cancels"
    UNFETCHED = "unfetched"  # sends the offered call at once, and never confirms
    # at addresses
    PARTS = "in parts"  # sometimes from two accounts
    SHORT = "too little"
    OVER = "too much"
    AGAIN = "twice"
    TARDY = "after the end"
    OTHER_ASSET = "another asset"
    CONTRACT = "by a contract"  # as exchanges do, sometimes too much
    SUSPECT = "from a blocked account"  # sometimes beside another account that pays
    # with signatures (x402)
    REPEATS = "same signature again"
    BORROWER = "another payment's signature"
    RIVALS = "several signatures at once"
    FACILITATED = "for another server"  # through the facilitator
    # attackers
    BURNER = "burner"  # an account that passes the simulation, and burns gas in a block
    TURNCOAT = "turncoat"  # a plain key that becomes such an account after its confirm
    MOVER = "mover"  # moves its money away and back all the time
    LATE = "late"  # pays with its deadline postponed, at once or at an expired price
    DOUBLE = "double"  # pays by signature, and again directly
    CREATOR = "creator"  # pays from an account that the payment creates, sometimes in vain
    CLOSER = "closer"  # pays itself a cent, closes the account opened for it, asks for our accounts
    BLOCKED = "blocked"  # is on a blocklist when it pays
    INTRUDER = "intruder"  # pays nothing, and crowds the payments of others


# buyers who did nothing wrong
PAYS = frozenset(
    {
        BuyerBehavior.HONEST,
        BuyerBehavior.SILENT,
        BuyerBehavior.UNFETCHED,
        BuyerBehavior.PARTS,
        BuyerBehavior.OVER,
        BuyerBehavior.AGAIN,
        BuyerBehavior.CONTRACT,
        BuyerBehavior.REPEATS,
        BuyerBehavior.BORROWER,
        BuyerBehavior.RIVALS,
    }
)
# buyers whose money cannot be refunded, because it has several senders or an unsafe one
_UNREFUNDABLE = {
    BuyerBehavior.PARTS,
    BuyerBehavior.CONTRACT,
    BuyerBehavior.SUSPECT,
    BuyerBehavior.FACILITATED,
}

# the behaviors at addresses of payments; they take turns
ADDRESS_KINDS = (
    *(
        (Way.ADDRESS, behavior)
        for behavior in (
            BuyerBehavior.HONEST,
            BuyerBehavior.PARTS,
            BuyerBehavior.SHORT,
            BuyerBehavior.OVER,
            BuyerBehavior.AGAIN,
            BuyerBehavior.TARDY,
            BuyerBehavior.OTHER_ASSET,
            BuyerBehavior.CONTRACT,
            BuyerBehavior.SUSPECT,
            BuyerBehavior.GONE,
        )
    ),
    *(
        (Way.X402, behavior)
        for behavior in (
            BuyerBehavior.HONEST,
            BuyerBehavior.REPEATS,
            BuyerBehavior.BORROWER,
            BuyerBehavior.RIVALS,
            BuyerBehavior.SILENT,
            BuyerBehavior.GONE,
            BuyerBehavior.FACILITATED,
        )
    ),
)

# the payment methods of attackers
_ATTACKER_METHODS = {
    BuyerBehavior.BURNER: (Way.EIP3009,),
    BuyerBehavior.TURNCOAT: (Way.EIP3009,),
    BuyerBehavior.MOVER: (Way.EIP3009,),
    BuyerBehavior.LATE: (Way.COIN, Way.DIRECT),
    BuyerBehavior.DOUBLE: (Way.EIP3009,),
    BuyerBehavior.CREATOR: (Way.EIP3009,),
    BuyerBehavior.CLOSER: (Way.TOKEN,),
    BuyerBehavior.BLOCKED: (Way.COIN,),
    BuyerBehavior.INTRUDER: (Way.COIN,),
}
ATTACKERS = frozenset(_ATTACKER_METHODS)
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
    "front-runners": {"front_runner": 0.6},
}
# a node's behavior without other faults
USUAL = {"evm": {"front_runner": 0.15}, "solana": {}}


@dataclass(frozen=True)
class Order:
    """One payment. `buyer` is a number among the buyers of the same method."""

    n: int
    at_s: float
    way: Way
    cents: int
    behavior: BuyerBehavior
    buyer: int
    settled: bool  # the merchant has its own destination
    thinks_s: float  # between its signature and its confirm
    refunded: bool = False
    variant: int = 0  # selects one of several variants of an attack

    @property
    def has_second_payer(self) -> bool:
        """Return whether another account pays beside a blocked one."""
        return self.behavior is BuyerBehavior.SUSPECT and self.n % 2 == 1

    @property
    def pays(self) -> bool:
        """Return whether nothing but the chain can keep the order from being paid."""
        return self.behavior in PAYS or self.has_second_payer


@dataclass(frozen=True)
class ChainFault:
    """A temporary fault of a chain (`evm`, `solana`) or of a node in front of it."""

    at_s: float
    chain: str
    kind: str
    for_s: float = 0.0
    nodes: tuple[int, ...] = ()  # which of the chain's nodes
    weather: dict[str, float] = field(default_factory=dict)
    depth: int = 0
    drops: float = 0.0
    delay: int = 0


@dataclass(frozen=True)
class Kill:
    """A SIGKILL after `steps` durable steps, at once or after a delay.

    With a `step_name`, only the steps of that name count.
    """

    steps: int
    after_s: float
    step_name: str = ""


@dataclass(frozen=True)
class Plan:
    seed: int
    orders: tuple[Order, ...]
    chain_faults: tuple[ChainFault, ...]
    kills: tuple[Kill, ...]
    lasts_s: float
    nodes: int = 1  # of each chain
    keys: int = 1  # keys that send on the EVM chain

    @property
    def attackers(self) -> int:
        """Return the number of attackers."""
        return sum(order.behavior in ATTACKERS for order in self.orders)

    def describe(self) -> str:
        """Return a line for each kind."""
        ways = Counter(str(order.way) for order in self.orders)
        behaviors = Counter(str(order.behavior) for order in self.orders)
        behaviors["refunded"] = sum(order.refunded for order in self.orders)
        chain_faults = Counter(
            f"{chain_fault.chain} {chain_fault.kind}" for chain_fault in self.chain_faults
        )
        kills = ", ".join(
            f"{kill.steps} {kill.step_name or 'steps'}+{kill.after_s:.2f}s" for kill in self.kills
        )
        return (
            f"seed {self.seed}: {len(self.orders)} payments in {self.lasts_s:.0f} s, "
            f"nodes of each chain: {self.nodes}, keys: {self.keys}\n"
            f"  ways  {_format_counts(ways)}\n  behaviors {_format_counts(behaviors)}\n"
            f"  attackers {self.attackers} of {len(self.orders)}\n"
            f"  faults {_format_counts(chain_faults)}\n  kills {kills}"
        )


def plan(
    seed: int,
    payments: int,
    *,
    embedded: bool = False,
    attacker: BuyerBehavior | None = None,
    address_kinds: tuple[tuple[Way, BuyerBehavior], ...] = ADDRESS_KINDS,
    only_reorgs: bool = False,
    has_leases: bool = False,
) -> Plan:
    """Plan a run. Embedded chains have no node in front, and a faucet that prevents bankruptcy.

    With `attacker`, all attackers are of that kind; `address_kinds` take turns at addresses. With
    `only_reorgs`, the EVM chain does nothing but reorganize. `has_leases` says that a killed
    process leaves leases.
    """
    rng = random.Random(f"chaos {seed} {embedded}")
    lasts_s = max(LEAST_S, payments * PACE_S)
    nodes = 1 if embedded else rng.randint(1, NODES_MAX)
    keys = 1 if embedded else rng.randint(1, KEYS_MAX)
    attackers = _choose_attackers(seed, payments, embedded=embedded, only=attacker)
    at_addresses = _choose_at_addresses(seed, payments, attackers, address_kinds)
    orders = tuple(
        _make_order(rng, n, payments, lasts_s, embedded, attackers.get(n), at_addresses.get(n))
        for n in range(payments)
    )
    chain_faults = [
        *_plan_chain_gusts(rng, lasts_s, only_reorgs=only_reorgs),
        *_plan_node_gusts(rng, lasts_s, "evm", nodes, list(_WEATHER)),
        *_plan_node_gusts(
            rng, lasts_s, "solana", nodes, [text for text in _WEATHER if text != "strangers"]
        ),
        *_plan_pauses(rng, lasts_s),
        *_plan_jumps(random.Random(f"jumps {seed} {embedded}"), lasts_s),
    ]
    chain_faults.sort(key=lambda chain_fault: chain_fault.at_s)
    count = max(1, round(lasts_s / (LEASED_KILL_EVERY_S if has_leases else KILL_EVERY_S)))
    kills = _plan_kills(rng, payments, count)
    return Plan(seed, orders, tuple(chain_faults), kills, lasts_s, nodes, keys)


def _choose_attackers(
    seed: int, payments: int, *, embedded: bool, only: BuyerBehavior | None
) -> dict[int, BuyerBehavior]:
    """Return the attackers by number: all kinds take turns, from one seed to the next."""
    # an open faucet prevents bankruptcy
    kinds = [
        behavior
        for behavior in _ATTACKER_METHODS
        if not (embedded and behavior is BuyerBehavior.MOVER)
    ]
    kinds = kinds if only is None else [only]
    count = round(payments * SHARE_OF_ATTACKERS)
    # another text here gives other plans, and the tested seeds cover all attackers with this one
    places = random.Random(f"foes {seed} {embedded}").sample(range(len(Way), payments), count)
    return {n: kinds[(seed * count + turn) % len(kinds)] for turn, n in enumerate(places)}


def _choose_at_addresses(
    seed: int,
    payments: int,
    attackers: Collection[int],
    kinds: Sequence[tuple[Way, BuyerBehavior]],
) -> dict[int, tuple[Way, BuyerBehavior]]:
    """Return the orders at addresses by number: all kinds take turns, as attackers do."""
    remaining = sorted(set(range(len(Way), payments)) - set(attackers))
    count = min(len(remaining), round(payments * SHARE_OF_ADDRESSES))
    places = random.Random(f"addresses {seed}").sample(remaining, count)
    return {n: kinds[(seed * count + turn) % len(kinds)] for turn, n in enumerate(places)}


def _make_order(
    rng: random.Random,
    n: int,
    payments: int,
    lasts_s: float,
    embedded: bool,
    attacker: BuyerBehavior | None,
    at_address: tuple[Way, BuyerBehavior] | None,
) -> Order:
    ways = list(Way)
    # even the shortest campaign contains every method
    way = ways[n] if n < len(ways) else rng.choices(list(_WAYS), list(_WAYS.values()))[0]
    behaviors = {BuyerBehavior.HONEST: 84, BuyerBehavior.GONE: 3, BuyerBehavior.CANCELS: 3}
    if way.is_sent_by_wallet:
        behaviors |= {BuyerBehavior.SILENT: 10, BuyerBehavior.HOLLOW: 6}
    if way is Way.COIN:
        behaviors |= {BuyerBehavior.UNFETCHED: 25}
    if way is Way.EIP3009 and not embedded:
        behaviors |= {BuyerBehavior.BROKE: 8}
    behavior = (
        BuyerBehavior.HONEST
        if n < len(ways)
        else rng.choices(list(behaviors), list(behaviors.values()))[0]
    )
    if attacker is not None:
        behavior, way = attacker, rng.choice(_ATTACKER_METHODS.get(attacker, (Way.COIN,)))
    if at_address is not None:
        way, behavior = at_address
    shared = (
        way not in {Way.PERMIT2, Way.DIRECT, Way.ADDRESS} and behavior is not BuyerBehavior.BROKE
    )
    # a buyer who moves its money has several payments that can fail
    alone = behavior in ATTACKERS - {BuyerBehavior.MOVER, BuyerBehavior.CLOSER}
    first = MOVERS if behavior is BuyerBehavior.MOVER else 0
    return Order(
        n=n,
        at_s=lasts_s * n / payments + rng.uniform(0, PACE_S),
        way=way,
        cents=_choose_cents(rng, way, behavior),
        behavior=behavior,
        buyer=first + rng.randrange(max(2, payments // 12)) if shared and not alone else 1000 + n,
        # blocked payers' money is held in full, or only the fee
        settled=rng.random() < 0.75 and behavior is not BuyerBehavior.BLOCKED,
        thinks_s=rng.choice((0, 0, rng.uniform(0, 0.5))),
        refunded=rng.random() < 0.2 and behavior not in ATTACKERS | _UNREFUNDABLE,
        variant=rng.randrange(6),
    )


def _choose_cents(rng: random.Random, way: Way, behavior: BuyerBehavior) -> int:
    if behavior is BuyerBehavior.CLOSER:
        return 1
    # smaller payments in coin are not worth the gas of forwarding
    return rng.randint(ADDRESS_CENTS_MIN if way is Way.ADDRESS else 100, 5000)


def _plan_chain_gusts(rng: random.Random, lasts_s: float, *, only_reorgs: bool) -> list[ChainFault]:
    chain_faults, at_s = [], rng.uniform(0.2, 0.8)
    weights, pause_max_s = ((5, 1, 1), 1.6)
    if only_reorgs:
        # until the last deposits have come on a busy machine
        weights, pause_max_s, lasts_s = (1, 0, 0), 0.5, 4 * lasts_s
    while at_s < lasts_s:
        kind = rng.choices(("reorg", "fees", "stop"), weights)[0]
        if kind == "reorg":
            depth = rng.randint(1, REORG_MAX)
            drops = rng.choice((0, 0, 0.5))
            delay = rng.randint(0, depth)
            chain_faults.append(
                ChainFault(at_s, "evm", kind, depth=depth, drops=drops, delay=delay)
            )
        else:
            chain_faults.append(ChainFault(at_s, "evm", kind, for_s=rng.uniform(0.3, 1.5)))
        at_s += chain_faults[-1].for_s + rng.uniform(0.2, pause_max_s)
    return chain_faults


def _plan_node_gusts(
    rng: random.Random, lasts_s: float, chain: str, nodes: int, kinds: list[str]
) -> list[ChainFault]:
    chain_faults, at_s = [], rng.uniform(0, 0.4)
    while at_s < lasts_s:
        chosen = rng.sample(kinds, rng.choice((1, 1, 2)))
        weather = {name: p for kind in chosen for name, p in _WEATHER[kind].items()}
        for_s = rng.uniform(0.2, 0.8 if "silence" in chosen else 1.5)
        affected = tuple(rng.sample(range(nodes), rng.randint(1, nodes)))
        chain_faults.append(
            ChainFault(at_s, chain, "+".join(sorted(chosen)), for_s, affected, weather)
        )
        at_s += for_s + rng.uniform(0.1, 0.6)
    return chain_faults


def _plan_pauses(rng: random.Random, lasts_s: float) -> list[ChainFault]:
    chain_faults, at_s = [], rng.uniform(0.5, 2)
    while at_s < lasts_s:
        chain_faults.append(ChainFault(at_s, "solana", "pause", rng.uniform(0.1, 1.0)))
        at_s += chain_faults[-1].for_s + rng.uniform(1, 4)
    return chain_faults


def _plan_jumps(rng: random.Random, lasts_s: float) -> list[ChainFault]:
    """Let slots pass in which nothing lands, so that earlier signatures lapse."""
    chain_faults, at_s = [], rng.expovariate(1 / JUMP_EVERY_S)
    while at_s < lasts_s:
        chain_faults.append(ChainFault(at_s, "solana", "slots", depth=LAPSED_SLOTS))
        at_s += rng.expovariate(1 / JUMP_EVERY_S)
    return chain_faults


def _plan_kills(rng: random.Random, payments: int, count: int) -> tuple[Kill, ...]:
    kills = []
    steps = max(30, payments * STEPS_PER_PAYMENT // (count + 1))
    for _ in range(count):
        if rng.random() < 0.4:
            # the moment at which the chain knows more than the service
            sent = rng.randint(1, max(2, payments // (6 * (count + 1))))
            kills.append(Kill(sent, 0, "after broadcast"))
        else:
            kills.append(Kill(rng.randint(steps // 2, steps), _choose_delay(rng)))
        if rng.random() < 0.3:
            # once more during recovery
            kills.append(Kill(rng.randint(1, 30), _choose_delay(rng)))
    return tuple(kills)


def _choose_delay(rng: random.Random) -> float:
    return rng.choice((0, 0, rng.uniform(0, 0.1)))


def _format_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
