"""The accounts of an empty installation, so that its first payment needs no set-up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from florin_server.accounts.service import keys
from florin_server.accounts.store import destinations, merchants
from florin_server.accounts.store import keys as key_store
from florin_server.app.core import App
from florin_server.db.engine.query import Op, operation
from florin_server.domain.accounts.account import ApiKey, Partner, WalletApp
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.accounts.credentials import ApiKeyKind, generate_app_id
from florin_server.domain.ids import generate_short_id
from florin_server.domain.payments.payment import Destination, Merchant, Payment
from florin_server.domain.versions import NEWEST_STABLE_VERSION
from florin_server.idempotency.service import discard_response
from florin_server.money.payments.service.create import NewPayment, create


@dataclass(frozen=True, slots=True)
class DemoAccounts:
    """Test accounts that are not stored yet, and their credentials, which never will be."""

    partner: Partner
    merchant: Merchant
    destinations: tuple[Destination, ...]
    wallet: WalletApp
    keys: tuple[ApiKey, ...]
    partner_key: str
    wallet_key: str


async def is_empty(app: App) -> bool:
    """Return True if no account has ever been registered."""
    return not await app.store.read(merchants.has_partners())


def build(app: App, pepper: bytes, destination_accounts: Mapping[str, str]) -> DemoAccounts:
    """Return a partner, a merchant, a wallet, and their keys.

    `destination_accounts` are the merchant's accounts (CAIP-10) by asset (CAIP-19).
    """
    now_us, rand = app.clock.now_us(), app.randbytes
    partner = Partner(
        generate_short_id("prtn_", rand), "Demo partner", NEWEST_STABLE_VERSION, "active", now_us
    )
    merchant = Merchant(
        id=generate_short_id("mrch_", rand),
        partner_id=partner.id,
        name="Corner Café",
        email="owner@corner-cafe.example",
        icon_url=None,
        status="active",
        live=False,
        created_at_us=now_us,
    )
    places = tuple(
        Destination(generate_short_id("crypto_", rand), merchant.id, asset, account)
        for asset, account in destination_accounts.items()
    )
    wallet = WalletApp(
        generate_app_id(rand), "Demo wallet", None, False, NEWEST_STABLE_VERSION, now_us
    )
    own, partner_key = keys.generate(
        app, pepper, kind=ApiKeyKind.PARTNER, live=False, partner_id=partner.id
    )
    other, wallet_key = keys.generate(
        app, pepper, kind=ApiKeyKind.WALLET, live=False, partner_id=None
    )
    return DemoAccounts(partner, merchant, places, wallet, (own, other), partner_key, wallet_key)


async def store(app: App, accounts: DemoAccounts) -> None:
    """Store all of them, or none."""
    await app.store.write(put(accounts))


async def create_first_payment(app: App, accounts: DemoAccounts) -> Payment:
    """Create a payment of 12.50 USD to the demo merchant, as an example of a checkout link."""
    caller = Caller(live=False, partner_id=accounts.partner.id, merchant=accounts.merchant)
    new_payment = NewPayment(unit="iso4217/USD", value="1250", reference_id="first-payment")
    outcome = await create(app, caller, accounts.merchant, new_payment, discard_response)
    if not isinstance(outcome, Payment):
        raise TypeError("a creation without a key has nothing to replay")
    return outcome


@operation
def put(accounts: DemoAccounts) -> Op[None]:
    """Store all of them with what else is written."""
    yield from merchants.put_partner(accounts.partner)
    yield from merchants.put_merchant(accounts.merchant)
    for place in accounts.destinations:
        yield from destinations.put_destination(place)
    yield from key_store.put_app(accounts.wallet)
    for key in accounts.keys:
        yield from key_store.put_key(key)
