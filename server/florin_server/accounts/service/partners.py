"""Partners: made, listed, suspended."""

from __future__ import annotations

from typing import Protocol

from florin_server.accounts.service.contact import check
from florin_server.accounts.store import merchants
from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.domain.accounts.account import Partner
from florin_server.domain.audit import AuditAction, AuditChange, AuditObject, list_changes
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.ids import generate_short_id
from florin_server.domain.versions import NEWEST_STABLE_VERSION
from florin_server.operations.service.audit_log import audited, audited_change


class _Context(EventContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


async def create(app: _Context, name: str) -> Partner:
    """Create a partner that may call at once; params_validation."""
    check(name)
    partner = Partner(
        id=generate_short_id("prtn_", app.randbytes),
        name=name,
        version_pin=NEWEST_STABLE_VERSION,
        status="active",
        created_at_us=app.clock.now_us(),
    )
    change = _describe(AuditAction.PARTNER_CREATED, None, partner)
    await app.store.write(audited(app, merchants.put_partner(partner), lambda _: change))
    app.notifier.publish(Topic.ACCOUNTS)
    return partner


async def list_partners(app: StorageContext) -> list[Partner]:
    """Return all partners, newest first."""
    return await app.store.scan(merchants.list_partners())


async def get(app: StorageContext, partner_id: str) -> Partner:
    """Return one partner; partner_not_found."""
    partner = await app.store.read(merchants.find_partner(partner_id))
    if partner is None:
        raise ApiError(ErrorCode.PARTNER_NOT_FOUND)
    return partner


async def set_status(app: _Context, partner_id: str, status: str) -> Partner:
    """Suspend a partner or reactivate it; partner_not_found."""
    partner = await app.store.write(
        audited_change(
            app,
            merchants.find_partner(partner_id),
            merchants.set_partner_status(partner_id, status),
            lambda before, after: (
                _describe(AuditAction.PARTNER_STATUS_CHANGED, before, after) if after else None
            ),
        )
    )
    if partner is None:
        raise ApiError(ErrorCode.PARTNER_NOT_FOUND)
    app.notifier.publish(Topic.ACCOUNTS)
    return partner


def _describe(action: AuditAction, before: Partner | None, after: Partner) -> AuditChange:
    changes = list_changes(_list_values(before), _list_values(after))
    return AuditChange(action, AuditObject.PARTNER, after.id, changes=changes)


def _list_values(partner: Partner | None) -> dict[str, object]:
    return {} if partner is None else {"name": partner.name, "status": partner.status}
