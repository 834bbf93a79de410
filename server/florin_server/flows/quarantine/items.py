"""What the operator does with items that were set aside: list, retry, resolve."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from florin_server.domain.errors import Code, FlorinError, invalid
from florin_server.domain.quarantine import ItemKind, ItemState, QuarantinedItem
from florin_server.flows.app import App
from florin_server.flows.quarantine.quarantine import by_chain
from florin_server.store.engine.query import Op, operation
from florin_server.store.quarantine import items as stored
from florin_server.store.webhooks import deliveries

_log = logging.getLogger(__name__)

_LISTED_MAX = 1000
NOTE_MAX = 256


async def list_items(app: App, *, all_: bool) -> Sequence[QuarantinedItem]:
    """Return items, the newest first: those that wait for the operator, or all."""
    return await app.store.read(stored.listed(_LISTED_MAX, all_=all_))


async def problem(app: App, chain_id: str) -> str:
    """Return in a sentence what of a chain (empty for none) waits for the operator."""
    return by_chain(await app.store.read(stored.counts())).get(chain_id, "")


async def retry(app: App, item_id: str) -> QuarantinedItem:
    """Give an item back to its worker; it is set aside again if its step fails again."""
    done = await app.store.write(_retry(item_id, app.clock.now_us()))
    _log.warning("the operator retries %s %s (%s)", done.kind, done.subject, done.id)
    await _changed(app, done)
    return done


async def resolve(app: App, item_id: str, note: str) -> QuarantinedItem:
    """Leave an item out for good, without an alarm; its state stays as it is."""
    if not note.strip() or len(note) > NOTE_MAX:
        raise invalid("note", f"must say in 1 to {NOTE_MAX} characters what was done")
    done = await app.store.write(_resolve(item_id, note))
    _log.warning("the operator resolved %s %s (%s): %s", done.kind, done.subject, done.id, note)
    await _changed(app, done)
    return done


async def _changed(app: App, item: QuarantinedItem) -> None:
    await app.quarantine.reload()
    app.hints.remembered()
    app.webhooks.asked.set()
    app.ask_payouts()
    if item.chain_id:
        app.wake_settler(item.chain_id)
        app.wake_payouts()


@operation
def _retry(item_id: str, now_us: int) -> Op[QuarantinedItem]:
    item = yield from _get(item_id)
    if item.state is ItemState.RETRIED:
        raise FlorinError(Code.INVALID_STATE, "The item is being retried already")
    if item.kind is ItemKind.DELIVERY:
        endpoint_id, _, payment_id = item.subject.partition("/")
        yield from deliveries.take_up(endpoint_id, payment_id, now_us)
    return (yield from stored.move(item_id, ItemState.RETRIED, None))


@operation
def _resolve(item_id: str, note: str) -> Op[QuarantinedItem]:
    item = yield from _get(item_id)
    if item.state is not ItemState.SET_ASIDE:
        raise FlorinError(Code.INVALID_STATE, f"The item is {item.state}, not set aside")
    return (yield from stored.move(item_id, ItemState.RESOLVED, note))


def _get(item_id: str) -> Op[QuarantinedItem]:
    item = yield from stored.lock(item_id)
    if item is None:
        raise FlorinError(Code.INVALID_PARAMS, "No such item")
    return item
