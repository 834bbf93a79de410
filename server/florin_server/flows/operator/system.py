"""How the installation is doing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from florin_server.domain.conditions import USUAL, Condition
from florin_server.domain.health import Health, describe
from florin_server.flows.accounts import own_accounts
from florin_server.flows.app import App
from florin_server.flows.limits import gas_budgets
from florin_server.flows.operator import health
from florin_server.flows.payouts import held_money
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
    """How one chain is doing; `problem` tells to people what is wrong, empty if nothing is.

    That another process works there is no problem.

    `open_payments`, `remembered_events` and `turns` are its settler's.
    """

    chain_id: str
    head: int
    open_transactions: int
    relayer: str
    problem: str
    conditions: Sequence[Condition]
    nodes: Sequence[NodeState]
    gas: GasStatus
    open_payments: int
    remembered_events: int
    turns: int


async def chains(app: App) -> list[Chain]:
    """Every enabled chain."""
    found = []
    misdirected = await own_accounts.misdirected(app.rails.values(), app.store.survey)
    prices = app.prices.problems(app.clock.now_us())
    for chain_id, rail in app.rails.items():
        others = await health.of_chain(app, rail, misdirected, prices)
        settling = app.settlers[chain_id].health()
        payouts = app.payout_workers.get(chain_id)
        paying = payouts.health().conditions if payouts is not None else ()
        conditions = health.in_order([*settling.conditions, *others, *paying])
        found.append(
            Chain(
                chain_id=chain_id,
                head=settling.head,
                open_transactions=settling.open_transactions,
                relayer=", ".join(rail.senders),
                problem=describe(one for one in conditions if one.name not in USUAL),
                conditions=conditions,
                nodes=rail.nodes.states(),
                gas=await _gas(app, chain_id, settling),
                open_payments=settling.open_payments,
                remembered_events=settling.remembered_events,
                turns=settling.turns,
            )
        )
    return found


async def _gas(app: App, chain_id: str, settling: Health) -> GasStatus:
    used = await gas_budgets.usage(app, chain_id)
    return GasStatus(used.failed, used.opened, len(used.payers), settling.paused, settling.given_up)


async def processing(app: App) -> int:
    """How many payments wait for evidence."""
    return await app.store.read(chain_txs.count_unsettled())


async def held_payments(app: App) -> int:
    """How many payments of blocked payers wait for the operator's verdict."""
    return await held_money.waiting(app)
