"""Single values of an installation, by name."""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import delete, select

from florin_server.db.engine.query import Command, Op, Statement, operation, param, upsert
from florin_server.db.tables.tables import installation_table

TREASURY_HISTORY_PREFIX: Final = "history:"
"""The beginning of the names of values for treasuries whose history on chain is checked."""


class _NamedValue(NamedTuple):
    name: str
    value: str


_GET = Statement(
    select(installation_table.c.value).where(installation_table.c.name == param("name")), str
)
_LOCK = Statement(
    select(installation_table.c.value)
    .where(installation_table.c.name == param("name"))
    .with_for_update(),
    str,
)
_PUT = Command(upsert(installation_table, "name"))
_FORGET = Statement(
    delete(installation_table)
    .where(installation_table.c.name == param("name_"))
    .returning(installation_table.c.value),
    str,
)
_BY_PREFIX = Statement(
    select(installation_table.c.name, installation_table.c.value).where(
        installation_table.c.name.like(param("prefix"))
    ),
    _NamedValue,
)

# microseconds that the test clock is ahead of the machine's
_AHEAD = "test_clock_ahead_us"
# a chain's newest block up to which everything was read, and when that was
_FOLLOWED = "followed:"
# microseconds since the Unix epoch at which this store was copied from another: before a process
# has started on it, and after, while executors are paused for it
_COPIED, _RESTORED = "copied_at_us", "restored_from_us"
# the server and timeline of the store; why it may lack recent writes, once that is known
_DATABASE, _BEHIND = "database", "behind"


@operation
def find_value(name: str) -> Op[str | None]:
    """Return the value of a name; None if it has none."""
    return (yield from _GET.first(name=name))


@operation
def put_value(name: str, value: str) -> Op[None]:
    """Store a value under a name; part of an operation."""
    yield _PUT(name=name, value=value)


@operation
def forget_value(name: str) -> Op[None]:
    """Delete the value of a name; part of an operation."""
    yield from _FORGET.all(name_=name)


@operation
def list_values(prefix: str) -> Op[dict[str, str]]:
    """Return the values of names with a prefix, by the rest of the name."""
    rows = yield from _BY_PREFIX.all(prefix=f"{prefix}%")
    return {name.removeprefix(prefix): value for name, value in rows}


@operation
def get_clock_offset() -> Op[int]:
    """Return the microseconds by which the test clock is ahead."""
    return int((yield from find_value(_AHEAD)) or 0)


@operation
def advance_clock(by_us: int) -> Op[int]:
    """Advance the test clock; return the total microseconds that it is ahead."""
    ahead_us = int((yield from _LOCK.first(name=_AHEAD)) or 0) + by_us
    yield from put_value(_AHEAD, str(ahead_us))
    return ahead_us


@operation
def find_followed_block(chain_id: str) -> Op[tuple[int, int] | None]:
    """Return a chain's last recorded read block, and its time in Unix seconds; None if unset."""
    value = yield from find_value(_FOLLOWED + chain_id)
    if value is None:
        return None
    block, _, at = value.partition(" ")
    return int(block), int(at)


@operation
def get_last_followed() -> Op[int]:
    """Return when any chain was last read, in Unix seconds; 0 if none ever was."""
    values = yield from list_values(_FOLLOWED)
    return max((int(value.partition(" ")[2]) for value in values.values()), default=0)


@operation
def record_followed_block(chain_id: str, block: int, at: int) -> Op[None]:
    """Record that all events of a chain up to a block were read."""
    yield from put_value(_FOLLOWED + chain_id, f"{block} {at}")


@operation
def mark_copied(at_us: int) -> Op[None]:
    """Mark this store as a copy of another, made at a time."""
    yield from _put_earliest(_COPIED, at_us)


@operation
def claim_copy() -> Op[bool]:
    """Return True for the first process that starts on a copy."""
    copied_at_us = yield from _FORGET.first(name_=_COPIED)
    if copied_at_us is not None:
        # a copy's database is another one: that must not pause payouts again once they are resumed
        yield from _FORGET.all(name_=_DATABASE)
        yield from _put_earliest(_RESTORED, int(copied_at_us))
    return copied_at_us is not None


def _put_earliest(name: str, at_us: int) -> Op[None]:
    """Keep the earliest time: a copy of a copy lacks all since the first, unless resolved."""
    recorded = yield from find_value(name)
    yield from put_value(name, str(at_us if recorded is None else min(at_us, int(recorded))))


@operation
def find_restore_time() -> Op[int | None]:
    """Return the time of a copy on which a process has started; None if none, or resolved."""
    value = yield from find_value(_RESTORED)
    return None if value is None else int(value)


@operation
def forget_copy() -> Op[None]:
    """Forget the copy: no executor is paused for it any more."""
    yield from _FORGET.all(name_=_RESTORED)


@operation
def record_database(identity: str) -> Op[str | None]:
    """Record the store's database; return the earlier database if it was another, else None."""
    recorded = yield from find_value(_DATABASE)
    if recorded == identity:
        return None
    yield from put_value(_DATABASE, identity)
    return recorded


@operation
def mark_behind(reason: str) -> Op[None]:
    """Record why the store may lack recent writes; the first reason stays. Part of an operation.

    Record nothing on a copy, as its state is already known.
    """
    if (yield from find_value(_BEHIND)) is None and (yield from find_value(_RESTORED)) is None:
        yield from put_value(_BEHIND, reason)


@operation
def get_behind_reason() -> Op[str]:
    """Return why the store may lack recent writes; empty if resolved or unknown."""
    return (yield from find_value(_BEHIND)) or ""


@operation
def forget_behind() -> Op[None]:
    """Forget the reason: no executor is paused for it any more."""
    yield from _FORGET.all(name_=_BEHIND)
