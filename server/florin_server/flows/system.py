"""How the installation is doing."""

from __future__ import annotations

from dataclasses import dataclass

from florin_server.flows import payouts
from florin_server.flows.app import App
from florin_server.flows.screen import lists_problem
from florin_server.store import journal


@dataclass(frozen=True, slots=True)
class Chain:
    """How one chain is doing; `problem` is empty when all is well."""

    chain_id: str
    head: int
    open_transactions: int
    relayer: str
    problem: str


async def chains(app: App) -> list[Chain]:
    """Every enabled chain."""
    found = []
    for chain_id, rail in app.rails.items():
        health = app.settlers[chain_id].health()
        more = [text for text in await rail.problems() if text not in health.problem]
        problems = [
            health.problem,
            *more,
            app.payers[chain_id].health().problem if chain_id in app.payers else "",
            await payouts.problems(app, chain_id),
            app.missing.get(chain_id, ""),
        ]
        problem = "; ".join(text for text in problems if text)
        relayer = ", ".join(rail.senders)
        found.append(Chain(chain_id, health.head, health.open_transactions, relayer, problem))
    return found


async def processing(app: App) -> int:
    """How many payments wait for evidence."""
    return await app.store.read(journal.count_unsettled())


async def screening(app: App) -> str:
    """What is wrong with the screening lists; empty if nothing."""
    return await app.store.read(lists_problem(app.settings, app.clock.now_us()))
