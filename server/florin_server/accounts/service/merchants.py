"""A partner's merchants: create, list, read, change, delete."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from florin_server.accounts.context import IconRequestContext
from florin_server.accounts.service.merchant_changes import describe_merchant
from florin_server.accounts.store import destinations, merchants
from florin_server.accounts.store.destinations import MerchantDestinations
from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain import cursor
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.accounts.contact import (
    SupportContact,
    list_accent_issues,
    list_issues,
)
from florin_server.domain.audit import AuditAction, AuditChange
from florin_server.domain.errors import (
    ApiError,
    ErrorCode,
    FieldIssue,
    validation_error_for,
)
from florin_server.domain.ids import generate_short_id
from florin_server.domain.payments.payment import Merchant
from florin_server.domain.refusals import merchant_not_found_error
from florin_server.idempotency.service import fail_with, run_once
from florin_server.idempotency.store.responses import StoredResponse
from florin_server.operations.service.audit_log import audited, audited_change
from florin_server.settings.context import SettingsContext


class _Context(EventContext, IconRequestContext, SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


# merchants in one response, if the caller gives no limit
PAGE_SIZE = 20
_CHANGEABLE = "merchantName, merchantEmail, iconUrl, supportEmail, supportUrl, accent"


@dataclass(frozen=True, slots=True)
class NewMerchant:
    """The merchant in a partner's request."""

    name: str
    email: str
    icon_url: str | None = None
    support: SupportContact = field(default_factory=SupportContact)


@dataclass(frozen=True, slots=True)
class MerchantChanges:
    """The changes to a merchant; None keeps a value, empty text removes icon and accent."""

    name: str | None = None
    email: str | None = None
    icon_url: str | None = None
    support: SupportContact = field(default_factory=SupportContact)
    accent: str | None = None


@dataclass(frozen=True, slots=True)
class MerchantListPage:
    """One page, newest first; `total` counts all that the filters let through."""

    merchants: list[Merchant]
    total: int
    next_cursor: str | None


async def create(
    app: _Context,
    caller: Caller,
    new_merchant: NewMerchant,
    encode_response: Callable[[Merchant], bytes],
) -> Merchant | StoredResponse:
    """Create a merchant in the caller's mode, or repeat the response of its idempotency key."""
    issues = (
        *list_issues(new_merchant.name, new_merchant.email, new_merchant.icon_url),
        *new_merchant.support.list_issues(),
    )
    if issues:
        return await run_once(app, caller, fail_with(validation_error_for(issues)), encode_response)
    merchant = Merchant(
        id=generate_short_id("mrch_", app.randbytes),
        partner_id=caller.required_partner_id,
        name=new_merchant.name,
        email=new_merchant.email,
        icon_url=new_merchant.icon_url,
        status="active",
        live=caller.live,
        created_at_us=app.clock.now_us(),
        support_email=new_merchant.support.email or None,
        support_url=new_merchant.support.url or None,
    )
    work = audited(
        app,
        merchants.create(merchant),
        lambda created: describe_merchant(AuditAction.MERCHANT_CREATED, None, created),
    )
    outcome = await run_once(app, caller, work, encode_response)
    _request_icon(app, outcome)
    return outcome


async def list_merchants(
    app: StorageContext,
    caller: Caller,
    *,
    status: str | None = None,
    search: str | None = None,
    page_cursor: str | None = None,
    limit: int | None = None,
) -> MerchantListPage:
    """Return the caller's merchants, without deleted ones.

    `page_cursor` is the cursor of the former page.
    """
    query = merchants.MerchantListQuery(caller.required_partner_id, caller.live, status, search)
    binding = json.dumps(["merchants", query.partner_id, query.live, status, search])
    position = (
        cursor.decode_cursor(page_cursor, binding, int, str) if page_cursor is not None else None
    )
    page = await app.store.scan_standby(merchants.list_page(query, position, limit or PAGE_SIZE))
    following = None
    if page.has_more:
        last = page.merchants[-1]
        following = cursor.encode_cursor((last.created_at_us, last.id), binding)
    return MerchantListPage(page.merchants, page.total, following)


async def get(
    app: StorageContext, caller: Caller, merchant_id: str
) -> tuple[Merchant, MerchantDestinations]:
    """Return a merchant and its destinations, at one moment."""
    return await app.store.read(_get(caller, merchant_id))


async def update(
    app: _Context,
    caller: Caller,
    merchant_id: str,
    changes: MerchantChanges,
    encode_response: Callable[[Merchant], bytes],
) -> Merchant | StoredResponse:
    """Change a merchant, or repeat the response of its idempotency key."""
    try:
        _check_changes(changes)
        work = audited_change(
            app,
            merchants.find_merchant(merchant_id),
            _update(caller, merchant_id, changes),
            partial(describe_merchant, AuditAction.MERCHANT_CHANGED),
        )
    except ApiError as fault:
        work = fail_with(fault)
    outcome = await run_once(app, caller, work, encode_response)
    app.notifier.publish(Topic.ACCOUNTS)
    _request_icon(app, outcome)
    return outcome


async def delete(
    app: _Context, caller: Caller, merchant_id: str, encode_response: Callable[[str], bytes]
) -> str | StoredResponse:
    """Hide a merchant and stop new payments; return its id, also if it was deleted before."""
    work = audited_change(
        app,
        merchants.find_merchant(merchant_id),
        _delete(caller, merchant_id, app.clock.now_us()),
        _describe_deletion,
    )
    outcome = await run_once(app, caller, work, encode_response)
    app.notifier.publish(Topic.ACCOUNTS)
    return outcome


@operation
def require(caller: Caller, merchant_id: str) -> Op[Merchant]:
    """Return the caller's merchant; refuse one of another partner or mode, or a deleted one."""
    merchant = yield from merchants.find_owned(
        merchant_id, caller.required_partner_id, live=caller.live
    )
    if merchant is None:
        raise merchant_not_found_error(wcp_profile=caller.wcp_profile)
    return merchant


@operation
def _get(caller: Caller, merchant_id: str) -> Op[tuple[Merchant, MerchantDestinations]]:
    merchant = yield from require(caller, merchant_id)
    return merchant, (yield from destinations.get_merchant_destinations(merchant_id))


def _request_icon(app: IconRequestContext, merchant: Merchant | StoredResponse) -> None:
    """Request a new picture, so that the first buyer sees it."""
    if isinstance(merchant, Merchant) and merchant.icon_url is not None:
        app.icons.request(merchant.icon_url, merchant.partner_id)


def _describe_deletion(before: Merchant | None, _: str) -> AuditChange | None:
    if before is None or before.deleted_at_us is not None:
        return None
    return describe_merchant(AuditAction.MERCHANT_DELETED, before, before)


def _check_changes(changes: MerchantChanges) -> None:
    if changes == MerchantChanges():
        raise ApiError(
            ErrorCode.PARAMS_VALIDATION,
            f"Validation error: at least one of {_CHANGEABLE} is required",
            issues=(FieldIssue("", f"must have one of {_CHANGEABLE}"),),
        )
    issues = (
        *list_issues(changes.name, changes.email, changes.icon_url or None),
        *changes.support.list_issues(),
        *list_accent_issues(changes.accent),
    )
    if issues:
        raise validation_error_for(issues)


@operation
def _update(caller: Caller, merchant_id: str, changes: MerchantChanges) -> Op[Merchant]:
    changed = yield from merchants.change(
        merchant_id,
        caller.required_partner_id,
        live=caller.live,
        name=changes.name,
        email=changes.email,
        icon_url=changes.icon_url,
        support=changes.support,
        accent=changes.accent,
    )
    if changed is None:
        raise merchant_not_found_error(wcp_profile=caller.wcp_profile)
    return changed


@operation
def _delete(caller: Caller, merchant_id: str, now_us: int) -> Op[str]:
    is_deleted = yield from merchants.delete(
        merchant_id, caller.required_partner_id, live=caller.live, now_us=now_us
    )
    if not is_deleted:
        raise merchant_not_found_error(wcp_profile=caller.wcp_profile)
    return merchant_id
