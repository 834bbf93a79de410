"""The operator moves a version pin forward."""

from __future__ import annotations

from typing import Protocol

from florin_server.accounts.store import keys, pins
from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.domain.accounts.credentials import ApiKeyKind
from florin_server.domain.audit import AuditAction, AuditChange, AuditObject, list_changes
from florin_server.domain.errors import ApiError, ErrorCode, validation_error
from florin_server.domain.versions import downgrade_error, list_versions_up_to
from florin_server.operations.service.audit_log import audited


class _Context(EventContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_OBJECTS = {
    ErrorCode.PARTNER_NOT_FOUND: AuditObject.PARTNER,
    ErrorCode.WALLET_NOT_FOUND: AuditObject.WALLET,
    ErrorCode.API_KEY_NOT_FOUND: AuditObject.KEY,
}


async def move(app: _Context, version: str, *, partner_id: str, app_id: str, key_id: str) -> str:
    """Move the pin of the one account whose id is not empty, also to a preview; return the pin.

    A pin never moves back: api_version_downgrade. Moving it to its present version changes nothing.
    """
    kinds = (
        (partner_id, pins.PARTNER, ErrorCode.PARTNER_NOT_FOUND),
        (app_id, pins.WALLET, ErrorCode.WALLET_NOT_FOUND),
        (key_id, pins.KEY, ErrorCode.API_KEY_NOT_FOUND),
    )
    named = [kind for kind in kinds if kind[0]]
    if len(named) != 1:
        raise validation_error("partnerId", "exactly one of partnerId, appId and keyId is required")
    ((id_, kind, unknown),) = named
    movable = list_versions_up_to(version)
    if key_id:
        await _refuse_partner_key(app, key_id)
    change = AuditChange(
        AuditAction.VERSION_CHANGED,
        _OBJECTS[unknown],
        id_,
        changes=list_changes({}, {"version": version}),
    )
    pin = await app.store.write(
        audited(
            app,
            pins.move_pin(kind, id_, movable, version),
            lambda moved: change if moved == version else None,
        )
    )
    if pin is None:
        raise ApiError(unknown)
    if pin != version:
        raise downgrade_error(pin)
    app.notifier.publish(Topic.ACCOUNTS)
    return pin


async def _refuse_partner_key(app: StorageContext, key_id: str) -> None:
    key = await app.store.read(keys.find_key(key_id))
    if key is not None and key.kind is ApiKeyKind.PARTNER:
        raise validation_error("keyId", "is a partner key: set the version of its partner instead")
