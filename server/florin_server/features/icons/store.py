"""Merchants' pictures, by URL and by digest.

Their number is limited; the picture that was unused for the longest is deleted first.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import delete, select

from florin_server.db.engine.query import Command, Op, Statement, insert, operation, param, upsert
from florin_server.db.tables.tables import icon_table

# each takes at most 48 KiB, usually a tenth of that
ICONS_MAX = 10_000
# few are over the limit, as pictures are added singly
_TRIMMED = 10


@dataclass(frozen=True, slots=True)
class Icon:
    """The result of fetching a URL; see the table."""

    url: str
    digest: str | None
    png: bytes | None
    fault: str | None
    tried_at_us: int


@dataclass(frozen=True, slots=True)
class IconStatus:
    """The result of fetching a URL, without the picture."""

    digest: str | None
    fault: str | None
    tried_at_us: int


_FIND_STATUS = Statement(
    select(icon_table.c.digest, icon_table.c.fault, icon_table.c.tried_at_us).where(
        icon_table.c.url == param("url_")
    ),
    IconStatus,
)
_PNG = Statement.nullable(
    select(icon_table.c.png).where(icon_table.c.digest == param("digest_")).limit(1), bytes
)
_PUT = Command(upsert(icon_table, "url"))
_NEW = insert(icon_table)
_FAILED = Command(
    _NEW.on_conflict_do_update(
        index_elements=["url"],
        set_={"fault": _NEW.excluded.fault, "tried_at_us": _NEW.excluded.tried_at_us},
    )
)
_OLD = (
    select(icon_table.c.url)
    .order_by(icon_table.c.tried_at_us.desc(), icon_table.c.url)
    .offset(param("icons_max"))
    .limit(_TRIMMED)
)
_TRIM = Command(delete(icon_table).where(icon_table.c.url.in_(_OLD)))
_LAPSED = (
    select(icon_table.c.url)
    .where(icon_table.c.tried_at_us < param("before_us"))
    .limit(param("limit"))
)
_FORGET = Statement(
    delete(icon_table).where(icon_table.c.url.in_(_LAPSED)).returning(icon_table.c.url), str
)


@operation
def find_status(url: str) -> Op[IconStatus | None]:
    """Return the status of a URL; None if it was never fetched."""
    return (yield from _FIND_STATUS.first(url_=url))


@operation
def find_png(digest: str) -> Op[bytes | None]:
    """Return the picture with a digest; None if it is not stored."""
    return (yield from _PNG.first(digest_=digest))


@operation
def put(fetched_icon: Icon) -> Op[None]:
    """Store a result; after a failed fetch, the earlier picture stays."""
    yield (_PUT if fetched_icon.png is not None else _FAILED)(fetched_icon)
    yield _TRIM(icons_max=ICONS_MAX)


@operation
def forget(before_us: int, limit: int) -> Op[int]:
    """Delete pictures not fetched since a time, up to `limit`; return how many."""
    return len((yield from _FORGET.all(before_us=before_us, limit=limit)))
