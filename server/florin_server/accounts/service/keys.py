"""API keys: made, listed, changed, revoked."""

from __future__ import annotations

from typing import Protocol

from florin_server.accounts.context import KeyUseContext
from florin_server.accounts.store import key_uses, keys, merchants
from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.domain.accounts.account import FACILITATE_SCOPE, SCOPES, ApiKey
from florin_server.domain.accounts.credentials import ApiKeyKind, generate_key, hash_key
from florin_server.domain.audit import AuditAction, AuditChange, AuditObject, list_changes
from florin_server.domain.errors import ApiError, ErrorCode, validation_error
from florin_server.domain.versions import NEWEST_STABLE_VERSION
from florin_server.operations.service.audit_log import audited, audited_change


class _Context(EventContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


class _UseContext(KeyUseContext, StorageContext, Protocol):
    """The parts of the application that say when keys were used."""


# the scopes of a kind unless others are named; a wallet's confirm and cancel need "create"
_USUAL_SCOPES = {ApiKeyKind.PARTNER: SCOPES, ApiKeyKind.WALLET: frozenset({"read", "create"})}
_ALLOWED_SCOPES = {
    **_USUAL_SCOPES,
    ApiKeyKind.PARTNER: SCOPES | {FACILITATE_SCOPE},
}


async def create(
    app: _Context,
    pepper: bytes,
    *,
    kind: ApiKeyKind,
    live: bool,
    partner_id: str | None,
    scopes: frozenset[str] = frozenset(),
    name: str = "",
) -> tuple[ApiKey, str]:
    """Create a key and return it with its secret, which is not stored."""
    if (kind is ApiKeyKind.PARTNER) is (partner_id is None):
        raise validation_error(
            "partnerId", "is required for a partner key, and not allowed for any other key"
        )
    if partner_id is not None and not await app.store.read(merchants.find_partner(partner_id)):
        raise ApiError(ErrorCode.PARTNER_NOT_FOUND)
    _check_scopes(kind, scopes)
    key, secret = generate(
        app, pepper, kind=kind, live=live, partner_id=partner_id, scopes=scopes or None, name=name
    )
    change = _describe(AuditAction.KEY_CREATED, None, key)
    await app.store.write(audited(app, keys.put_key(key), lambda _: change))
    app.notifier.publish(Topic.ACCOUNTS)
    return key, secret


def generate(
    app: StorageContext,
    pepper: bytes,
    *,
    kind: ApiKeyKind,
    live: bool,
    partner_id: str | None,
    scopes: frozenset[str] | None = None,
    name: str = "",
) -> tuple[ApiKey, str]:
    """Return a key that is not stored yet, and its secret; without scopes it has the usual ones."""
    created_key = generate_key(kind, live=live, randbytes=app.randbytes)
    key = ApiKey(
        key_id=created_key.key_id,
        kind=kind,
        live=live,
        partner_id=partner_id,
        hash=hash_key(pepper, created_key.secret),
        last4=created_key.last4,
        scopes=_USUAL_SCOPES[kind] if scopes is None else scopes,
        version_pin=NEWEST_STABLE_VERSION if kind is ApiKeyKind.WALLET else None,
        created_at_us=app.clock.now_us(),
        name=name,
    )
    return key, created_key.secret


def _describe(action: AuditAction, before: ApiKey | None, after: ApiKey) -> AuditChange:
    changes = list_changes(_list_values(before), _list_values(after))
    return AuditChange(action, AuditObject.KEY, after.key_id, after.partner_id, after.live, changes)


def _list_values(key: ApiKey | None) -> dict[str, object]:
    return {} if key is None else {"kind": key.kind, "name": key.name, "scopes": key.scopes}


def _check_scopes(kind: ApiKeyKind, scopes: frozenset[str]) -> None:
    """Raise ApiError if a kind of key cannot have these scopes."""
    if extra := scopes - _ALLOWED_SCOPES[kind]:
        raise validation_error("scopes", f"a {kind} key cannot have {', '.join(sorted(extra))}")


async def list_keys(app: StorageContext, partner_id: str | None) -> list[ApiKey]:
    """Return all keys, or one partner's, newest first."""
    return await app.store.read(keys.list_keys(partner_id))


async def list_uses(app: _UseContext, partner_id: str | None) -> dict[str, int]:
    """Return when keys were last used, by id: all keys, or one partner's; some minutes late.

    Keys without a recorded use are left out.
    """
    return app.key_uses.merge(await app.store.read(key_uses.list_uses(partner_id)))


async def update(app: _Context, key_id: str, name: str | None, scopes: frozenset[str]) -> ApiKey:
    """Rename a key, or change its scopes; without scopes they stay.

    ApiError for a key that is unknown or revoked, and for scopes that its kind cannot have.
    """
    current_key = await app.store.read(keys.find_key(key_id))
    if current_key is None:
        raise ApiError(ErrorCode.API_KEY_NOT_FOUND)
    _check_scopes(current_key.kind, scopes)
    work = keys.change_key(key_id, name, scopes or None)
    key = await app.store.write(
        audited(
            app,
            work,
            lambda changed: (
                _describe(AuditAction.KEY_CHANGED, current_key, changed) if changed else None
            ),
        )
    )
    if key is None:
        raise ApiError(
            ErrorCode.INVALID_STATE, f"API key {key_id} is revoked and cannot be changed"
        )
    app.notifier.publish(Topic.ACCOUNTS)
    return key


async def revoke(app: _Context, key_id: str) -> ApiKey:
    """Revoke a key finally; a second time changes nothing."""

    def describe(before: ApiKey | None, revoked: ApiKey | None) -> AuditChange | None:
        if before is None or before.revoked_at_us is not None or revoked is None:
            return None
        return _describe(AuditAction.KEY_REVOKED, revoked, revoked)

    work = keys.revoke_key(key_id, app.clock.now_us())
    key = await app.store.write(audited_change(app, keys.find_key(key_id), work, describe))
    if key is None:
        raise ApiError(ErrorCode.API_KEY_NOT_FOUND)
    app.notifier.publish(Topic.ACCOUNTS)
    return key
