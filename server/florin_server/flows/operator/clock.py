"""A partner moves the time on, where nothing but embedded chains goes by it."""

from __future__ import annotations

from collections.abc import Callable

from florin_server.clock import Movable
from florin_server.domain.errors import Code, FlorinError
from florin_server.flows.app import App, Caller
from florin_server.flows.payments.idempotent import failing, once
from florin_server.store.engine.query import Op, operation
from florin_server.store.operator import installation
from florin_server.store.payments.idempotency import Replay


async def advance(
    app: App, caller: Caller, seconds: int, receipt: Callable[[int], bytes]
) -> int | Replay:
    """Moves the installation's time on, for everybody; answers the new time in microseconds.

    The embedded chains go by the same clock. FlorinError(invalid_state) where there is another
    chain, or the operator does not want it.
    """
    if (clock := movable(app)) is None:
        fault = FlorinError(Code.INVALID_STATE, "The time of this installation cannot be moved")
        return await once(app, caller, failing(fault), receipt)
    outcome = await once(app, caller, _move(app, seconds), receipt)
    if not isinstance(outcome, Replay):
        clock.advance(seconds)
    return outcome


def movable(app: App) -> Movable | None:
    """The installation's clock, if it may be moved on."""
    clock = app.clock
    return clock if app.settings.sandbox_clock and isinstance(clock, Movable) else None


@operation
def _move(app: App, seconds: int) -> Op[int]:
    by_us = seconds * 1_000_000
    yield from installation.move_clock(by_us)
    return app.clock.now_us() + by_us
