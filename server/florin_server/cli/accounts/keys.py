"""`florin keys`: API keys, of a running service or of a stopped one."""

from __future__ import annotations

from typing import Any

from florin.v1 import access_pb2, partner_pb2

from florin_server.cli.console import console, note, table
from florin_server.cli.operation import ask, minute, misused, mode

_COLUMNS = ("Key id", "Kind", "Mode", "Partner", "Ends in", "Scopes", "Revoked")
_KINDS = {
    "partner": partner_pb2.API_KEY_KIND_PARTNER,
    "wallet": partner_pb2.API_KEY_KIND_WALLET,
}


def create(given: dict[str, Any], kind: str, partner: str, *, live: bool) -> None:
    """Makes a key and prints its secret."""
    if kind not in _KINDS:
        misused("the kind is partner or wallet")
    if (kind == "partner") is not bool(partner):
        misused("a partner key needs --partner ID, a wallet key none; see partners list")
    request = partner_pb2.CreateApiKeyRequest(kind=_KINDS[kind], partner_id=partner, live=live)
    made = ask(given, "CreateApiKey", request)
    console.print(made.secret)
    note(f"Key id {made.key.key_id}. The secret is not shown again.")


def show(given: dict[str, Any], partner: str) -> None:
    """Prints all keys."""
    found = ask(given, "ListApiKeys", partner_pb2.ListApiKeysRequest(partner_id=partner))
    table(_COLUMNS, map(_row, found.keys))


def _row(key: partner_pb2.ApiKey) -> tuple[str, ...]:
    scopes = [access_pb2.KeyScope.Name(s).removeprefix("KEY_SCOPE_").lower() for s in key.scopes]
    return (
        key.key_id,
        partner_pb2.ApiKeyKind.Name(key.kind).removeprefix("API_KEY_KIND_").lower(),
        mode(live=key.live),
        key.partner_id or "-",
        key.last4,
        ",".join(scopes),
        minute(key, "revoked_at"),
    )


def revoke(given: dict[str, Any], key_id: str) -> None:
    """Revokes a key."""
    done = ask(given, "RevokeApiKey", partner_pb2.RevokeApiKeyRequest(key_id=key_id))
    console.print(f"{done.key.key_id} is revoked.")
