"""API keys: made, listed, changed, revoked."""

from __future__ import annotations

from florin_server.domain.accounts.account import SCOPES, ApiKey
from florin_server.domain.accounts.credentials import KeyKind, hash_key, new_key
from florin_server.domain.errors import Code, FlorinError, invalid
from florin_server.domain.versions import NEWEST_STABLE
from florin_server.flows.app import App
from florin_server.store.accounts import keys, merchants

# everything a kind may do; a wallet's confirm and cancel are "create"
_ALLOWED = {KeyKind.PARTNER: SCOPES, KeyKind.WALLET: frozenset({"read", "create"})}


async def create(
    app: App,
    pepper: bytes,
    *,
    kind: KeyKind,
    live: bool,
    partner_id: str | None,
    scopes: frozenset[str] = frozenset(),
    name: str = "",
) -> tuple[ApiKey, str]:
    """Makes a key and gives it with its secret, which is not stored."""
    if (kind is KeyKind.PARTNER) is (partner_id is None):
        raise invalid("partnerId", "is required for a partner key and for no other")
    if partner_id is not None and not await app.store.read(merchants.partner(partner_id)):
        raise FlorinError(Code.PARTNER_NOT_FOUND)
    _check(kind, scopes)
    key, secret = make(
        app, pepper, kind=kind, live=live, partner_id=partner_id, scopes=scopes or None, name=name
    )
    await app.store.write(keys.put_key(key))
    app.accounts.changed()
    return key, secret


def make(
    app: App,
    pepper: bytes,
    *,
    kind: KeyKind,
    live: bool,
    partner_id: str | None,
    scopes: frozenset[str] | None = None,
    name: str = "",
) -> tuple[ApiKey, str]:
    """A key that is not stored yet, and its secret; without scopes it may do all its kind can."""
    made = new_key(kind, live=live, randbytes=app.randbytes)
    key = ApiKey(
        key_id=made.key_id,
        kind=kind,
        live=live,
        partner_id=partner_id,
        hash=hash_key(pepper, made.secret),
        last4=made.last4,
        scopes=_ALLOWED[kind] if scopes is None else scopes,
        version_pin=NEWEST_STABLE if kind is KeyKind.WALLET else None,
        created_at_us=app.clock.now_us(),
        name=name,
    )
    return key, made.secret


def _check(kind: KeyKind, scopes: frozenset[str]) -> None:
    """FlorinError if a kind of key cannot be allowed so much."""
    if extra := scopes - _ALLOWED[kind]:
        raise invalid("scopes", f"a {kind} key cannot have {', '.join(sorted(extra))}")


async def listed(app: App, partner_id: str | None) -> list[ApiKey]:
    """All keys, or one partner's, newest first."""
    return await app.store.read(keys.list_keys(partner_id))


async def change(app: App, key_id: str, name: str | None, scopes: frozenset[str]) -> ApiKey:
    """Renames a key, or changes what it may do; without scopes that stays.

    FlorinError for a key that is unknown or revoked, and for what its kind cannot do.
    """
    found = await app.store.read(keys.key_by_id(key_id))
    if found is None:
        raise FlorinError(Code.API_KEY_NOT_FOUND)
    _check(found.kind, scopes)
    key = await app.store.write(keys.change_key(key_id, name, scopes or None))
    if key is None:
        raise FlorinError(Code.INVALID_STATE, "The key is revoked")
    app.accounts.changed()
    return key


async def revoke(app: App, key_id: str) -> ApiKey:
    """Revokes a key for good; doing it twice changes nothing."""
    key = await app.store.write(keys.revoke_key(key_id, app.clock.now_us()))
    if key is None:
        raise FlorinError(Code.API_KEY_NOT_FOUND)
    app.accounts.changed()
    return key
