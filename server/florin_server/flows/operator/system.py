"""How the installation is doing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from florin_server.flows.accounts import own_accounts
from florin_server.flows.app import App, Health
from florin_server.flows.limits import gas_budgets
from florin_server.flows.payouts import held_money, payouts
from florin_server.flows.screening.check import lists_problem
from florin_server.rails.types import NodeState
from florin_server.store.settlement import chain_txs


@dataclass(frozen=True, slots=True)
class GasStatus:
    """Units of gas that relayers lost in this hour, and the payments that stand because of it.

    `paused` wait for a budget, `given_up` are not sent any more.
    """

    failed: int
    opened: int
    paused_payers: int
    paused: int
    given_up: int


@dataclass(frozen=True, slots=True)
class Chain:
    """How one chain is doing; `problem` is empty when all is well."""

    chain_id: str
    head: int
    open_transactions: int
    relayer: str
    problem: str
    nodes: Sequence[NodeState]
    gas: GasStatus


async def chains(app: App) -> list[Chain]:
    """Every enabled chain."""
    found = []
    misdirected = await own_accounts.misdirected(app.rails.values(), app.store.survey)
    prices = app.prices.problems(app.clock.now_us())
    for chain_id, rail in app.rails.items():
        health = app.settlers[chain_id].health()
        found_wrong = [
            *await rail.problems(),
            rail.nodes.disagreement,
            app.payout_workers[chain_id].health().problem if chain_id in app.payout_workers else "",
            await payouts.problems(app, chain_id),
            await held_money.problem(app, chain_id),
            app.chains[chain_id].lacking,
            *(told for place, told in misdirected if place.chain_id == chain_id),
            *(
                f"{asset} has no price in {currency}: {why}"
                for (asset, currency), why in prices.items()
                if asset in rail.assets
            ),
        ]
        problems = [health.problem, *(text for text in found_wrong if text not in health.problem)]
        found.append(
            Chain(
                chain_id=chain_id,
                head=health.head,
                open_transactions=health.open_transactions,
                relayer=", ".join(rail.senders),
                problem="; ".join(text for text in problems if text),
                nodes=rail.nodes.states(),
                gas=await _gas(app, chain_id, health),
            )
        )
    return found


async def _gas(app: App, chain_id: str, health: Health) -> GasStatus:
    used = await gas_budgets.usage(app, chain_id)
    return GasStatus(used.failed, used.opened, len(used.payers), health.paused, health.given_up)


async def processing(app: App) -> int:
    """How many payments wait for evidence."""
    return await app.store.read(chain_txs.count_unsettled())


async def held_payments(app: App) -> int:
    """How many payments of blocked payers wait for the operator's verdict."""
    return await held_money.waiting(app)


async def screening(app: App) -> str:
    """What is wrong with the screening lists; empty if nothing."""
    return await app.store.read(lists_problem(app.settings, app.clock.now_us()))
