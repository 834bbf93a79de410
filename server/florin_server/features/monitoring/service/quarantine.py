"""The operator's actions on quarantined items: list, retry, resolve."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.audit import AuditAction, AuditChange, AuditObject, list_changes
from florin_server.domain.errors import ApiError, ErrorCode, validation_error
from florin_server.domain.quarantine import (
    QuarantinedItem,
    QuarantinedItemKind,
    QuarantinedItemState,
)
from florin_server.features.webhooks.store import deliveries
from florin_server.operations.context import QuarantineContext, WorkerContext
from florin_server.operations.service.audit_log import audited
from florin_server.operations.service.quarantine import describe_by_chain
from florin_server.operations.store import quarantine as stored


class _Context(EventContext, QuarantineContext, StorageContext, WorkerContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

_LIST_MAX = 1000
NOTE_MAX = 256


async def list_items(app: StorageContext, *, include_closed: bool) -> Sequence[QuarantinedItem]:
    """Return items, the newest first: those that wait for the operator, or all."""
    return await app.store.read(stored.list_items(_LIST_MAX, include_closed=include_closed))


async def describe_problem(app: StorageContext, chain_id: str) -> str:
    """Return in a sentence what of a chain (empty for none) waits for the operator."""
    return describe_by_chain(await app.store.read(stored.count_open())).get(chain_id, "")


async def retry(app: _Context, item_id: str) -> QuarantinedItem:
    """Return an item to its worker; it is quarantined again if its step fails again."""
    work = _retry(item_id, app.clock.now_us())
    done = await app.store.write(
        audited(app, work, lambda item: _describe(AuditAction.QUARANTINED_ITEM_RETRIED, item))
    )
    _log.warning("the operator retries %s %s (%s)", done.kind, done.subject, done.id)
    await _publish_change(app, done)
    return done


async def resolve(app: _Context, item_id: str, note: str) -> QuarantinedItem:
    """Leave an item out finally, without an alarm; its state does not change."""
    if not note.strip() or len(note) > NOTE_MAX:
        raise validation_error("note", f"must describe what was done in 1 to {NOTE_MAX} characters")
    done = await app.store.write(
        audited(
            app,
            _resolve(item_id, note),
            lambda item: _describe(AuditAction.QUARANTINED_ITEM_RESOLVED, item),
        )
    )
    _log.warning("the operator resolved %s %s (%s): %s", done.kind, done.subject, done.id, note)
    await _publish_change(app, done)
    return done


def _describe(action: AuditAction, item: QuarantinedItem) -> AuditChange:
    about = {"kind": item.kind, "subject": item.subject, "note": item.note}
    return AuditChange(
        action, AuditObject.QUARANTINED_ITEM, item.id, changes=list_changes({}, about)
    )


async def _publish_change(app: _Context, item: QuarantinedItem) -> None:
    await app.quarantine.reload()
    app.notifier.publish(Topic.QUARANTINE)
    app.notifier.publish(Topic.WEBHOOKS)
    if item.chain_id:
        app.notifier.publish(Topic.SETTLEMENT, item.chain_id)
        app.notifier.publish(Topic.PAYOUTS_DUE)


@operation
def _retry(item_id: str, now_us: int) -> Op[QuarantinedItem]:
    item = yield from _get(item_id)
    if item.state is QuarantinedItemState.RETRIED:
        raise ApiError(ErrorCode.INVALID_STATE, f"Item {item_id} is being retried already")
    if item.kind is QuarantinedItemKind.DELIVERY:
        endpoint_id, _, payment_id = item.subject.partition("/")
        yield from deliveries.resume(endpoint_id, payment_id, now_us)
    return (yield from stored.move(item_id, QuarantinedItemState.RETRIED, None))


@operation
def _resolve(item_id: str, note: str) -> Op[QuarantinedItem]:
    item = yield from _get(item_id)
    if item.state is not QuarantinedItemState.SET_ASIDE:
        raise ApiError(ErrorCode.INVALID_STATE, f"Item {item_id} is {item.state}, not quarantined")
    return (yield from stored.move(item_id, QuarantinedItemState.RESOLVED, note))


def _get(item_id: str) -> Op[QuarantinedItem]:
    item = yield from stored.lock(item_id)
    if item is None:
        raise ApiError(ErrorCode.INVALID_PARAMS, f"Quarantined item {item_id} not found")
    return item
