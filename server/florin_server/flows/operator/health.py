"""What is wrong with chains and the installation, as conditions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from florin_server.clock import Clock, SystemClock
from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.conditions import FROM_NODES, FROM_STORE, USUAL, Condition, ConditionName
from florin_server.domain.health import Board
from florin_server.flows.app import App
from florin_server.flows.operator import server_clock
from florin_server.flows.payouts import held_money, payouts
from florin_server.flows.quarantine import items
from florin_server.flows.screening.check import lists_condition, lists_problem
from florin_server.rails.protocol import Rail
from florin_server.rails.types import RailUnavailable, is_unfunded
from florin_server.store.webhooks import deliveries

# what is found when somebody asks, beside what those know who settle and pay out
OF_CHAIN = (
    ConditionName.CHAIN_UNUSABLE,
    ConditionName.CHAIN_STALLED,
    ConditionName.NODES_DISAGREE,
    ConditionName.PAYOUTS_WAITING,
    ConditionName.PAYMENTS_HELD,
    ConditionName.WALLET_SHORT,
    ConditionName.DESTINATION_RESERVED,
    ConditionName.PRICE_MISSING,
    ConditionName.ITEM_SET_ASIDE,
)
OF_INSTALLATION = (
    ConditionName.STORE_UNREACHABLE,
    ConditionName.SCREENING_LISTS_STALE,
    ConditionName.SCREENING_LISTS_OLD,
    ConditionName.CERTIFICATE_EXPIRED,
    ConditionName.CERTIFICATE_EXPIRING,
    ConditionName.PAY_URL_LOCAL,
    ConditionName.MACHINE_CLOCK_OFF,
    ConditionName.CLOCK_WRONG,
    ConditionName.WEBHOOKS_PAUSED,
    ConditionName.ITEM_SET_ASIDE,
    ConditionName.WORKER_FAILING,
)
_ORDER = list(ConditionName)
_CLOCK_OFF_US = 2_000_000


@dataclass(frozen=True, slots=True)
class Sight:
    """Where conditions are looked for: without `nodes` no node is called, without `store` no row.

    Conditions that need a node stay as they were found last, those that need rows are left out.
    """

    nodes: bool = True
    store: bool = True

    def of(self, board: Board, wrong: Mapping[ConditionName, Iterable[str]]) -> list[Condition]:
        """Return the conditions of a board that can be seen."""
        hidden = FROM_STORE if not self.store else frozenset()
        unknown = hidden | (FROM_NODES if not self.nodes else frozenset())
        return [one for one in board.look(wrong, unknown=unknown) if one.name not in hidden]


EVERYTHING = Sight()
# nodes are not called either: an answer has to come in time
WITHOUT_STORE = Sight(nodes=False, store=False)


async def of_chain(
    app: App,
    rail: Rail,
    misdirected: Iterable[tuple[AssetAccount, str]],
    prices: Mapping[tuple[str, str], str],
    sight: Sight = EVERYTHING,
) -> list[Condition]:
    """The conditions of a chain that the settler and the payout worker do not know.

    `misdirected` are places of merchants on any chain that nothing is paid to, `prices` what lacks
    a price in which currency on any chain, both with sentences.
    """
    chain_id = rail.chain_id
    state = app.chains[chain_id]
    wrong: dict[ConditionName, Iterable[str]] = {
        ConditionName.CHAIN_STALLED: [rail.nodes.stalled],
        ConditionName.NODES_DISAGREE: [rail.nodes.disagreement],
        ConditionName.WALLET_SHORT: [state.lacking],
        ConditionName.PRICE_MISSING: [
            f"{asset} has no price in {currency}: {why}"
            for (asset, currency), why in prices.items()
            if asset in rail.assets
        ],
    }
    if sight.nodes:
        wrong[ConditionName.CHAIN_UNUSABLE] = await rail.problems()
    if sight.store:
        wrong |= {
            ConditionName.PAYOUTS_WAITING: await payouts.problems(app, chain_id),
            ConditionName.PAYMENTS_HELD: [await held_money.problem(app, chain_id)],
            ConditionName.DESTINATION_RESERVED: [
                told for place, told in misdirected if place.chain_id == chain_id
            ],
            ConditionName.ITEM_SET_ASIDE: [await items.problem(app, chain_id)],
        }
    return sight.of(state.board, wrong)


async def of_installation(app: App, sight: Sight = EVERYTHING) -> list[Condition]:
    """The conditions of no chain in particular."""
    wrong: dict[ConditionName, Iterable[str]] = {
        ConditionName.STORE_UNREACHABLE: [app.store_health.problem],
        ConditionName.MACHINE_CLOCK_OFF: [describe_machine_clock(app.clock)],
        ConditionName.WORKER_FAILING: app.failures.describe(app.clock.now_us()),
        **{name: [told] for name, told in app.outside().items()},
    }
    if sight.nodes:
        wrong[ConditionName.CLOCK_WRONG] = [await server_clock.describe(app)]
    if sight.store:
        paused = (await app.store.survey(deliveries.figures())).paused
        told = f"{paused} webhook endpoints are paused, as they took nothing" if paused else ""
        stale = await app.store.read(lists_problem(app.settings, app.clock.now_us()))
        wrong |= {
            lists_condition(app.settings): [stale],
            ConditionName.WEBHOOKS_PAUSED: [told],
            ConditionName.ITEM_SET_ASIDE: [await items.problem(app, "")],
        }
    return sight.of(app.board, wrong)


def machine_ahead_us(clock: Clock) -> int:
    """Return the µs by which the machine's clock is before the database's; 0 without one."""
    return clock.machine_ahead_us if isinstance(clock, SystemClock) else 0


def describe_machine_clock(clock: Clock) -> str:
    """Say by how much the machine's clock differs from the database's; empty if it is right."""
    ahead_us = machine_ahead_us(clock)
    if abs(ahead_us) <= _CLOCK_OFF_US:
        return ""
    side = "ahead of" if ahead_us > 0 else "behind"
    return f"the machine's clock is {abs(ahead_us) // 1_000_000} s {side} the database's"


async def of_nodes(rail: Rail) -> dict[ConditionName, tuple[str, ...]]:
    """What is wrong with a chain, asked of its nodes and nobody else, in sentences."""
    found = await rail.problems()
    try:
        short = tuple(await rail.relay.shortages())
    except RailUnavailable as error:
        found, short = found or (str(error),), ()
    name = ConditionName.RELAYER_FUNDS_LOW
    if is_unfunded(short, len(rail.senders)):
        name = ConditionName.RELAYER_EMPTY
    return {
        ConditionName.CHAIN_UNUSABLE: tuple(found),
        name: tuple(one.text for one in short),
        ConditionName.DURABLE_NONCES_MISSING: await _unaffordable_nonces(rail),
    }


async def _unaffordable_nonces(rail: Rail) -> tuple[str, ...]:
    """Say how many durable nonces the relayer cannot pay for; one sentence or none."""
    work = rail.durable_nonces
    if work is None or not work.addresses:
        return ()
    try:
        made = (await work.values(work.addresses)).held
        problem = (await work.affordable(len(work.addresses) - len(made))).problem
    except RailUnavailable:
        # the chain's own condition says why
        return ()
    return (problem,) if problem else ()


async def faults(rail: Rail) -> tuple[str, ...]:
    """Return the sentences of `of_nodes` about what should not be so."""
    found = await of_nodes(rail)
    return tuple(text for name, each in found.items() if name not in USUAL for text in each)


def in_order(conditions: Iterable[Condition]) -> list[Condition]:
    """As they are told."""
    return sorted(conditions, key=lambda one: _ORDER.index(one.name))
