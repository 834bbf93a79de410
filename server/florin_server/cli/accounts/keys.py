"""`florin keys`: API keys, while the service runs or not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from florin.v1 import access_pb2, partner_pb2

from florin_server.cli.console import (
    console,
    print_hint,
    print_json,
    print_table,
)
from florin_server.cli.operation import (
    call_operator,
    format_age,
    format_minute,
    format_mode,
    usage_error,
)

_COLUMNS = (
    "Key id",
    "Kind",
    "Mode",
    "Partner",
    "Ends in",
    "Scopes",
    "Revoked",
    "Last used",
    "Name",
)
_KEY_KINDS = {
    "partner": partner_pb2.API_KEY_KIND_PARTNER,
    "wallet": partner_pb2.API_KEY_KIND_WALLET,
}
_KEY_SCOPES = {
    access_pb2.KeyScope.Name(scope).removeprefix("KEY_SCOPE_").lower(): scope
    for scope in access_pb2.KeyScope.values()
    if scope
}


def create_key(
    overrides: dict[str, Any],
    kind: str,
    partner: str,
    name: str,
    scopes: Iterable[str],
    *,
    live: bool,
) -> None:
    """Create a key, and print its secret."""
    if kind not in _KEY_KINDS:
        usage_error(f"unknown kind {kind[:80]!r}: use partner or wallet")
    if (kind == "partner") is not bool(partner):
        usage_error(
            "a partner key needs --partner ID, and a wallet key does not take it "
            "(`florin partners list` shows the ids)"
        )
    request = partner_pb2.CreateApiKeyRequest(
        kind=_KEY_KINDS[kind],
        partner_id=partner,
        live=live,
        name=name,
        scopes=_parse_scopes(scopes),
    )
    created = call_operator(overrides, "CreateApiKey", request)
    if not print_json(created):
        console.print(created.secret)
        print_hint(f"Key id {created.key.key_id}. Save the secret: it is not shown again.")


def list_keys(overrides: dict[str, Any], partner: str) -> None:
    """Print all keys."""
    result = call_operator(
        overrides, "ListApiKeys", partner_pb2.ListApiKeysRequest(partner_id=partner)
    )
    if not print_json(result):
        print_table(_COLUMNS, map(_to_row, result.keys))


def update_key(
    overrides: dict[str, Any], key_id: str, name: str | None, scopes: Iterable[str]
) -> None:
    """Change the name or the scopes of a key."""
    value_types = _parse_scopes(scopes)
    if name is None and not value_types:
        usage_error("nothing to change: use --name or --scope")
    request = partner_pb2.UpdateApiKeyRequest(key_id=key_id, name=name, scopes=value_types)
    done = call_operator(overrides, "UpdateApiKey", request)
    if not print_json(done):
        console.print(f"{_format_kind(done.key)} can {', '.join(_format_scopes(done.key))}.")


def revoke_key(overrides: dict[str, Any], key_id: str) -> None:
    """Revoke a key."""
    done = call_operator(overrides, "RevokeApiKey", partner_pb2.RevokeApiKeyRequest(key_id=key_id))
    if not print_json(done):
        console.print(f"{_format_kind(done.key)} is revoked.")


def _parse_scopes(scopes: Iterable[str]) -> list[access_pb2.KeyScope.ValueType]:
    # `--scope read,create` means `--scope read --scope create`
    names = [name for scope in scopes for name in scope.split(",")]
    if unknown := [name for name in names if name not in _KEY_SCOPES]:
        usage_error(f"unknown scope {unknown[0]!r}: use {', '.join(_KEY_SCOPES)}")
    return [_KEY_SCOPES[name] for name in names]


def _format_kind(key: partner_pb2.ApiKey) -> str:
    return f"{key.key_id} ({key.name})" if key.name else key.key_id


def _format_scopes(key: partner_pb2.ApiKey) -> list[str]:
    return [name for name, scope in _KEY_SCOPES.items() if scope in key.scopes]


def _to_row(key: partner_pb2.ApiKey) -> tuple[str, ...]:
    return (
        key.key_id,
        partner_pb2.ApiKeyKind.Name(key.kind).removeprefix("API_KEY_KIND_").lower(),
        format_mode(live=key.live),
        key.partner_id or "-",
        key.last4,
        ",".join(_format_scopes(key)),
        format_minute(key, "revoked_at"),
        format_age(key.last_used_at) if key.HasField("last_used_at") else "never",
        key.name or "-",
    )
