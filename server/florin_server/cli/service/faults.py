"""`florin faults`: what was armed on the embedded chains to go wrong, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from florin_server.boot.home import Home, Refused
from florin_server.cli.console import console, fail, table, told
from florin_server.cli.operation import misused
from florin_server.cli.settings import settings_of
from florin_server.config import Settings
from florin_server.rails.connection.jsonrpc import HttpTransport, JsonRpc, RpcError
from florin_server.rails.types import RailUnavailable

_COLUMNS = ("Chain", "Kind", "Told")
_MEMBERS = ("chain", "kind", "told")
# by the name of its address in running.json: a chain's name, and the kinds that last there
_CHAINS: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    "evm_rpc": ("EVM", frozenset({"answer", "mining", "revert", "lag"})),
    "solana_rpc": ("Solana", frozenset({"answer", "landing"})),
}


def show(given: dict[str, Any]) -> None:
    """Prints what is armed on the chains that run."""
    settings = settings_of(given)
    try:
        found = asyncio.run(armed(settings))
    except (RpcError, RailUnavailable) as error:
        fail("Not done", error)
    if found is None:
        _nothing_runs(settings)
    document = [dict(zip(_MEMBERS, one, strict=True)) for one in found]
    if not told({"faults": document}):
        table(_COLUMNS, found)


def clear(given: dict[str, Any], kind: str | None) -> None:
    """Ends what is armed, or one kind of it."""
    settings = settings_of(given)
    kinds = sorted(set().union(*(of_chain for _, of_chain in _CHAINS.values())))
    if kind is not None and kind not in kinds:
        misused(f"the kind is one of {', '.join(kinds)}")
    try:
        before = asyncio.run(armed(settings))
        if before is None:
            _nothing_runs(settings)
        asyncio.run(_clear(settings, kind))
        left = asyncio.run(armed(settings)) or []
    except (RpcError, RailUnavailable) as error:
        fail("Not done", error)
    if not told({"ended": len(before) - len(left), "left": len(left)}):
        console.print(f"{len(before) - len(left)} ended, {len(left)} left.")


async def armed(settings: Settings) -> list[tuple[str, str, str]] | None:
    """Chain, kind and details of what is armed; None if no embedded chain runs."""
    chains = _running(settings)
    if not chains:
        return None
    return [
        (_CHAINS[name][0], one["kind"], _details(one))
        for name, url in chains.items()
        for one in await _ask(url, {"kind": "list"})
    ]


async def _clear(settings: Settings, kind: str | None) -> None:
    for name, url in _running(settings).items():
        if kind is None:
            await _ask(url, {"kind": "clear"})
        elif kind in _CHAINS[name][1]:
            await _ask(url, {"kind": "clear", "only": kind})


def _running(settings: Settings) -> dict[str, str]:
    """Where the embedded chains of the installation answer; empty if none does."""
    addresses = Home(settings.home).addresses() or {}
    return {name: addresses[name] for name in _CHAINS if addresses.get(name)}


async def _ask(url: str, options: dict[str, str]) -> Any:
    rpc = JsonRpc(HttpTransport(url))
    try:
        return await rpc.call("florin_fault", options)
    finally:
        await rpc.close()


def _details(one: dict[str, Any]) -> str:
    told = (f"{name}={value}" for name, value in one.items() if name != "kind")
    return " ".join(told)


def _nothing_runs(settings: Settings) -> NoReturn:
    try:
        Home(settings.home).require()
    except Refused as error:
        fail("Not done", error)
    fail("Not done", f"no embedded chain runs with its state in {settings.home}")
