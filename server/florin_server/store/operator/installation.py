"""What an installation keeps once, by name."""

from __future__ import annotations

from sqlalchemy import delete, select

from florin_server.store.engine.query import Op, Statement, operation, param, upsert
from florin_server.store.tables.tables import installation

_GET = Statement(select(installation.c.value).where(installation.c.name == param("name")))
_LOCK = Statement(
    select(installation.c.value).where(installation.c.name == param("name")).with_for_update()
)
_PUT = Statement(upsert(installation, "name"))
_FORGET = Statement(
    delete(installation)
    .where(installation.c.name == param("name_"))
    .returning(installation.c.value)
)
_BY_PREFIX = Statement(
    select(installation.c.name, installation.c.value).where(
        installation.c.name.like(param("prefix"))
    )
)

# microseconds that the test clock is ahead of the machine's
_AHEAD = "test_clock_ahead_us"
# the newest block of a chain before which nothing was left unread, and when that was
_FOLLOWED = "followed:"
# microseconds since the Unix epoch at which what this store holds was copied from another one:
# nobody has begun to work on it; somebody has, and something is paused for it
_COPIED, _RESTORED = "copied_at_us", "restored_from_us"
# which server and timeline the store was on; why it may lack what was done, since when it is known
_DATABASE, _BEHIND = "database", "behind"


@operation
def get(name: str) -> Op[str | None]:
    """What is kept under a name."""
    rows = yield _GET(name=name)
    return rows[0][0] if rows else None


@operation
def put(name: str, value: str) -> Op[None]:
    """Part of an operation: keeps something under a name."""
    yield _PUT(name=name, value=value)


@operation
def list_values(prefix: str) -> Op[dict[str, str]]:
    """Return what is kept under names with a prefix, by the rest of the name."""
    rows = yield _BY_PREFIX(prefix=f"{prefix}%")
    return {name.removeprefix(prefix): value for name, value in rows}


@operation
def clock_ahead() -> Op[int]:
    """Microseconds by which the test clock was moved on."""
    return int((yield from get(_AHEAD)) or 0)


@operation
def move_clock(by_us: int) -> Op[int]:
    """Moves the test clock on; answers by how much it is ahead in all."""
    rows = yield _LOCK(name=_AHEAD)
    ahead_us = (int(rows[0][0]) if rows else 0) + by_us
    yield from put(_AHEAD, str(ahead_us))
    return ahead_us


@operation
def followed(chain_id: str) -> Op[tuple[int, int] | None]:
    """The block up to which a chain was read when that was written down last, and Unix seconds."""
    value = yield from get(_FOLLOWED + chain_id)
    if value is None:
        return None
    block, _, at = value.partition(" ")
    return int(block), int(at)


@operation
def last_followed() -> Op[int]:
    """When any chain was looked at last, in Unix seconds; 0 if none ever was."""
    values = yield from list_values(_FOLLOWED)
    return max((int(value.partition(" ")[2]) for value in values.values()), default=0)


@operation
def follow(chain_id: str, block: int, at: int) -> Op[None]:
    """Writes down that all events of a chain up to a block were looked at."""
    yield from put(_FOLLOWED + chain_id, f"{block} {at}")


@operation
def mark_copied(at_us: int) -> Op[None]:
    """Says of this store that it is a copy of what another one held at a time."""
    yield from _put_earliest(_COPIED, at_us)


@operation
def begin_on_copy() -> Op[bool]:
    """True for the first who begins to work on a copy."""
    rows = yield _FORGET(name_=_COPIED)
    if rows:
        yield from _put_earliest(_RESTORED, int(rows[0][0]))
    return bool(rows)


def _put_earliest(name: str, at_us: int) -> Op[None]:
    """A copy of a copy knows nothing since the first was made, unless that was settled."""
    known = yield from get(name)
    yield from put(name, str(at_us if known is None else min(at_us, int(known))))


@operation
def restored_from() -> Op[int | None]:
    """When the copy was made that somebody has begun to work on; None if it is none, or settled."""
    value = yield from get(_RESTORED)
    return None if value is None else int(value)


@operation
def forget_copy() -> Op[None]:
    """Nothing is paused for it any more."""
    yield _FORGET(name_=_RESTORED)


@operation
def remember_database(identity: str) -> Op[str | None]:
    """Note which database the store is on; return the one that it was on before, if another."""
    known = yield from get(_DATABASE)
    if known == identity:
        return None
    yield from put(_DATABASE, identity)
    return known


@operation
def mark_behind(reason: str) -> Op[None]:
    """Part of an operation: notes why the store may lack what was done; the first reason stays.

    Nothing on a copy, of which that is known.
    """
    if (yield from get(_BEHIND)) is None and (yield from get(_RESTORED)) is None:
        yield from put(_BEHIND, reason)


@operation
def behind() -> Op[str]:
    """Return why the store may lack what was done; empty if it is settled, or nothing was found."""
    return (yield from get(_BEHIND)) or ""


@operation
def forget_behind() -> Op[None]:
    """Nothing is paused for it any more."""
    yield _FORGET(name_=_BEHIND)
