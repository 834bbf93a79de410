"""`florin faults`: list and clear the armed faults of the embedded chains."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from florin_server.app.home import SetupError, StateFolder
from florin_server.cli.console import (
    console,
    fail,
    print_json,
    print_table,
)
from florin_server.cli.operation import usage_error
from florin_server.cli.settings import get_settings
from florin_server.rails.connection.jsonrpc import HttpTransport, JsonRpcClient, RpcError
from florin_server.rails.types import RailUnavailable
from florin_server.settings import Settings

_COLUMNS = ("Chain", "Kind", "Detail")
_FIELDS = ("chain", "kind", "detail")
# by the name of the address in running.json: the chain's name, and the kinds of faults it has
_CHAINS: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    "evm_rpc": ("EVM", frozenset({"answer", "mining", "revert", "lag"})),
    "solana_rpc": ("Solana", frozenset({"answer", "landing"})),
}


def list_faults(overrides: dict[str, Any]) -> None:
    """Print the armed faults of the running chains."""
    settings = get_settings(overrides)
    try:
        faults = asyncio.run(find_armed_faults(settings))
    except (RpcError, RailUnavailable) as error:
        fail("Not done", error)
    if faults is None:
        _fail_not_running(settings)
    document = [dict(zip(_FIELDS, fault, strict=True)) for fault in faults]
    if not print_json({"faults": document}):
        print_table(_COLUMNS, faults)


def clear_faults(overrides: dict[str, Any], kind: str | None) -> None:
    """Clear all armed faults, or those of one kind."""
    settings = get_settings(overrides)
    kinds = sorted(set().union(*(of_chain for _, of_chain in _CHAINS.values())))
    if kind is not None and kind not in kinds:
        usage_error(f"unknown kind {kind[:80]!r}: use {', '.join(kinds)}")
    try:
        before = asyncio.run(find_armed_faults(settings))
        if before is None:
            _fail_not_running(settings)
        asyncio.run(_clear(settings, kind))
        left = asyncio.run(find_armed_faults(settings)) or []
    except (RpcError, RailUnavailable) as error:
        fail("Not done", error)
    if not print_json({"ended": len(before) - len(left), "left": len(left)}):
        console.print(f"Faults cleared: {len(before) - len(left)}, left: {len(left)}.")


async def find_armed_faults(settings: Settings) -> list[tuple[str, str, str]] | None:
    """Return chain, kind and details of each armed fault; None if no embedded chain runs."""
    chains = _find_chain_urls(settings)
    if not chains:
        return None
    return [
        (_CHAINS[name][0], fault["kind"], _format_details(fault))
        for name, url in chains.items()
        for fault in await _call_chain(url, {"kind": "list"})
    ]


async def _clear(settings: Settings, kind: str | None) -> None:
    for name, url in _find_chain_urls(settings).items():
        if kind is None:
            await _call_chain(url, {"kind": "clear"})
        elif kind in _CHAINS[name][1]:
            await _call_chain(url, {"kind": "clear", "only": kind})


def _find_chain_urls(settings: Settings) -> dict[str, str]:
    """Return the RPC URLs of the running embedded chains, by their name in running.json."""
    addresses = StateFolder(settings.home).find_addresses() or {}
    return {name: addresses[name] for name in _CHAINS if addresses.get(name)}


async def _call_chain(url: str, options: dict[str, str]) -> Any:
    rpc = JsonRpcClient(HttpTransport(url))
    try:
        return await rpc.call("florin_fault", options)
    finally:
        await rpc.close()


def _format_details(item: dict[str, Any]) -> str:
    details = (f"{name}={value}" for name, value in item.items() if name != "kind")
    return " ".join(details)


def _fail_not_running(settings: Settings) -> NoReturn:
    try:
        StateFolder(settings.home).require_existing()
    except SetupError as error:
        fail("Not done", error)
    fail("Not done", f"no embedded chain runs with its state in {settings.home}")
