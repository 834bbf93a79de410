"""`florin chain list`: every chain as its nodes tell it now, its assets, and each node."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from florin_server.boot.chains import connected, finality_rules, prices
from florin_server.boot.chains.keys import Keyring
from florin_server.boot.chains.setup import own_secrets
from florin_server.boot.home import Home, Refused
from florin_server.cli.chains.paces import read_paces
from florin_server.cli.console import console, fail, note, table, told, working
from florin_server.cli.settings import settings_of
from florin_server.config import Settings
from florin_server.flows.operator.health import faults
from florin_server.flows.operator.paces import KnownPace
from florin_server.rails.networks import chain_files
from florin_server.rails.networks.chain_files import Chain
from florin_server.rails.types import NodeState

_COLUMNS = ("Chain", "Data", "State", "Pace", "Takes", "Relayer", "Name")
_ASSET_COLUMNS = ("Asset", "Symbol", "Taken")
_NODE_COLUMNS = ("Chain", "Head", "Behind", "Answers in", "Node", "State")


@dataclass(frozen=True, slots=True)
class _Seen:
    """A chain, its assets by their CAIP-19 ids, its nodes, and what is wrong with it."""

    row: tuple[str, ...]
    assets: tuple[tuple[str, ...], ...]
    nodes: tuple[tuple[str, ...], ...]
    problems: tuple[str, ...]

    def told(self) -> dict[str, Any]:
        """As programs read it."""
        return {
            **_named(_COLUMNS, self.row),
            "assets": [_named(_ASSET_COLUMNS, one) for one in self.assets],
            "nodes": [_named(_NODE_COLUMNS[1:], one[1:]) for one in self.nodes],
            "problems": self.problems,
        }


def _named(columns: tuple[str, ...], row: tuple[str, ...]) -> dict[str, str]:
    names = [one.lower().replace(" ", "_") for one in columns]
    return dict(zip(names, row, strict=True))


def run(given: dict[str, Any]) -> None:
    """Prints all chains, assets and nodes, and on stderr what is wrong with the chains."""
    settings = settings_of(given)
    try:
        with working("Asking the nodes"):
            seen = asyncio.run(_look(settings))
    except (Refused, OSError) as error:
        fail("Not done", error)
    notes = [*prices.unpriced_everywhere(settings)]
    notes += finality_rules.list_larger_amounts(settings.chains)
    if told({"chains": [one.told() for one in seen], "notes": notes}):
        return
    table(_COLUMNS, [one.row for one in seen])
    assets = [asset for one in seen for asset in one.assets]
    nodes = [node for one in seen for node in one.nodes]
    for columns, rows in ((_ASSET_COLUMNS, assets), (_NODE_COLUMNS, nodes)):
        if rows:
            console.print()
            table(columns, rows)
    for one in seen:
        for problem in one.problems:
            note(problem)
    for one_note in notes:
        note(one_note)


async def _look(settings: Settings) -> list[_Seen]:
    keys = Keyring(settings, await own_secrets(settings, Home(settings.home).require()))
    written = [chain.caip2 for chain in chain_files.read_all(settings.home).values()]
    configured: tuple[Chain, ...] = (*settings.chains, *settings.solana_chains)
    paces = await asyncio.to_thread(read_paces, settings)
    return list(
        await asyncio.gather(
            *(
                _seen(chain, keys, paces.get(chain.caip2), added=chain.caip2 in written)
                for chain in configured
            )
        )
    )


async def _seen(chain: Chain, keys: Keyring, pace: KnownPace | None, *, added: bool) -> _Seen:
    relayer, takes = "-", "-"
    taken: Collection[str] = ()
    nodes: tuple[tuple[str, ...], ...] = ()
    try:
        rail = connected.rail_of(chain, keys)
    except Refused as error:
        problems: tuple[str, ...] = (str(error),)
    else:
        relayer = " ".join(rail.senders)
        try:
            problems = await faults(rail)
        finally:
            nodes = tuple(_node(chain.caip2, node) for node in rail.nodes.states())
            await rail.close()
        taken = rail.assets.keys()
        takes = " ".join(sorted(one.symbol for one in rail.assets.values())) or "-"
    name = chain.name if added else f"{chain.name} (from the settings)"
    state = "ok" if not problems else f"{len(problems)} wrong"
    data = "live" if chain.live else "test"
    assets = tuple(
        (asset, symbol, "yes" if asset in taken else "no")
        for asset, symbol in chain.asset_ids.items()
    )
    row = chain.caip2, data, state, pace.text if pace else "-", takes, relayer, name
    return _Seen(row, assets, nodes, problems)


def _node(chain_id: str, node: NodeState) -> tuple[str, ...]:
    latency = f"{node.latency_ms:.0f} ms"
    return chain_id, str(node.head), str(node.lag), latency, node.name, node.problem or "ok"
