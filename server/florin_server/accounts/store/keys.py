"""API keys and wallet apps."""

from __future__ import annotations

from sqlalchemy import func, or_, select, true, update
from sqlalchemy.types import Text

from florin_server.db import generations
from florin_server.db.engine.columns import WordSet
from florin_server.db.engine.query import Command, Op, Statement, insert, operation, param, upsert
from florin_server.db.tables.tables import api_key_table, wallet_app_table
from florin_server.domain.accounts.account import ApiKey, WalletApp

_PUT_KEY = Command(insert(api_key_table))
_KEY = Statement(select(api_key_table).where(api_key_table.c.key_id == param("id_")), ApiKey)
_KEYS = Statement(
    select(api_key_table)
    .where(or_(param("owner", Text).is_(None), api_key_table.c.partner_id == param("owner", Text)))
    .order_by(api_key_table.c.created_at_us.desc(), api_key_table.c.key_id),
    ApiKey,
)
_HAS_LIVE_KEY = Statement(
    select(api_key_table.c.key_id)
    .where(api_key_table.c.live == true(), api_key_table.c.revoked_at_us.is_(None))
    .limit(1),
    str,
)
_REVOKE = Statement(
    update(api_key_table)
    .where(api_key_table.c.key_id == param("id_"))
    .values(revoked_at_us=func.coalesce(api_key_table.c.revoked_at_us, param("now_us")))
    .returning(*api_key_table.c),
    ApiKey,
)
_CHANGE = Statement(
    update(api_key_table)
    .where(api_key_table.c.key_id == param("id_"), api_key_table.c.revoked_at_us.is_(None))
    .values(
        name=func.coalesce(param("new_name", Text), api_key_table.c.name),
        scopes=func.coalesce(param("new_scopes", WordSet), api_key_table.c.scopes),
    )
    .returning(*api_key_table.c),
    ApiKey,
)
_PUT_APP = Command(upsert(wallet_app_table, "app_id"))
_ADD_APP = Statement(
    insert(wallet_app_table)
    .on_conflict_do_nothing(index_elements=["app_id"])
    .returning(wallet_app_table.c.app_id),
    str,
)
_APPS = Statement(
    select(wallet_app_table).order_by(
        wallet_app_table.c.created_at_us.desc(), wallet_app_table.c.app_id
    ),
    WalletApp,
)
_REVOKE_APP = Statement(
    update(wallet_app_table)
    .where(wallet_app_table.c.app_id == param("id_"))
    .values(revoked_at_us=func.coalesce(wallet_app_table.c.revoked_at_us, param("now_us")))
    .returning(*wallet_app_table.c),
    WalletApp,
)
_APP = Statement(
    select(wallet_app_table).where(wallet_app_table.c.app_id == param("id_")), WalletApp
)


@operation
def put_key(key: ApiKey) -> Op[None]:
    """Store a new key; raise StoreError if its id or its hash is taken."""
    yield _PUT_KEY(key)


@operation
def find_key(key_id: str) -> Op[ApiKey | None]:
    """Return a key by its id, revoked or not; None if it does not exist."""
    return (yield from _KEY.first(id_=key_id))


@operation
def list_keys(partner_id: str | None) -> Op[list[ApiKey]]:
    """Return all keys, or one partner's, newest first."""
    return (yield from _KEYS.all(owner=partner_id))


@operation
def has_live_key() -> Op[bool]:
    """Return True if any key for live data is valid."""
    return (yield from _HAS_LIVE_KEY.any())


@operation
def revoke_key(key_id: str, now_us: int) -> Op[ApiKey | None]:
    """Revoke a key; a revoked key stays unchanged. Return None if it does not exist."""
    key = yield from _REVOKE.first(id_=key_id, now_us=now_us)
    yield from generations.bump(generations.CacheKind.ACCOUNTS)
    return key


@operation
def change_key(key_id: str, name: str | None, scopes: frozenset[str] | None) -> Op[ApiKey | None]:
    """Change a key's name or scopes; None keeps the value.

    Return None if no such key is valid.
    """
    key = yield from _CHANGE.first(id_=key_id, new_name=name, new_scopes=scopes)
    yield from generations.bump(generations.CacheKind.ACCOUNTS)
    return key


@operation
def put_app(app: WalletApp) -> Op[None]:
    """Store a wallet app, or its changes."""
    yield _PUT_APP(app)
    yield from generations.bump(generations.CacheKind.ACCOUNTS)


@operation
def add_app(app: WalletApp) -> Op[bool]:
    """Store a new wallet app; return False if its id is taken, even by a revoked app."""
    added = yield from _ADD_APP.any(app)
    if added:
        yield from generations.bump(generations.CacheKind.ACCOUNTS)
    return added


@operation
def find_app(app_id: str) -> Op[WalletApp | None]:
    """Return a wallet app by its id, revoked or not; None if it does not exist."""
    return (yield from _APP.first(id_=app_id))


@operation
def list_apps() -> Op[list[WalletApp]]:
    """Return all wallet apps, newest first, including revoked apps."""
    return (yield from _APPS.all())


@operation
def revoke_app(app_id: str, now_us: int) -> Op[WalletApp | None]:
    """Revoke a wallet app; a revoked app stays unchanged. Return None if it does not exist."""
    app = yield from _REVOKE_APP.first(id_=app_id, now_us=now_us)
    yield from generations.bump(generations.CacheKind.ACCOUNTS)
    return app
