"""Sessions that were ended before their time, and tickets of sign-ins that were used.

Both are for all processes and across restarts. They are kept for as long as a copy of a cookie
could be used: at most as many as there were sign-ins in that time.
"""

from __future__ import annotations

from florin_server.accounts.store import sign_outs
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Operation, StoreUnavailable, T
from florin_server.domain.refusals import bad_gateway_error


async def end_session(app: StorageContext, session_id: str, life_s: int) -> None:
    """End a session that lives for so long at most; ApiError(dependency) without a store."""
    op = sign_outs.end(session_id, app.clock.now_us(), life_s * 1_000_000)
    await _run(app, op, is_write=True)


async def has_ended(app: StorageContext, session_id: str) -> bool:
    """Return True if any process ended the session; ApiError(dependency) without a store."""
    return await _run(app, sign_outs.has_ended(session_id))


async def use_ticket(app: StorageContext, session_id: str, life_s: int) -> bool:
    """Use the only ticket of a new session, which is valid for a limited time.

    False if any process used it before; ApiError(dependency) without a store.
    """
    expires_at_us = app.clock.now_us() + 2 * life_s * 1_000_000
    return await _run(app, sign_outs.use_ticket(session_id, expires_at_us), is_write=True)


async def _run(app: StorageContext, op: Operation[T], *, is_write: bool = False) -> T:
    try:
        return await (app.store.write(op) if is_write else app.store.read(op))
    except StoreUnavailable as down:
        raise bad_gateway_error(wcp_profile=False) from down
