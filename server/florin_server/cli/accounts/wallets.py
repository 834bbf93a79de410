"""`florin wallets`: wallets that name themselves by a public app id."""

from __future__ import annotations

from typing import Any

from florin.v1 import partner_pb2

from florin_server.cli.console import console, note, table, told
from florin_server.cli.operation import ask, minute, mode

_COLUMNS = ("App id", "Mode", "Version", "Created", "Revoked", "Name")


def register(given: dict[str, Any], name: str, icon_url: str | None, *, live: bool) -> None:
    """Registers a wallet and prints its app id."""
    request = partner_pb2.RegisterWalletRequest(name=name, icon_url=icon_url, live=live)
    made = ask(given, "RegisterWallet", request)
    if told(made):
        return
    console.print(made.app_id)
    note("The wallet sends it as App-Id, and a Client-Id of its own choice for each installation.")


def show(given: dict[str, Any]) -> None:
    """Prints all wallets."""
    found = ask(given, "ListWallets", partner_pb2.ListWalletsRequest())
    if not told(found):
        table(_COLUMNS, map(_row, found.wallets))


def _row(wallet: partner_pb2.Wallet) -> tuple[str, ...]:
    return (
        wallet.app_id,
        mode(live=wallet.live),
        wallet.version_pin,
        minute(wallet, "created_at"),
        minute(wallet, "revoked_at"),
        wallet.name,
    )


def revoke(given: dict[str, Any], app_id: str) -> None:
    """Revokes a wallet."""
    done = ask(given, "RevokeWallet", partner_pb2.RevokeWalletRequest(app_id=app_id))
    if not told(done):
        console.print(f"{done.app_id} is revoked.")
