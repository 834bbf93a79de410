"""`florin chain list`: the current state of each chain, its assets and its nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from florin_server.app.chains import connected, finality_rules, prices
from florin_server.app.chains.keys import ChainKeyring
from florin_server.app.chains.setup import read_secrets
from florin_server.app.home import SetupError, StateFolder
from florin_server.cli.chains.paces import read_paces
from florin_server.cli.console import (
    console,
    fail,
    print_hint,
    print_json,
    print_table,
    show_progress,
)
from florin_server.cli.settings import get_settings
from florin_server.features.monitoring.service.health import list_node_faults
from florin_server.features.monitoring.service.paces import StoredPace
from florin_server.rails.networks import chain_files
from florin_server.rails.networks.chain_files import AnyChainSettings
from florin_server.rails.types import NodeState
from florin_server.settings import Settings

_COLUMNS = ("Chain", "Data", "State", "Pace", "Takes", "Relayer", "Name")
_ASSET_COLUMNS = ("Asset", "Symbol", "Taken")
_NODE_COLUMNS = ("Chain", "Head", "Behind", "Answers in", "Node", "State")


@dataclass(frozen=True, slots=True)
class _ChainReport:
    """A chain with its assets (CAIP-19 ids), nodes and problems."""

    row: tuple[str, ...]
    assets: tuple[tuple[str, ...], ...]
    nodes: tuple[tuple[str, ...], ...]
    problems: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {
            **_to_members(_COLUMNS, self.row),
            "assets": [_to_members(_ASSET_COLUMNS, asset) for asset in self.assets],
            "nodes": [_to_members(_NODE_COLUMNS[1:], node[1:]) for node in self.nodes],
            "problems": self.problems,
        }


def _to_members(columns: tuple[str, ...], row: tuple[str, ...]) -> dict[str, str]:
    names = [column.lower().replace(" ", "_") for column in columns]
    return dict(zip(names, row, strict=True))


def list_chains(overrides: dict[str, Any]) -> None:
    """Print all chains, assets and nodes; print the problems of chains on stderr."""
    settings = get_settings(overrides)
    try:
        with show_progress("Reading from the nodes"):
            seen = asyncio.run(_read_chain_reports(settings))
    except (SetupError, OSError) as error:
        fail("Not done", error)
    notes = [*prices.list_all_unpriced(settings)]
    notes += finality_rules.list_larger_amounts(settings.chains)
    if print_json(
        {"chains": [each_chain_report.to_json() for each_chain_report in seen], "notes": notes}
    ):
        return
    print_table(_COLUMNS, [each_chain_report.row for each_chain_report in seen])
    assets = [asset for each_chain_report in seen for asset in each_chain_report.assets]
    nodes = [node for each_chain_report in seen for node in each_chain_report.nodes]
    for columns, rows in ((_ASSET_COLUMNS, assets), (_NODE_COLUMNS, nodes)):
        if rows:
            console.print()
            print_table(columns, rows)
    for chain_report in seen:
        for problem in chain_report.problems:
            print_hint(problem)
    for one_note in notes:
        print_hint(one_note)


async def _read_chain_reports(settings: Settings) -> list[_ChainReport]:
    keys = ChainKeyring(
        settings, await read_secrets(settings, StateFolder(settings.home).require_existing())
    )
    written = [chain.caip2 for chain in chain_files.read_all(settings.home).values()]
    configured: tuple[AnyChainSettings, ...] = (*settings.chains, *settings.solana_chains)
    paces = await asyncio.to_thread(read_paces, settings)
    return list(
        await asyncio.gather(
            *(
                _read_chain_report(
                    chain, keys, paces.get(chain.caip2), is_added=chain.caip2 in written
                )
                for chain in configured
            )
        )
    )


async def _read_chain_report(
    chain: AnyChainSettings, keys: ChainKeyring, pace: StoredPace | None, *, is_added: bool
) -> _ChainReport:
    relayer, takes = "-", "-"
    taken: Collection[str] = ()
    nodes: tuple[tuple[str, ...], ...] = ()
    try:
        rail = connected.build_rail(chain, keys)
    except SetupError as error:
        problems: tuple[str, ...] = (str(error),)
    else:
        relayer = " ".join(rail.senders)
        try:
            problems = await list_node_faults(rail)
        finally:
            nodes = tuple(_to_node_row(chain.caip2, node) for node in rail.nodes.list_states())
            await rail.close()
        taken = rail.assets.keys()
        takes = " ".join(sorted(asset.symbol for asset in rail.assets.values())) or "-"
    name = chain.name if is_added else f"{chain.name} (from the settings)"
    state = "ok" if not problems else f"{len(problems)} wrong"
    data = "live" if chain.live else "test"
    assets = tuple(
        (asset, symbol, "yes" if asset in taken else "no")
        for asset, symbol in chain.asset_ids.items()
    )
    row = chain.caip2, data, state, pace.text if pace else "-", takes, relayer, name
    return _ChainReport(row, assets, nodes, problems)


def _to_node_row(chain_id: str, node: NodeState) -> tuple[str, ...]:
    latency = f"{node.latency_ms:.0f} ms"
    return chain_id, str(node.head), str(node.lag), latency, node.name, node.problem or "ok"
