"""What the operator does for merchants: imports them, stops them, registers bank accounts."""

from __future__ import annotations

from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.ids import short_id
from florin_server.domain.payments.payment import BankAccount, Merchant
from florin_server.flows.accounts.contact import check
from florin_server.flows.app import App
from florin_server.store.accounts import destinations, merchants
from florin_server.store.engine.query import Op, operation


async def add(
    app: App,
    *,
    partner_id: str,
    merchant_id: str,
    name: str,
    email: str,
    icon_url: str | None,
    live: bool,
) -> Merchant:
    """Makes a merchant under a given id; params_validation, partner_not_found, merchant_exists."""
    check(name, email=email, icon_url=icon_url)
    merchant = Merchant(
        id=merchant_id,
        partner_id=partner_id,
        name=name,
        email=email,
        icon_url=icon_url,
        status="active",
        live=live,
        created_at_us=app.clock.now_us(),
    )
    await app.store.write(_add(merchant))
    app.accounts.changed()
    return merchant


async def set_status(app: App, merchant_id: str, status: str) -> Merchant:
    """Changes whether a merchant may take payments; merchant_not_found."""
    merchant = await app.store.write(merchants.set_status(merchant_id, status))
    if merchant is None:
        raise FlorinError(Code.MERCHANT_NOT_FOUND)
    app.accounts.changed()
    return merchant


async def add_bank_account(
    app: App, merchant_id: str, *, status: str, bank_type: str
) -> BankAccount:
    """Registers a bank account; merchant_not_found."""
    account = BankAccount(short_id("fiat_", app.randbytes), merchant_id, status, bank_type)
    await app.store.write(_add_bank_account(account))
    app.accounts.changed()
    return account


@operation
def _add(merchant: Merchant) -> Op[None]:
    if (yield from merchants.partner(merchant.partner_id)) is None:
        raise FlorinError(Code.PARTNER_NOT_FOUND)
    if not (yield from merchants.add(merchant)):
        raise FlorinError(Code.MERCHANT_EXISTS)


@operation
def _add_bank_account(account: BankAccount) -> Op[None]:
    merchant = yield from merchants.merchant(account.merchant_id)
    if merchant is None or merchant.deleted_at_us is not None:
        raise FlorinError(Code.MERCHANT_NOT_FOUND)
    yield from destinations.put_bank_account(account)
