"""Ends what has a time: unconfirmed payments, keys, sessions, data about buyers, lost gas."""

from __future__ import annotations

import logging
from typing import Protocol

from florin_server.accounts.store import sign_outs
from florin_server.base.clock import sleep_remaining
from florin_server.base.context import EventContext
from florin_server.compliance.buyer_data import store as collected_data
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.payments.note import RESTORABLE_US
from florin_server.domain.quarantine import QuarantinedItemKind, format_error
from florin_server.idempotency.store import responses as idempotency
from florin_server.money.payments.store import notes, payments
from florin_server.money.settlement.store import gas
from florin_server.operations.context import QuarantineContext
from florin_server.operations.service.quarantine import is_unexpected
from florin_server.operations.store import audit_log


class _Context(EventContext, QuarantineContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

_BATCH_SIZE = 500
# the delay until a new payment is noticed; it lives longer than this, and every earlier read
# returns it as expired anyway
_POLL_S = 1.0
# keys live for days: their exact hour of deletion does not matter
_DELETE_INTERVAL_S = 3600.0
# as long as most books are kept
_AUDIT_RETENTION_US = 2 * 365 * 86_400_000_000
# budgets need one hour of lost gas, an operator's investigation a day
_GAS_RETENTION_S = 86_400


async def expire_payments(app: _Context) -> None:
    """Expire payments until canceled.

    One read finds all that are due, without a timer per payment.
    """
    while True:
        now_us = app.clock.now_us()
        due = await app.store.read(payments.find_next_expiry())
        if due is not None and due * 1_000_000 <= now_us:
            if await _expire_due(app, now_us):
                continue
            # a failed payment is quarantined by now, or left to the next read
            due = None
        wait_s = _POLL_S if due is None else min(_POLL_S, due - now_us / 1_000_000)
        await sleep_remaining(app.clock, max(wait_s, 0.001), now_us)


async def _expire_due(app: _Context, now_us: int) -> bool:
    """Expire a batch; if that fails unexpectedly, each payment alone. False if none was left."""
    try:
        expired = await app.store.write(payments.expire_due(now_us, _BATCH_SIZE))
        for payment in expired:
            app.notifier.publish_payment(payment)
    except Exception as error:
        if not is_unexpected(error):
            raise
        _log.warning(
            "a group of payments could not expire together; Florin expires each alone: %s",
            format_error(error),
        )
        return await _expire_each(app, now_us)
    return bool(expired)


async def _expire_each(app: _Context, now_us: int) -> bool:
    due = await app.store.read(payments.list_due(now_us, _BATCH_SIZE))
    for payment_id in app.quarantine.filter_active(QuarantinedItemKind.EXPIRY, "", due, str):
        async with app.quarantine.isolate(QuarantinedItemKind.EXPIRY, "", payment_id, "expire"):
            for payment in await app.store.write(payments.expire([payment_id], now_us)):
                app.notifier.publish_payment(payment)
    return bool(app.quarantine.filter_active(QuarantinedItemKind.EXPIRY, "", due, str))


async def delete_lapsed_keys(app: StorageContext) -> None:
    """Delete lapsed idempotency keys and console sessions in small batches until canceled."""
    while True:
        now_us = app.clock.now_us()
        if await app.store.write(_forget_lapsed_keys(now_us)) < _BATCH_SIZE:
            await sleep_remaining(app.clock, _DELETE_INTERVAL_S, now_us)


@operation
def _forget_lapsed_keys(now_us: int) -> Op[int]:
    keys = yield from idempotency.forget_lapsed(now_us, _BATCH_SIZE)
    sessions = yield from sign_outs.forget_lapsed(now_us, _BATCH_SIZE)
    return max(keys, sessions)


async def delete_due_data(app: StorageContext) -> None:
    """Delete data about buyers that is due in small batches until canceled."""
    while True:
        now_us = app.clock.now_us()
        if await app.store.write(collected_data.forget(now_us, _BATCH_SIZE)) < _BATCH_SIZE:
            await sleep_remaining(app.clock, _DELETE_INTERVAL_S, now_us)


async def delete_old_gas(app: StorageContext) -> None:
    """Delete what transactions lost long ago, in small batches until canceled."""
    while True:
        now_us = app.clock.now_us()
        until_us = now_us - _GAS_RETENTION_S * 1_000_000
        if await app.store.write(gas.forget(until_us, _BATCH_SIZE)) < _BATCH_SIZE:
            await sleep_remaining(app.clock, _DELETE_INTERVAL_S, now_us)


async def delete_old_records(app: StorageContext) -> None:
    """Delete old entries of the audit log and deleted notes, in small batches until canceled."""
    while True:
        now_us = app.clock.now_us()
        if await app.store.write(_forget_records(now_us)) < _BATCH_SIZE:
            await sleep_remaining(app.clock, _DELETE_INTERVAL_S, now_us)


@operation
def _forget_records(now_us: int) -> Op[int]:
    entries = yield from audit_log.forget(now_us - _AUDIT_RETENTION_US, _BATCH_SIZE)
    deleted = yield from notes.forget_deleted(now_us - RESTORABLE_US, _BATCH_SIZE)
    return max(entries, deleted)
