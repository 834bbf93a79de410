"""`florin keys`: API keys, of a running service or of a stopped one."""

from __future__ import annotations

import asyncio
from typing import Any

from florin.v1 import access_pb2, admin_pb2
from google.protobuf.message import Message

from florin_server.boot.home import Refused
from florin_server.boot.operator import OperatorError, operator
from florin_server.cli.console import console, fail, note, settings_of

_COLUMNS = ("Key id", "Kind", "Mode", "Partner", "Ends in", "Scopes", "Revoked")
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
    except (OperatorError, Refused, OSError) as error:
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
    rows = [_COLUMNS, *(_row(key) for key in found.keys)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    # whole ids, however narrow the terminal: they are there to be copied
    for row in rows:
        line = "  ".join(map(str.ljust, row, widths))
        console.print(line.rstrip(), markup=False)


def _row(key: admin_pb2.ApiKey) -> tuple[str, ...]:
    kind = admin_pb2.ApiKeyKind.Name(key.kind).removeprefix("API_KEY_KIND_").lower()
    mode = "live" if key.live else "test"
    scopes = [access_pb2.KeyScope.Name(s).removeprefix("KEY_SCOPE_").lower() for s in key.scopes]
    revoked = key.revoked_at.ToDatetime()
    return (
        key.key_id,
        kind,
        mode,
        key.partner_id or "-",
        key.last4,
        ",".join(scopes),
        f"{revoked:%Y-%m-%dT%H:%MZ}" if key.HasField("revoked_at") else "-",
    )


def revoke(given: dict[str, Any], key_id: str) -> None:
    """Revokes a key."""
    done = _ask(given, "RevokeApiKey", admin_pb2.RevokeApiKeyRequest(key_id=key_id))
    console.print(f"{done.key.key_id} is revoked.")
