"""Console sessions that were ended before their time, and those whose ticket was used."""

from __future__ import annotations

from sqlalchemy import delete, select

from florin_server.db.engine.query import Command, Op, Statement, insert, operation, param, upsert
from florin_server.db.tables.tables import console_session_table

# a ticket of a session that was ended is as good as used
_END = Command(upsert(console_session_table, "session_id"))
_USE_TICKET = Statement(
    insert(console_session_table)
    .on_conflict_do_nothing()
    .returning(console_session_table.c.session_id),
    str,
)
_FIND_END = Statement(
    select(console_session_table.c.ended_at_us).where(
        console_session_table.c.session_id == param("session_id"),
        console_session_table.c.ended_at_us.is_not(None),
    ),
    int,
)
_LAPSED = Statement(
    select(console_session_table.c.session_id)
    .where(console_session_table.c.expires_at_us <= param("now_us"))
    .order_by(console_session_table.c.expires_at_us)
    .limit(param("limit")),
    str,
)
_FORGET_LAPSED = Command(
    delete(console_session_table).where(
        console_session_table.c.session_id == param("session_id_"),
        console_session_table.c.expires_at_us <= param("now_us"),
    )
)


@operation
def end(session_id: str, now_us: int, ttl_us: int) -> Op[None]:
    """End a session, whose cookies are invalid anyway once the time is over."""
    yield _END(session_id=session_id, ended_at_us=now_us, expires_at_us=now_us + ttl_us)


@operation
def has_ended(session_id: str) -> Op[bool]:
    """Return whether a session was ended before its time."""
    return (yield from _FIND_END.any(session_id=session_id))


@operation
def use_ticket(session_id: str, expires_at_us: int) -> Op[bool]:
    """Use the only ticket of a session; return False if it was used, or the session was ended."""
    return (
        yield from _USE_TICKET.any(
            session_id=session_id, ended_at_us=None, expires_at_us=expires_at_us
        )
    )


@operation
def forget_lapsed(now_us: int, limit: int) -> Op[int]:
    """Delete sessions that are invalid anyway, the oldest first; return how many."""
    session_ids = yield from _LAPSED.all(now_us=now_us, limit=limit)
    if session_ids:
        yield _FORGET_LAPSED.bind_many(
            [{"session_id_": session_id, "now_us": now_us} for session_id in sorted(session_ids)]
        )
    return len(session_ids)
