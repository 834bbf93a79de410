"""Sessions that were ended before their time, and tickets of sign-ins that were used.

Both are for all processes and across restarts.

They are kept as keys of requests are that must not be done again, for as long as a copy of a cookie
could be used: at most as many as there were sign-ins in that time.
"""

from __future__ import annotations

from typing import Final

from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Operation, StoreUnavailable, T
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.refusals import bad_gateway_error
from florin_server.idempotency.store import responses as idempotency

# of no partner: their scopes begin with their ids
_SCOPE: Final = "console session"
_TICKETS: Final = "console ticket"
_DIGEST_BYTES: Final = 16


async def end_session(app: StorageContext, session_id: str, life_s: int) -> None:
    """End a session that lives for so long at most; ApiError(dependency) without a store."""
    # a session can be ended twice: both write the same
    claim = idempotency.IdempotencyClaim(
        _SCOPE, session_id, b"", app.clock.now_us(), life_s * 1_000_000
    )
    await _run(app, idempotency.bind(claim), is_write=True)


async def has_ended(app: StorageContext, session_id: str) -> bool:
    """Return True if any process ended the session; ApiError(dependency) without a store."""
    op = idempotency.find_fingerprint(_SCOPE, session_id, app.clock.now_us())
    return await _run(app, op) is not None


async def use_ticket(app: StorageContext, session_id: str, life_s: int) -> bool:
    """Use the only ticket of a new session, which is valid for a limited time.

    False if any process used it before; ApiError(dependency) without a store.
    """
    # each use is a request of its own under one key: only the first one gets it
    use, ttl_us = app.randbytes(_DIGEST_BYTES), 2 * life_s * 1_000_000
    claim = idempotency.IdempotencyClaim(_TICKETS, session_id, use, app.clock.now_us(), ttl_us)
    try:
        await _run(app, idempotency.bind(claim), is_write=True)
    except ApiError as refused:
        if refused.code is ErrorCode.IDEMPOTENCY_CONFLICT:
            return False
        raise
    return True


async def _run(app: StorageContext, op: Operation[T], *, is_write: bool = False) -> T:
    try:
        return await (app.store.write(op) if is_write else app.store.read(op))
    except StoreUnavailable as down:
        raise bad_gateway_error(wcp_profile=False) from down
