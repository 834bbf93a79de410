"""Sessions that were ended before their time, and tickets of sign-ins that were used.

Both are for all processes and across restarts.

They are kept as keys of requests are that must not be done again, for as long as a copy of a cookie
could be used: at most as many as there were sign-ins in that time.
"""

from __future__ import annotations

from typing import Final

from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.refusals import dependency_down
from florin_server.flows.app import App
from florin_server.store.engine.query import Operation, StoreUnavailable, T
from florin_server.store.payments import idempotency

# of no partner: their scopes begin with their ids
_SCOPE: Final = "console session"
_TICKETS: Final = "console ticket"
_USE_BYTES: Final = 16


async def end(app: App, session_id: str, life_s: int) -> None:
    """Ends a session that lives for so long at most; FlorinError(dependency) without a store."""
    # ended twice is ended: both claim the same
    claim = idempotency.Claim(_SCOPE, session_id, b"", app.clock.now_us(), life_s * 1_000_000)
    await _asked(app, idempotency.guard(claim), write=True)


async def has_ended(app: App, session_id: str) -> bool:
    """True for one that any process ended; FlorinError(dependency) without a store."""
    found = idempotency.find(_SCOPE, session_id, app.clock.now_us())
    return await _asked(app, found) is not None


async def take(app: App, session_id: str, life_s: int) -> bool:
    """Use the one ticket of a session that begins, which is good for so long at most.

    False if any process took it before; FlorinError(dependency) without a store.
    """
    # each use is another request under one key: only the first one gets it
    use, ttl_us = app.randbytes(_USE_BYTES), 2 * life_s * 1_000_000
    claim = idempotency.Claim(_TICKETS, session_id, use, app.clock.now_us(), ttl_us)
    try:
        await _asked(app, idempotency.guard(claim), write=True)
    except FlorinError as refused:
        if refused.code is Code.IDEMPOTENCY_CONFLICT:
            return False
        raise
    return True


async def _asked(app: App, asked: Operation[T], *, write: bool = False) -> T:
    try:
        return await (app.store.write(asked) if write else app.store.read(asked))
    except StoreUnavailable as down:
        raise dependency_down(wcp_profile=False) from down
