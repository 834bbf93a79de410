"""A partner moves the time on, where nothing but embedded chains goes by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from florin_server.base.clock import AdvanceableClock
from florin_server.db import installation
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.audit import AuditAction, AuditChange, AuditObject, list_changes
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.idempotency.service import fail_with, run_once
from florin_server.idempotency.store.responses import StoredResponse
from florin_server.operations.service.audit_log import audited
from florin_server.settings.context import SettingsContext


class _Context(SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


async def advance(
    app: _Context, caller: Caller, seconds: int, encode_response: Callable[[int], bytes]
) -> int | StoredResponse:
    """Advance the installation's clock for all; return the new time in microseconds.

    The embedded chains use the same clock. ApiError(invalid_state) where another chain exists,
    or the operator does not allow it.
    """
    if (clock := find_movable_clock(app)) is None:
        fault = ApiError(ErrorCode.INVALID_STATE, "The clock of this installation cannot be moved")
        return await run_once(app, caller, fail_with(fault), encode_response)
    change = AuditChange(
        AuditAction.CLOCK_ADVANCED,
        AuditObject.CLOCK,
        "",
        caller.partner_id,
        caller.live,
        list_changes({}, {"seconds": seconds}),
    )
    work = audited(app, _advance(app, seconds), lambda _: change)
    outcome = await run_once(app, caller, work, encode_response)
    if not isinstance(outcome, StoredResponse):
        clock.advance(seconds)
    return outcome


def find_movable_clock(app: _Context) -> AdvanceableClock | None:
    """Return the installation's clock, if it can be advanced."""
    clock = app.clock
    return clock if app.settings.sandbox_clock and isinstance(clock, AdvanceableClock) else None


@operation
def _advance(app: StorageContext, seconds: int) -> Op[int]:
    by_us = seconds * 1_000_000
    yield from installation.advance_clock(by_us)
    return app.clock.now_us() + by_us
