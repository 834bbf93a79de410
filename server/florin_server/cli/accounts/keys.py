"""`florin keys`: API keys, of a running service or of a stopped one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from florin.v1 import access_pb2, partner_pb2

from florin_server.cli.console import console, note, table, told
from florin_server.cli.operation import ask, minute, misused, mode

_COLUMNS = ("Key id", "Kind", "Mode", "Partner", "Ends in", "Scopes", "Revoked", "Name")
_KINDS = {
    "partner": partner_pb2.API_KEY_KIND_PARTNER,
    "wallet": partner_pb2.API_KEY_KIND_WALLET,
}
_SCOPES = {
    access_pb2.KeyScope.Name(scope).removeprefix("KEY_SCOPE_").lower(): scope
    for scope in access_pb2.KeyScope.values()
    if scope
}


def create(
    given: dict[str, Any],
    kind: str,
    partner: str,
    name: str,
    scopes: Iterable[str],
    *,
    live: bool,
) -> None:
    """Makes a key and prints its secret."""
    if kind not in _KINDS:
        misused("the kind is partner or wallet")
    if (kind == "partner") is not bool(partner):
        misused("a partner key needs --partner ID, a wallet key none; see partners list")
    request = partner_pb2.CreateApiKeyRequest(
        kind=_KINDS[kind], partner_id=partner, live=live, name=name, scopes=_read(scopes)
    )
    made = ask(given, "CreateApiKey", request)
    if not told(made):
        console.print(made.secret)
        note(f"Key id {made.key.key_id}. The secret is not shown again.")


def show(given: dict[str, Any], partner: str) -> None:
    """Prints all keys."""
    found = ask(given, "ListApiKeys", partner_pb2.ListApiKeysRequest(partner_id=partner))
    if not told(found):
        table(_COLUMNS, map(_row, found.keys))


def change(given: dict[str, Any], key_id: str, name: str | None, scopes: Iterable[str]) -> None:
    """Changes the name of a key, or what it may do."""
    wanted = _read(scopes)
    if name is None and not wanted:
        misused("--name or --scope says what is to change")
    request = partner_pb2.UpdateApiKeyRequest(key_id=key_id, name=name, scopes=wanted)
    done = ask(given, "UpdateApiKey", request)
    if not told(done):
        console.print(f"{_title(done.key)} may {', '.join(_words(done.key))}.")


def revoke(given: dict[str, Any], key_id: str) -> None:
    """Revokes a key."""
    done = ask(given, "RevokeApiKey", partner_pb2.RevokeApiKeyRequest(key_id=key_id))
    if not told(done):
        console.print(f"{_title(done.key)} is revoked.")


def _read(scopes: Iterable[str]) -> list[access_pb2.KeyScope.ValueType]:
    # read,create is meant like --scope read --scope create
    names = [name for one in scopes for name in one.split(",")]
    if unknown := [one for one in names if one not in _SCOPES]:
        misused(f"there is no scope {unknown[0]!r}; there are {', '.join(_SCOPES)}")
    return [_SCOPES[one] for one in names]


def _title(key: partner_pb2.ApiKey) -> str:
    return f"{key.key_id} ({key.name})" if key.name else key.key_id


def _words(key: partner_pb2.ApiKey) -> list[str]:
    return [name for name, scope in _SCOPES.items() if scope in key.scopes]


def _row(key: partner_pb2.ApiKey) -> tuple[str, ...]:
    return (
        key.key_id,
        partner_pb2.ApiKeyKind.Name(key.kind).removeprefix("API_KEY_KIND_").lower(),
        mode(live=key.live),
        key.partner_id or "-",
        key.last4,
        ",".join(_words(key)),
        minute(key, "revoked_at"),
        key.name or "-",
    )
