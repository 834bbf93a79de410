"""`florin chain remove`: remove a chain that `florin chain add` wrote."""

from __future__ import annotations

import asyncio
from typing import Any

from florin_server.app import stores
from florin_server.app.chains.setup import get_chain
from florin_server.app.home import SetupError, StateFolder
from florin_server.cli.console import (
    console,
    fail,
    print_hint,
    print_json,
)
from florin_server.cli.settings import get_settings
from florin_server.db.engine.query import StoreError
from florin_server.money.payments.store.in_flight import InFlightCounts, count_in_flight
from florin_server.rails.networks import chain_files
from florin_server.settings import Settings


def remove_chain(overrides: dict[str, Any], name: str, *, force: bool) -> None:
    """Remove the file of a chain; end the program if the chain has open payments."""
    try:
        asyncio.run(_remove(get_settings(overrides), name, force=force))
    except (SetupError, StoreError, OSError) as error:
        fail("Not removed", error)


async def _remove(settings: Settings, name: str, *, force: bool) -> None:
    chain = get_chain(settings, name)
    paths = [
        path
        for path, each_chain in chain_files.read_all(settings.home).items()
        if each_chain.caip2 == chain.caip2
    ]
    if not paths:
        raise SetupError(f"{chain.name} is in your settings: remove it there")
    home = StateFolder(settings.home).open()
    if home.find_addresses() is not None:
        raise SetupError(f"Florin runs and uses {chain.name}: stop Florin first")
    store = await stores.open_configured_store(settings)
    try:
        counts = await store.read(count_in_flight(chain.caip2))
    finally:
        await store.close()
    if (open_ := _format_in_flight(counts)) and not force:
        raise SetupError(f"{chain.name} has {open_}: use --force to remove it anyway")
    for path in paths:
        path.unlink()
    print_json({"chain": chain.caip2, "removed": True})
    console.print(f"{chain.name} is removed.")
    keystores = [*chain.relayer_keystores, *filter(None, (chain.treasury_keystore,))]
    if keystores:
        keystore_paths = ", ".join(map(str, keystores))
        print_hint(
            f"Its keystores, which control the money of their accounts, stay: {keystore_paths}"
        )


def _format_in_flight(in_flight: InFlightCounts) -> str:
    parts = {
        "confirmed payments without an outcome": in_flight.confirmed_payments,
        "payments that buyers can still pay": in_flight.offered_payments,
        "pending transactions": in_flight.transactions,
        "unpaid payouts": in_flight.payouts,
        "held payments of blocked payers": in_flight.held_money,
    }
    return ", ".join(f"{count} {what}" for what, count in parts.items() if count)
