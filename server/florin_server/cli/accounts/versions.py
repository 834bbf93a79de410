"""`florin versions`: the versions of the API and who is pinned to which."""

from __future__ import annotations

from typing import Any

from florin.v1 import partner_pb2

from florin_server.cli.console import console, table, told
from florin_server.cli.operation import ask, ask_all, misused, mode
from florin_server.domain.versions import PUBLISHED, STABLE

_VERSION_COLUMNS = ("Version", "Kind")
_PIN_COLUMNS = ("Account", "Id", "Mode", "Version", "Name")
_PIN_MEMBERS = ("account", "id", "mode", "version", "name")


def show(given: dict[str, Any]) -> None:
    """Prints the published versions, and every account that has a pin."""
    partners, wallets, keys = ask_all(
        given,
        ("ListPartners", partner_pb2.ListPartnersRequest()),
        ("ListWallets", partner_pb2.ListWalletsRequest()),
        ("ListApiKeys", partner_pb2.ListApiKeysRequest()),
    )
    kinds = {one: "stable" if one in STABLE else "preview" for one in PUBLISHED}
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
    document = {
        "versions": [{"version": one, "kind": kind} for one, kind in kinds.items()],
        "pins": [dict(zip(_PIN_MEMBERS, row, strict=True)) for row in rows],
    }
    if not told(document):
        table(_VERSION_COLUMNS, kinds.items())
        console.print()
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
    if not told({"id": named[0], "version": done.version_pin}):
        console.print(f"{named[0]} is pinned to {done.version_pin}.")
