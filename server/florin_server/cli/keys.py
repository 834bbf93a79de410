"""`florin keys`: API keys, of a running service or of a stopped one."""

from __future__ import annotations

import asyncio
from typing import Any

from florin.v1 import access_pb2, admin_pb2
from google.protobuf.message import Message
from rich.console import Console
from rich.table import Column, Table

from florin_server.boot.operator import OperatorError, operator
from florin_server.cli.up import settings_of
from florin_server.store.sqlite import StoreLocked

console = Console(highlight=False)

_KINDS = {
    "partner": admin_pb2.API_KEY_KIND_PARTNER,
    "wallet": admin_pb2.API_KEY_KIND_WALLET,
}


def _ask(given: dict[str, Any], method: str, request: Message) -> Any:
    async def ask() -> Any:
        async with operator(settings_of(given)) as service:
            return await service.ask(method, request)

    try:
        return asyncio.run(ask())
    except (OperatorError, StoreLocked) as error:
        console.print(f"[red]{error}[/]")
        raise SystemExit(1) from error


def create(given: dict[str, Any], kind: str, partner: str, *, live: bool) -> None:
    """Makes a key and prints its secret."""
    if kind not in _KINDS:
        console.print("[red]The kind is partner or wallet.[/]")
        raise SystemExit(2)
    request = admin_pb2.CreateApiKeyRequest(kind=_KINDS[kind], partner_id=partner, live=live)
    made = _ask(given, "CreateApiKey", request)
    console.print(f"{made.secret}", soft_wrap=True)
    console.print(f"[dim]Key id {made.key.key_id}. The secret is not shown again.[/]")


def show(given: dict[str, Any], partner: str) -> None:
    """Prints all keys."""
    found = _ask(given, "ListApiKeys", admin_pb2.ListApiKeysRequest(partner_id=partner))
    partners = Column("Partner", no_wrap=True)
    table = Table("Key id", "Kind", "Mode", partners, "Ends in", "Scopes", "Revoked")
    for key in found.keys:
        kind = admin_pb2.ApiKeyKind.Name(key.kind).removeprefix("API_KEY_KIND_").lower()
        scopes = [
            access_pb2.KeyScope.Name(s).removeprefix("KEY_SCOPE_").lower() for s in key.scopes
        ]
        revoked = key.revoked_at.ToJsonString() if key.HasField("revoked_at") else ""
        mode = "live" if key.live else "test"
        table.add_row(key.key_id, kind, mode, key.partner_id, key.last4, " ".join(scopes), revoked)
    console.print(table)


def revoke(given: dict[str, Any], key_id: str) -> None:
    """Revokes a key."""
    done = _ask(given, "RevokeApiKey", admin_pb2.RevokeApiKeyRequest(key_id=key_id))
    console.print(f"{done.key.key_id} is revoked.")
