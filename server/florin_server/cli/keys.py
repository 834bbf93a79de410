"""`florin keys`: API keys, of a running service or of a stopped one."""

from __future__ import annotations

import asyncio
from typing import Any

from florin.v1 import access_pb2, admin_pb2
from google.protobuf.message import Message
from rich.table import Table

from florin_server.boot.home import Refused
from florin_server.boot.operator import OperatorError, operator
from florin_server.cli.console import console, fail, note, settings_of
from florin_server.store.query import StoreError

_WIDE = 200
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
    except (OperatorError, Refused, StoreError, OSError) as error:
        fail("Not done", error)


def create(given: dict[str, Any], kind: str, partner: str, *, live: bool) -> None:
    """Makes a key and prints its secret."""
    if kind not in _KINDS:
        fail("Not done", "the kind is partner or wallet", 2)
    if (kind == "partner") is not bool(partner):
        fail("Not done", "a partner key needs --partner ID, a wallet key none; see keys list", 2)
    request = admin_pb2.CreateApiKeyRequest(kind=_KINDS[kind], partner_id=partner, live=live)
    made = _ask(given, "CreateApiKey", request)
    console.print(made.secret)
    note(f"Key id {made.key.key_id}. The secret is not shown again.")


def show(given: dict[str, Any], partner: str) -> None:
    """Prints all keys."""
    found = _ask(given, "ListApiKeys", admin_pb2.ListApiKeysRequest(partner_id=partner))
    table = Table("Key id", "Kind", "Mode", "Partner", "Ends in", "Scopes", "Revoked", box=None)
    for key in found.keys:
        kind = admin_pb2.ApiKeyKind.Name(key.kind).removeprefix("API_KEY_KIND_").lower()
        scopes = [
            access_pb2.KeyScope.Name(s).removeprefix("KEY_SCOPE_").lower() for s in key.scopes
        ]
        revoked = (
            f"{key.revoked_at.ToDatetime():%Y-%m-%d %H:%M}Z" if key.HasField("revoked_at") else ""
        )
        mode = "live" if key.live else "test"
        table.add_row(key.key_id, kind, mode, key.partner_id, key.last4, " ".join(scopes), revoked)
    # whole ids, however narrow the terminal: they are there to be copied
    console.print(table, width=_WIDE)


def revoke(given: dict[str, Any], key_id: str) -> None:
    """Revokes a key."""
    done = _ask(given, "RevokeApiKey", admin_pb2.RevokeApiKeyRequest(key_id=key_id))
    console.print(f"{done.key.key_id} is revoked.")
