"""Ends what has a time: unconfirmed payments, idempotency keys, data about buyers, lost gas."""

from __future__ import annotations

import logging

from florin_server.clock import rest
from florin_server.domain.quarantine import ItemKind, describe_error
from florin_server.flows.app import Core
from florin_server.flows.quarantine.quarantine import is_unexpected
from florin_server.store.capture import collected_data
from florin_server.store.payments import idempotency, payments
from florin_server.store.settlement import gas

_log = logging.getLogger(__name__)

_A_BATCH = 500
# how long a payment that was created meanwhile may wait to be noticed; it lives longer than this,
# and whoever looks at it before sees it expired anyway
_LOOK_S = 1.0
# keys live for days: nothing depends on the hour in which they go
_FORGET_S = 3600.0
# budgets look at one hour of lost gas, an operator who asks why at the day
_LOST_GAS_S = 86_400


async def expire(app: Core) -> None:
    """Works until cancelled; one look finds all that are due, without a timer per payment."""
    while True:
        now_us = app.clock.now_us()
        due = await app.store.read(payments.next_expiry())
        if due is not None and due * 1_000_000 <= now_us:
            if await _expire_due(app, now_us):
                continue
            # what failed is set aside by now, or left to the next look
            due = None
        wait_s = _LOOK_S if due is None else min(_LOOK_S, due - now_us / 1_000_000)
        await rest(app.clock, max(wait_s, 0.001), now_us)


async def _expire_due(app: Core, now_us: int) -> bool:
    """Expire a batch; if that fails unexpectedly, each payment alone. False if none was left."""
    try:
        expired = await app.store.write(payments.expire_due(now_us, _A_BATCH))
        for payment in expired:
            await app.changed(payment)
    except Exception as error:
        if not is_unexpected(error):
            raise
        _log.warning("payments expire one by one: %s", describe_error(error))
        return await _expire_each(app, now_us)
    return bool(expired)


async def _expire_each(app: Core, now_us: int) -> bool:
    due = await app.store.read(payments.due(now_us, _A_BATCH))
    for payment_id in app.quarantine.left_in(ItemKind.EXPIRY, "", due, str):
        async with app.quarantine.isolating(ItemKind.EXPIRY, "", payment_id, "expire"):
            for payment in await app.store.write(payments.expire([payment_id], now_us)):
                await app.changed(payment)
    return bool(app.quarantine.left_in(ItemKind.EXPIRY, "", due, str))


async def forget_keys(app: Core) -> None:
    """Deletes lapsed idempotency keys in small batches until cancelled."""
    while True:
        now_us = app.clock.now_us()
        if await app.store.write(idempotency.forget_lapsed(now_us, _A_BATCH)) < _A_BATCH:
            await rest(app.clock, _FORGET_S, now_us)


async def forget_data(app: Core) -> None:
    """Deletes data about buyers that is due in small batches until cancelled."""
    while True:
        now_us = app.clock.now_us()
        if await app.store.write(collected_data.forget(now_us, _A_BATCH)) < _A_BATCH:
            await rest(app.clock, _FORGET_S, now_us)


async def forget_gas(app: Core) -> None:
    """Deletes what transactions lost long ago, in small batches until cancelled."""
    while True:
        now_us = app.clock.now_us()
        until_us = now_us - _LOST_GAS_S * 1_000_000
        if await app.store.write(gas.forget(until_us, _A_BATCH)) < _A_BATCH:
            await rest(app.clock, _FORGET_S, now_us)
