"""What an installation keeps once, by name."""

from __future__ import annotations

from sqlalchemy import select

from florin_server.store.engine.query import Op, Statement, operation, param, upsert
from florin_server.store.tables.tables import installation

_GET = Statement(select(installation.c.value).where(installation.c.name == param("name")))
_LOCK = Statement(
    select(installation.c.value).where(installation.c.name == param("name")).with_for_update()
)
_PUT = Statement(upsert(installation, "name"))
_ALL_FOLLOWED = Statement(
    select(installation.c.value).where(installation.c.name.like(param("prefix")))
)

# microseconds that the test clock is ahead of the machine's
_AHEAD = "test_clock_ahead_us"
# the newest block of a chain before which nothing was left unread, and when that was
_FOLLOWED = "followed:"


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
    rows = yield _ALL_FOLLOWED(prefix=f"{_FOLLOWED}%")
    return max((int(value.partition(" ")[2]) for (value,) in rows), default=0)


@operation
def follow(chain_id: str, block: int, at: int) -> Op[None]:
    """Writes down that all events of a chain up to a block were looked at."""
    yield from put(_FOLLOWED + chain_id, f"{block} {at}")
