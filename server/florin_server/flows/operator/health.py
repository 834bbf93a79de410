"""What is wrong with chains and the installation, as conditions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.conditions import Condition, ConditionName
from florin_server.flows.app import App
from florin_server.flows.payouts import held_money, payouts
from florin_server.flows.screening.check import lists_problem
from florin_server.rails.protocol import Rail
from florin_server.rails.types import RailUnavailable
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
)
OF_INSTALLATION = (
    ConditionName.SCREENING_LISTS_STALE,
    ConditionName.CERTIFICATE_EXPIRED,
    ConditionName.CERTIFICATE_EXPIRING,
    ConditionName.PAY_URL_LOCAL,
    ConditionName.WEBHOOKS_PAUSED,
)
_ORDER = list(ConditionName)


async def of_chain(
    app: App,
    rail: Rail,
    misdirected: Iterable[tuple[AssetAccount, str]],
    prices: Mapping[tuple[str, str], str],
) -> list[Condition]:
    """The conditions of a chain that the settler and the payout worker do not know.

    `misdirected` are places of merchants on any chain that nothing is paid to, `prices` what lacks
    a price in which currency on any chain, both with sentences.
    """
    chain_id = rail.chain_id
    state = app.chains[chain_id]
    wrong: Mapping[ConditionName, Iterable[str]] = {
        ConditionName.CHAIN_UNUSABLE: await rail.problems(),
        ConditionName.CHAIN_STALLED: [rail.nodes.stalled],
        ConditionName.NODES_DISAGREE: [rail.nodes.disagreement],
        ConditionName.PAYOUTS_WAITING: await payouts.problems(app, chain_id),
        ConditionName.PAYMENTS_HELD: [await held_money.problem(app, chain_id)],
        ConditionName.WALLET_SHORT: [state.lacking],
        ConditionName.DESTINATION_RESERVED: [
            told for place, told in misdirected if place.chain_id == chain_id
        ],
        ConditionName.PRICE_MISSING: [
            f"{asset} has no price in {currency}: {why}"
            for (asset, currency), why in prices.items()
            if asset in rail.assets
        ],
    }
    return list(state.board.look(wrong))


async def of_installation(app: App) -> list[Condition]:
    """The conditions of no chain in particular."""
    stale = await app.store.read(lists_problem(app.settings, app.clock.now_us()))
    outside = {name: [told] for name, told in app.outside().items()}
    paused = (await app.store.survey(deliveries.figures())).paused
    told = f"{paused} webhook endpoints are paused, as they took nothing" if paused else ""
    wrong = {
        ConditionName.SCREENING_LISTS_STALE: [stale],
        ConditionName.WEBHOOKS_PAUSED: [told],
        **outside,
    }
    return list(app.board.look(wrong))


async def of_nodes(rail: Rail) -> dict[ConditionName, tuple[str, ...]]:
    """What is wrong with a chain, asked of its nodes and nobody else, in sentences."""
    found = await rail.problems()
    try:
        short = tuple(await rail.relay.shortages())
    except RailUnavailable as error:
        found, short = found or (str(error),), ()
    return {ConditionName.CHAIN_UNUSABLE: tuple(found), ConditionName.RELAYER_FUNDS_LOW: short}


async def faults(rail: Rail) -> tuple[str, ...]:
    """The sentences of `of_nodes`, whatever their names."""
    return tuple(told for each in (await of_nodes(rail)).values() for told in each)


def in_order(conditions: Iterable[Condition]) -> list[Condition]:
    """As they are told."""
    return sorted(conditions, key=lambda one: _ORDER.index(one.name))
