"""Saved views of the console: named filters of a partner's list of payments."""

from __future__ import annotations

from typing import Final

from florin_server.accounts.store import console_views
from florin_server.accounts.store.console_views import SavedView
from florin_server.db.context import StorageContext
from florin_server.domain.errors import validation_error

# of a partner in one mode
VIEWS_MAX: Final = 10
NAME_CHARS_MAX: Final = 40
QUERY_CHARS_MAX: Final = 500


async def list_views(app: StorageContext, partner_id: str, *, live: bool) -> list[SavedView]:
    """Return the views of a partner in one mode, the oldest first."""
    return await app.store.read(console_views.list_views(partner_id, live=live, limit=VIEWS_MAX))


async def save_view(app: StorageContext, partner_id: str, view: SavedView, *, live: bool) -> None:
    """Save a view, in place of one of its name; ApiError if it is invalid or one too many."""
    if not 0 < len(view.name) <= NAME_CHARS_MAX or not view.name.isprintable():
        raise validation_error("name", f"must have 1 to {NAME_CHARS_MAX} printable characters")
    if not view.query:
        raise validation_error("filters", "must not be empty")
    if len(view.query) > QUERY_CHARS_MAX:
        raise validation_error("filters", f"must have at most {QUERY_CHARS_MAX} characters")
    save = console_views.save(
        partner_id, view, live=live, now_us=app.clock.now_us(), limit=VIEWS_MAX
    )
    if not await app.store.write(save):
        raise validation_error("name", f"must be one of {VIEWS_MAX} views: remove one first")


async def remove_view(app: StorageContext, partner_id: str, name: str, *, live: bool) -> None:
    """Remove a view, if it exists."""
    await app.store.write(console_views.remove(partner_id, name, live=live))
