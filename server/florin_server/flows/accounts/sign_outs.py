"""Sessions that were ended before their time, for all processes and across restarts.

They are kept as keys of requests are that must not be done again, for as long as a copy of a cookie
could be used: at most as many as there were sign-ins in that time.
"""

from __future__ import annotations

from typing import Final

from florin_server.domain.refusals import dependency_down
from florin_server.flows.app import App
from florin_server.store.engine.query import Operation, StoreUnavailable, T
from florin_server.store.payments import idempotency

# of no partner: their scopes begin with their ids
_SCOPE: Final = "console session"


async def end(app: App, session_id: str, life_s: int) -> None:
    """Ends a session that lives for so long at most; FlorinError(dependency) without a store."""
    # ended twice is ended: both claim the same
    claim = idempotency.Claim(_SCOPE, session_id, b"", app.clock.now_us(), life_s * 1_000_000)
    await _asked(app, idempotency.guard(claim), write=True)


async def has_ended(app: App, session_id: str) -> bool:
    """True for one that any process ended; FlorinError(dependency) without a store."""
    found = idempotency.find(_SCOPE, session_id, app.clock.now_us())
    return await _asked(app, found) is not None


async def _asked(app: App, asked: Operation[T], *, write: bool = False) -> T:
    try:
        return await (app.store.write(asked) if write else app.store.read(asked))
    except StoreUnavailable as down:
        raise dependency_down(wcp_profile=False) from down
