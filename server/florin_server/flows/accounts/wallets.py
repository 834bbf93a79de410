"""Wallets that name themselves by a public app id: registered, listed, revoked."""

from __future__ import annotations

from florin_server.domain.accounts.account import WalletApp
from florin_server.domain.accounts.credentials import CHECKOUT_APPS, app_id
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.versions import NEWEST_STABLE
from florin_server.flows.accounts.contact import check
from florin_server.flows.app import App
from florin_server.store.accounts import keys


async def register(app: App, name: str, icon_url: str | None, *, live: bool) -> WalletApp:
    """Registers a wallet; params_validation."""
    check(name, icon_url=icon_url)
    wallet = WalletApp(
        app_id=app_id(app.randbytes),
        name=name,
        icon_url=icon_url,
        live=live,
        version_pin=NEWEST_STABLE,
        created_at_us=app.clock.now_us(),
    )
    await app.store.write(keys.put_app(wallet))
    app.accounts.changed()
    return wallet


async def checkout_app(app: App, *, live: bool) -> WalletApp:
    """The wallet app of the page behind payment links; registered when it is asked for first.

    It is one like any other: an operator may revoke it, and then it stays revoked.
    """
    own_id = CHECKOUT_APPS[live]
    wallet = WalletApp(
        app_id=own_id,
        name="Checkout page",
        icon_url=None,
        live=live,
        version_pin=NEWEST_STABLE,
        created_at_us=app.clock.now_us(),
    )
    known = await app.store.read(keys.app(own_id))
    if known is None and await app.store.write(keys.add_app(wallet)):
        app.accounts.changed()
        return wallet
    return known or await app.store.read(keys.app(own_id)) or wallet


async def listed(app: App) -> list[WalletApp]:
    """All wallets, newest first, revoked ones too."""
    return await app.store.survey(keys.list_apps())


async def revoke(app: App, wallet_id: str) -> WalletApp:
    """Revokes a wallet for good; doing it twice changes nothing. wallet_not_found."""
    wallet = await app.store.write(keys.revoke_app(wallet_id, app.clock.now_us()))
    if wallet is None:
        raise FlorinError(Code.WALLET_NOT_FOUND)
    app.accounts.changed()
    return wallet
