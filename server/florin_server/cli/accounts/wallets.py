"""`florin wallets`: wallets that identify themselves with a public app id."""

from __future__ import annotations

from typing import Any

from florin.v1 import partner_pb2

from florin_server.cli.console import (
    console,
    print_hint,
    print_json,
    print_table,
)
from florin_server.cli.operation import call_operator, format_minute, format_mode

_COLUMNS = ("App id", "Mode", "Version", "Created", "Revoked", "Name")


def register_wallet(
    overrides: dict[str, Any], name: str, icon_url: str | None, *, live: bool
) -> None:
    """Register a wallet, and print its app id."""
    request = partner_pb2.RegisterWalletRequest(name=name, icon_url=icon_url, live=live)
    created = call_operator(overrides, "RegisterWallet", request)
    if print_json(created):
        return
    console.print(created.app_id)
    print_hint(
        "The wallet sends it as App-Id, and its own Client-Id for each installation of the wallet."
    )


def list_wallets(overrides: dict[str, Any]) -> None:
    """Print all wallets."""
    result = call_operator(overrides, "ListWallets", partner_pb2.ListWalletsRequest())
    if not print_json(result):
        print_table(_COLUMNS, map(_to_row, result.wallets))


def _to_row(wallet: partner_pb2.Wallet) -> tuple[str, ...]:
    return (
        wallet.app_id,
        format_mode(live=wallet.live),
        wallet.version_pin,
        format_minute(wallet, "created_at"),
        format_minute(wallet, "revoked_at"),
        wallet.name,
    )


def revoke_wallet(overrides: dict[str, Any], app_id: str) -> None:
    """Revoke a wallet."""
    done = call_operator(overrides, "RevokeWallet", partner_pb2.RevokeWalletRequest(app_id=app_id))
    if not print_json(done):
        console.print(f"{done.app_id} is revoked.")
