"""What an empty installation starts with, so that its first payment needs no set-up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from florin_server.domain.accounts.account import ApiKey, Partner, WalletApp
from florin_server.domain.accounts.credentials import KeyKind, app_id
from florin_server.domain.ids import short_id
from florin_server.domain.payments.payment import Destination, Merchant, Payment
from florin_server.domain.versions import NEWEST_STABLE
from florin_server.flows.accounts import keys
from florin_server.flows.app import App, Caller
from florin_server.flows.payments.create import NewPayment, create
from florin_server.flows.payments.idempotent import unstored
from florin_server.store.accounts import destinations, merchants
from florin_server.store.accounts import keys as key_store
from florin_server.store.engine.query import Op, operation


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
    """True if nobody has ever been registered."""
    return not await app.store.read(merchants.has_partners())


def make(app: App, pepper: bytes, paid_to: Mapping[str, str]) -> DemoAccounts:
    """A partner, a merchant, a wallet, and their keys.

    `paid_to` are the merchant's accounts (CAIP-10) by asset (CAIP-19).
    """
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
    places = tuple(
        Destination(short_id("crypto_", rand), merchant.id, asset, account)
        for asset, account in paid_to.items()
    )
    wallet = WalletApp(app_id(rand), "Demo wallet", None, False, NEWEST_STABLE, now_us)
    own, partner_key = keys.make(
        app, pepper, kind=KeyKind.PARTNER, live=False, partner_id=partner.id
    )
    other, wallet_key = keys.make(app, pepper, kind=KeyKind.WALLET, live=False, partner_id=None)
    return DemoAccounts(partner, merchant, places, wallet, (own, other), partner_key, wallet_key)


async def store(app: App, made: DemoAccounts) -> None:
    """Stores all of them, or none."""
    await app.store.write(put(made))


async def first_payment(app: App, made: DemoAccounts) -> Payment:
    """A payment of 12.50 USD to the demo merchant, for whoever wants to see a checkout link."""
    caller = Caller(live=False, partner_id=made.partner.id, merchant=made.merchant)
    wanted = NewPayment(unit="iso4217/USD", value="1250", reference_id="first-payment")
    outcome = await create(app, caller, made.merchant, wanted, unstored)
    if not isinstance(outcome, Payment):
        raise TypeError("a creation without a key has nothing to replay")
    return outcome


@operation
def put(made: DemoAccounts) -> Op[None]:
    """Stores all of them with what else is written."""
    yield from merchants.put_partner(made.partner)
    yield from merchants.put_merchant(made.merchant)
    for place in made.destinations:
        yield from destinations.put_destination(place)
    yield from key_store.put_app(made.wallet)
    for key in made.keys:
        yield from key_store.put_key(key)
