"""`florin versions`: the versions of the API, and the pins of accounts."""

from __future__ import annotations

from typing import Any

from florin.v1 import partner_pb2

from florin_server.cli.console import console, print_json, print_table
from florin_server.cli.operation import (
    call_operator,
    call_operator_all,
    format_mode,
    usage_error,
)
from florin_server.domain.versions import PUBLISHED_VERSIONS, STABLE_VERSIONS

_VERSION_COLUMNS = ("Version", "Kind")
_PIN_COLUMNS = ("Account", "Id", "Mode", "Version", "Name")
_PIN_FIELDS = ("account", "id", "mode", "version", "name")


def list_versions(overrides: dict[str, Any]) -> None:
    """Print the published versions, and all accounts with a pin."""
    partners, wallets, keys = call_operator_all(
        overrides,
        ("ListPartners", partner_pb2.ListPartnersRequest()),
        ("ListWallets", partner_pb2.ListWalletsRequest()),
        ("ListApiKeys", partner_pb2.ListApiKeysRequest()),
    )
    kinds = {
        version: "stable" if version in STABLE_VERSIONS else "preview"
        for version in PUBLISHED_VERSIONS
    }
    rows = [
        ("partner", partner.id, "-", partner.version_pin, partner.name)
        for partner in partners.partners
    ]
    rows += [
        ("wallet", wallet.app_id, format_mode(live=wallet.live), wallet.version_pin, wallet.name)
        for wallet in wallets.wallets
        if not wallet.HasField("revoked_at")
    ]
    rows += [
        ("key", key.key_id, format_mode(live=key.live), key.version_pin, "-")
        for key in keys.keys
        if key.version_pin and not key.HasField("revoked_at")
    ]
    document = {
        "versions": [{"version": version, "kind": kind} for version, kind in kinds.items()],
        "pins": [dict(zip(_PIN_FIELDS, row, strict=True)) for row in rows],
    }
    if not print_json(document):
        print_table(_VERSION_COLUMNS, kinds.items())
        console.print()
        print_table(_PIN_COLUMNS, rows)


def move_pin(
    overrides: dict[str, Any], version: str, *, partner: str, wallet: str, key: str
) -> None:
    """Move the pin of one account forward."""
    named = [account for account in (partner, wallet, key) if account]
    if len(named) != 1:
        usage_error(
            "name one account: --partner ID, --wallet APP_ID or --key KEY_ID "
            "(`florin versions list` shows them)"
        )
    request = partner_pb2.SetApiVersionRequest(
        partner_id=partner, app_id=wallet, key_id=key, version=version
    )
    done = call_operator(overrides, "SetApiVersion", request)
    if not print_json({"id": named[0], "version": done.version_pin}):
        console.print(f"{named[0]} is pinned to {done.version_pin}.")
