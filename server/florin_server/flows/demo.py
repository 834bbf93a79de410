"""What an empty installation starts with, so that its first payment needs no set-up."""

from __future__ import annotations

from dataclasses import dataclass

from florin_server.domain.account import Partner, WalletApp
from florin_server.domain.credentials import KeyKind, app_id
from florin_server.domain.ids import short_id
from florin_server.domain.payment import Destination, Merchant
from florin_server.domain.versions import NEWEST_STABLE
from florin_server.flows import keys
from florin_server.flows.app import App
from florin_server.store import keys as key_store
from florin_server.store import merchants


@dataclass(frozen=True, slots=True)
class DemoAccounts:
    """Test credentials, told once."""

    partner_key: str
    wallet_key: str
    merchant_id: str
    app_id: str


async def is_empty(app: App) -> bool:
    """True if nobody has ever been registered."""
    return not await app.store.read(merchants.has_partners())


async def create_accounts(app: App, pepper: bytes, destination: str, asset: str) -> DemoAccounts:
    """Registers a partner, a merchant that is paid to `destination` (CAIP-10), a wallet app."""
    now_us, rand = app.clock.now_us(), app.randbytes
    partner = Partner(short_id("prtn_", rand), "Demo partner", NEWEST_STABLE, "active", now_us)
    merchant = Merchant(
        id=short_id("mrch_", rand),
        partner_id=partner.id,
        name="Corner Café",
        email="owner@corner-cafe.example",
        icon_url=None,
        status="active",
        live=False,
        created_at_us=now_us,
    )
    wallet = WalletApp(
        app_id(rand),
        "Demo wallet",
        None,
        live=False,
        version_pin=NEWEST_STABLE,
        created_at_us=now_us,
    )
    await app.store.write(merchants.put_partner(partner))
    await app.store.write(merchants.put_merchant(merchant))
    await app.store.write(
        merchants.put_destination(
            Destination(short_id("crypto_", rand), merchant.id, asset, destination)
        )
    )
    await app.store.write(key_store.put_app(wallet))
    _, partner_key = await keys.create(
        app, pepper, kind=KeyKind.PARTNER, live=False, partner_id=partner.id
    )
    _, wallet_key = await keys.create(app, pepper, kind=KeyKind.WALLET, live=False, partner_id=None)
    return DemoAccounts(partner_key, wallet_key, merchant.id, wallet.app_id)
