"""Merchants for the operator: import, suspend, register bank accounts."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from florin_server.accounts.service.contact import check
from florin_server.accounts.service.merchant_changes import describe_merchant
from florin_server.accounts.store import destinations, merchants
from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.accounts.contact import SupportContact
from florin_server.domain.audit import AuditAction, AuditChange, AuditObject, list_changes
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.ids import generate_short_id
from florin_server.domain.payments.payment import BankAccount, Merchant
from florin_server.operations.service.audit_log import audited, audited_change


class _Context(EventContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


async def add(
    app: _Context,
    *,
    partner_id: str,
    merchant_id: str,
    name: str,
    email: str,
    icon_url: str | None,
    support: SupportContact,
    live: bool,
) -> Merchant:
    """Create a merchant under a given id; params_validation, partner_not_found, merchant_exists."""
    check(name, email=email, icon_url=icon_url, support=support)
    merchant = Merchant(
        id=merchant_id,
        partner_id=partner_id,
        name=name,
        email=email,
        icon_url=icon_url,
        status="active",
        live=live,
        created_at_us=app.clock.now_us(),
        support_email=support.email or None,
        support_url=support.url or None,
    )
    change = describe_merchant(AuditAction.MERCHANT_CREATED, None, merchant)
    await app.store.write(audited(app, _add(merchant), lambda _: change))
    app.notifier.publish(Topic.ACCOUNTS)
    return merchant


async def set_status(app: _Context, merchant_id: str, status: str) -> Merchant:
    """Change whether a merchant may take payments; merchant_not_found."""
    merchant = await app.store.write(
        audited_change(
            app,
            merchants.find_merchant(merchant_id),
            merchants.set_status(merchant_id, status),
            partial(describe_merchant, AuditAction.MERCHANT_STATUS_CHANGED),
        )
    )
    if merchant is None:
        raise ApiError(ErrorCode.MERCHANT_NOT_FOUND)
    app.notifier.publish(Topic.ACCOUNTS)
    return merchant


async def set_support(app: _Context, merchant_id: str, support: SupportContact) -> Merchant:
    """Change the contact that buyers see; params_validation, merchant_not_found."""
    check(None, support=support)
    merchant = await app.store.write(
        audited_change(
            app,
            merchants.find_merchant(merchant_id),
            merchants.set_support(merchant_id, support),
            partial(describe_merchant, AuditAction.MERCHANT_CHANGED),
        )
    )
    if merchant is None:
        raise ApiError(ErrorCode.MERCHANT_NOT_FOUND)
    app.notifier.publish(Topic.ACCOUNTS)
    return merchant


async def add_bank_account(
    app: _Context, merchant_id: str, *, status: str, bank_type: str
) -> BankAccount:
    """Register a bank account; merchant_not_found."""
    account = BankAccount(generate_short_id("fiat_", app.randbytes), merchant_id, status, bank_type)

    def describe(merchant: Merchant | None, _: None) -> AuditChange | None:
        if merchant is None:
            return None
        return AuditChange(
            AuditAction.MERCHANT_BANK_ACCOUNT_ADDED,
            AuditObject.MERCHANT,
            merchant.id,
            merchant.partner_id,
            merchant.live,
            list_changes({}, {"bank_account": account.id, "type": bank_type, "status": status}),
        )

    await app.store.write(
        audited_change(
            app, merchants.find_merchant(merchant_id), _add_bank_account(account), describe
        )
    )
    app.notifier.publish(Topic.ACCOUNTS)
    return account


@operation
def _add(merchant: Merchant) -> Op[None]:
    if (yield from merchants.find_partner(merchant.partner_id)) is None:
        raise ApiError(ErrorCode.PARTNER_NOT_FOUND)
    if not (yield from merchants.add(merchant)):
        raise ApiError(ErrorCode.MERCHANT_EXISTS)


@operation
def _add_bank_account(account: BankAccount) -> Op[None]:
    merchant = yield from merchants.find_merchant(account.merchant_id)
    if merchant is None or merchant.deleted_at_us is not None:
        raise ApiError(ErrorCode.MERCHANT_NOT_FOUND)
    yield from destinations.put_bank_account(account)
