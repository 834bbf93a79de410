"""Named filters of the console's list of payments, of a partner in one mode."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import delete, func, select

from florin_server.db.engine.query import Command, Op, Statement, operation, param, upsert
from florin_server.db.tables.tables import console_view_table, partner_table

_OF_PARTNER = (
    console_view_table.c.partner_id == param("partner"),
    console_view_table.c.live == param("is_live"),
)


@dataclass(frozen=True, slots=True)
class SavedView:
    """A filter with its name; `query` is that of the list's address."""

    name: str
    query: str


# two browsers save one after the other, so that there are never more than allowed
_LOCK = Statement(
    select(partner_table.c.id).where(partner_table.c.id == param("partner")).with_for_update(), str
)
_LIST = Statement(
    select(console_view_table.c.name, console_view_table.c.query)
    .where(*_OF_PARTNER)
    .order_by(console_view_table.c.created_at_us, console_view_table.c.name)
    .limit(param("limit")),
    SavedView,
)
_COUNT_OTHERS = Statement(
    select(func.count())
    .select_from(console_view_table)
    .where(*_OF_PARTNER, console_view_table.c.name != param("of_name")),
    int,
)
_PUT = Command(upsert(console_view_table, "partner_id", "live", "name"))
_DELETE = Command(
    delete(console_view_table).where(*_OF_PARTNER, console_view_table.c.name == param("of_name"))
)


@operation
def list_views(partner_id: str, *, live: bool, limit: int) -> Op[list[SavedView]]:
    """Return a partner's views in one mode, the oldest first."""
    return (yield from _LIST.all(partner=partner_id, is_live=live, limit=limit))


@operation
def save(partner_id: str, view: SavedView, *, live: bool, now_us: int, limit: int) -> Op[bool]:
    """Save a view, in place of one of its name; return False if it would be one too many."""
    yield from _LOCK.any(partner=partner_id)
    view_count = yield from _COUNT_OTHERS.single(
        partner=partner_id, is_live=live, of_name=view.name
    )
    if view_count >= limit:
        return False
    yield _PUT(
        partner_id=partner_id, live=live, name=view.name, query=view.query, created_at_us=now_us
    )
    return True


@operation
def remove(partner_id: str, name: str, *, live: bool) -> Op[None]:
    """Remove a view, if it exists."""
    yield _DELETE(partner=partner_id, is_live=live, of_name=name)
