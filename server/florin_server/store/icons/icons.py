"""Pictures that merchants name, by their addresses and by what they are.

There are so many at most; whoever was not asked for the longest goes first.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import delete, select

from florin_server.store.engine.query import Op, Statement, insert, operation, param, upsert
from florin_server.store.tables.tables import icon

# each takes 48 KiB at most, and a tenth of that as a rule
ICONS_MAX = 10_000
# those that are too many are few: one is added at a time
_TRIMMED = 10


@dataclass(frozen=True, slots=True)
class Icon:
    """What was found at an address; see the table."""

    url: str
    digest: str | None
    png: bytes | None
    fault: str | None
    tried_at_us: int


@dataclass(frozen=True, slots=True)
class Known:
    """The same without the picture."""

    digest: str | None
    fault: str | None
    tried_at_us: int


_KNOWN = Statement(
    select(icon.c.digest, icon.c.fault, icon.c.tried_at_us).where(icon.c.url == param("url_"))
)
_PNG = Statement(select(icon.c.png).where(icon.c.digest == param("digest_")).limit(1))
_PUT = Statement(upsert(icon, "url"))
_NEW = insert(icon)
_FAILED = Statement(
    _NEW.on_conflict_do_update(
        index_elements=["url"],
        set_={"fault": _NEW.excluded.fault, "tried_at_us": _NEW.excluded.tried_at_us},
    )
)
_OLD = (
    select(icon.c.url)
    .order_by(icon.c.tried_at_us.desc(), icon.c.url)
    .offset(param("kept"))
    .limit(_TRIMMED)
)
_TRIM = Statement(delete(icon).where(icon.c.url.in_(_OLD)))
_LAPSED = select(icon.c.url).where(icon.c.tried_at_us < param("before_us")).limit(param("limit"))
_FORGET = Statement(delete(icon).where(icon.c.url.in_(_LAPSED)).returning(icon.c.url))


@operation
def known(url: str) -> Op[Known | None]:
    """What is known of an address."""
    rows = yield _KNOWN(url_=url)
    return Known(*rows[0]) if rows else None


@operation
def picture(digest: str) -> Op[bytes | None]:
    """The picture that a digest names."""
    rows = yield _PNG(digest_=digest)
    return bytes(rows[0][0]) if rows and rows[0][0] is not None else None


@operation
def put(found: Icon) -> Op[None]:
    """Keeps what was found. Where nothing was, what was found before stays."""
    yield (_PUT if found.png is not None else _FAILED).of(found)
    yield _TRIM(kept=ICONS_MAX)


@operation
def forget(before_us: int, limit: int) -> Op[int]:
    """Deletes what nobody asked for since a time, at most so many; tells how many."""
    return len((yield _FORGET(before_us=before_us, limit=limit)))
