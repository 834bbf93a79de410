"""The audit log: records actions in the transaction that they change something in.

    work = audited(app, keys.put_key(key), lambda _: AuditChange(AuditAction.KEY_CREATED, ...))
    await app.store.write(work)

The actor comes from the context of the call. Without one, Florin itself acts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, TypeVar

from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, Operation, T, operation
from florin_server.domain import cursor
from florin_server.domain.audit import (
    Actor,
    ActorKind,
    AuditChange,
    AuditChannel,
    AuditEntry,
    build_entry,
)
from florin_server.domain.ids import generate_short_id
from florin_server.operations.store import audit_log
from florin_server.operations.store.audit_log import AuditPosition, AuditQuery

B = TypeVar("B")

# returns the actor of the active call, as most calls record nothing; unset where Florin itself acts
ACTOR: Final[ContextVar[Callable[[], Actor]]] = ContextVar("florin_actor")
_FLORIN: Final = Actor(ActorKind.FLORIN, AuditChannel.FLORIN)
PAGE_SIZE: Final = 50
PAGE_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class AuditStamp:
    """The actor, the time and the id of an entry, known before the transaction starts."""

    at_us: int
    id: str
    actor: Actor


@dataclass(frozen=True, slots=True)
class AuditListPage:
    """One page of the log, the newest first; it can be short although another follows."""

    entries: list[AuditEntry]
    next_cursor: str | None


def create_stamp(app: StorageContext, actor: Actor | None = None) -> AuditStamp:
    """Return the stamp of an action; its operation may run in another context."""
    id_ = generate_short_id("aud_", app.randbytes)
    return AuditStamp(app.clock.now_us(), id_, actor or _get_actor())


def _get_actor() -> Actor:
    build = ACTOR.get(None)
    return _FLORIN if build is None else build()


def audited(
    app: StorageContext, work: Operation[T], describe: Callable[[T], AuditChange | None]
) -> Operation[T]:
    """Return an operation that also records what it changed; None if it changed nothing."""
    audited_work = _run_audited(work, describe, create_stamp(app))
    audited_work.snapshot, audited_work.apart = work.snapshot, work.apart
    return audited_work


def audited_change(
    app: StorageContext,
    read: Operation[B],
    work: Operation[T],
    describe: Callable[[B, T], AuditChange | None],
) -> Operation[T]:
    """Return an operation that also records what it changed, with what `read` finds before it."""
    return _run_audited_change(read, work, describe, create_stamp(app))


@operation
def _run_audited_change(
    read: Operation[B],
    work: Operation[T],
    describe: Callable[[B, T], AuditChange | None],
    stamp: AuditStamp,
) -> Op[T]:
    before = yield from read
    result = yield from work
    change = describe(before, result)
    if change is not None:
        yield from record(stamp, change)
    return result


@operation
def _run_audited(
    work: Operation[T], describe: Callable[[T], AuditChange | None], stamp: AuditStamp
) -> Op[T]:
    result = yield from work
    change = describe(result)
    if change is not None:
        yield from record(stamp, change)
    return result


@operation
def record(stamp: AuditStamp, change: AuditChange) -> Op[None]:
    """Record an action, as part of the operation that does it."""
    yield from audit_log.append(build_entry(stamp.at_us, stamp.id, stamp.actor, change))


async def record_now(
    app: StorageContext, changes: Iterable[AuditChange], actor: Actor | None = None
) -> None:
    """Record actions that change nothing else in the store."""
    stamps = [(create_stamp(app, actor), change) for change in changes]
    if stamps:
        await app.store.write(_record_all(stamps))


@operation
def _record_all(stamps: Iterable[tuple[AuditStamp, AuditChange]]) -> Op[None]:
    for stamp, change in stamps:
        yield from record(stamp, change)


async def list_entries(
    app: StorageContext,
    query: AuditQuery,
    page_cursor: str | None = None,
    limit: int | None = None,
) -> AuditListPage:
    """Return a page of the log; `page_cursor` is the cursor of the page before."""
    binding = json.dumps(
        [
            "audit",
            *query.owner,
            query.action,
            query.actor,
            query.object_id,
            query.from_us,
            query.until_us,
        ]
    )
    position = None
    if page_cursor is not None:
        position = AuditPosition(*cursor.decode_cursor(page_cursor, binding, int, str))
    page = await app.store.read(audit_log.list_page(query, position, limit or PAGE_SIZE))
    following = None
    if page.next_position is not None:
        following = cursor.encode_cursor(page.next_position, binding)
    return AuditListPage(list(page.entries), following)
