"""`florin chain remove`: forgets a chain that `florin chain add` wrote down."""

from __future__ import annotations

import asyncio
from typing import Any

from florin_server.boot import stores
from florin_server.boot.chains.setup import named
from florin_server.boot.home import Home, Refused
from florin_server.cli.console import console, fail, note, told
from florin_server.cli.settings import settings_of
from florin_server.config import Settings
from florin_server.rails.networks import chain_files
from florin_server.store.engine.query import StoreError
from florin_server.store.payments.in_flight import InFlight, in_flight


def run(given: dict[str, Any], name: str, *, force: bool) -> None:
    """Removes a chain's file; ends the program if payments on it are open."""
    try:
        asyncio.run(_run(settings_of(given), name, force=force))
    except (Refused, StoreError, OSError) as error:
        fail("Not removed", error)


async def _run(settings: Settings, name: str, *, force: bool) -> None:
    chain = named(settings, name)
    paths = [
        path
        for path, one in chain_files.read_all(settings.home).items()
        if one.caip2 == chain.caip2
    ]
    if not paths:
        raise Refused(f"{chain.name} is named in your settings: take it out there")
    home = Home(settings.home).open()
    if home.addresses() is not None:
        raise Refused("Florin runs and serves the chain: stop it first")
    store = await stores.opened(settings)
    try:
        found = await store.read(in_flight(chain.caip2))
    finally:
        await store.close()
    if (open_ := _summary(found)) and not force:
        raise Refused(f"{chain.name} has {open_}; --force forgets them")
    for path in paths:
        path.unlink()
    told({"chain": chain.caip2, "removed": True})
    console.print(f"{chain.name} is removed.")
    keystores = [*chain.relayer_keystores, *filter(None, (chain.treasury_keystore,))]
    if keystores:
        kept = ", ".join(map(str, keystores))
        note(f"Its keys stay where they are, with what their accounts hold: {kept}")


def _summary(found: InFlight) -> str:
    parts = {
        "confirmed payments without an end": found.confirmed,
        "payments that a buyer may still make": found.offered,
        "transactions on their way": found.transactions,
        "payouts that are owed": found.payouts,
        "payments of blocked payers whose money is held": found.held,
    }
    return ", ".join(f"{count} {what}" for what, count in parts.items() if count)
