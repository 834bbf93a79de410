"""Wallets that name themselves by a public app id: registered, listed, revoked."""

from __future__ import annotations

from typing import Protocol

from florin_server.accounts.service.contact import check
from florin_server.accounts.store import keys
from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.domain.accounts.account import CredentialStatus, WalletApp
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.accounts.credentials import CHECKOUT_APP_IDS, generate_app_id
from florin_server.domain.audit import AuditAction, AuditChange, AuditObject, list_changes
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.versions import NEWEST_STABLE_VERSION
from florin_server.operations.service.audit_log import audited, audited_change


class _Context(EventContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


async def register(app: _Context, name: str, icon_url: str | None, *, live: bool) -> WalletApp:
    """Register a wallet; params_validation."""
    check(name, icon_url=icon_url)
    wallet = WalletApp(
        app_id=generate_app_id(app.randbytes),
        name=name,
        icon_url=icon_url,
        live=live,
        version_pin=NEWEST_STABLE_VERSION,
        created_at_us=app.clock.now_us(),
    )
    change = AuditChange(
        AuditAction.WALLET_REGISTERED,
        AuditObject.WALLET,
        wallet.app_id,
        changes=list_changes({}, {"name": name, "live": live}),
    )
    await app.store.write(audited(app, keys.put_app(wallet), lambda _: change))
    app.notifier.publish(Topic.ACCOUNTS)
    return wallet


async def get_checkout_app(app: _Context, *, live: bool) -> WalletApp:
    """Return the wallet app of the payment page; it is registered at the first request.

    It is a normal wallet app: an operator can revoke it, and then it stays revoked.
    """
    own_id = CHECKOUT_APP_IDS[live]
    wallet = WalletApp(
        app_id=own_id,
        name="Checkout page",
        icon_url=None,
        live=live,
        version_pin=NEWEST_STABLE_VERSION,
        created_at_us=app.clock.now_us(),
    )
    stored_app = await app.store.read(keys.find_app(own_id))
    if stored_app is None and await app.store.write(keys.add_app(wallet)):
        app.notifier.publish(Topic.ACCOUNTS)
        return wallet
    return stored_app or await app.store.read(keys.find_app(own_id)) or wallet


async def create_checkout_caller(app: _Context, *, live: bool, network: str, use: str) -> Caller:
    """Return the caller that has no credential, but the link of a payment.

    `use` distinguishes what it does with the link; `network` is that of the call.
    """
    own = await get_checkout_app(app, live=live)
    return Caller(
        live=live,
        credential=f"{own.app_id}/{use}",
        app=own,
        network=network,
        credential_status=CredentialStatus(app_id=own.app_id),
    )


async def list_wallets(app: StorageContext) -> list[WalletApp]:
    """Return all wallets, newest first, including revoked ones."""
    return await app.store.scan(keys.list_apps())


async def revoke(app: _Context, wallet_id: str) -> WalletApp:
    """Revoke a wallet finally; a second time changes nothing. wallet_not_found."""
    change = AuditChange(AuditAction.WALLET_REVOKED, AuditObject.WALLET, wallet_id)
    wallet = await app.store.write(
        audited_change(
            app,
            keys.find_app(wallet_id),
            keys.revoke_app(wallet_id, app.clock.now_us()),
            lambda before, _: change if before and before.revoked_at_us is None else None,
        )
    )
    if wallet is None:
        raise ApiError(ErrorCode.WALLET_NOT_FOUND)
    app.notifier.publish(Topic.ACCOUNTS)
    return wallet
