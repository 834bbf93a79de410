"""`florin versions`: the versions of the API and who is pinned to which."""

from __future__ import annotations

from typing import Any

from florin.v1 import partner_pb2

from florin_server.cli.console import console, table
from florin_server.cli.operation import ask, ask_all, misused, mode
from florin_server.domain.versions import PUBLISHED, STABLE

_VERSION_COLUMNS = ("Version", "Kind")
_PIN_COLUMNS = ("Account", "Id", "Mode", "Version", "Name")


def show(given: dict[str, Any]) -> None:
    """Prints the published versions, and every account that has a pin."""
    partners, wallets, keys = ask_all(
        given,
        ("ListPartners", partner_pb2.ListPartnersRequest()),
        ("ListWallets", partner_pb2.ListWalletsRequest()),
        ("ListApiKeys", partner_pb2.ListApiKeysRequest()),
    )
    table(
        _VERSION_COLUMNS,
        ((one, "stable" if one in STABLE else "preview") for one in PUBLISHED),
    )
    console.print()
    rows = [("partner", one.id, "-", one.version_pin, one.name) for one in partners.partners]
    rows += [
        ("wallet", one.app_id, mode(live=one.live), one.version_pin, one.name)
        for one in wallets.wallets
        if not one.HasField("revoked_at")
    ]
    rows += [
        ("key", one.key_id, mode(live=one.live), one.version_pin, "-")
        for one in keys.keys
        if one.version_pin and not one.HasField("revoked_at")
    ]
    table(_PIN_COLUMNS, rows)


def pin(given: dict[str, Any], version: str, *, partner: str, wallet: str, key: str) -> None:
    """Moves the pin of one account forward."""
    named = [account for account in (partner, wallet, key) if account]
    if len(named) != 1:
        misused("one of --partner ID, --wallet APP_ID and --key KEY_ID says whose pin; see list")
    request = partner_pb2.SetApiVersionRequest(
        partner_id=partner, app_id=wallet, key_id=key, version=version
    )
    done = ask(given, "SetApiVersion", request)
    console.print(f"{named[0]} is pinned to {done.version_pin}.")
