"""Executors: their pauses by the operator, and their open transactions."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import delete, func, select, text

from florin_server.db import generations, installation
from florin_server.db.engine.query import (
    Command,
    Op,
    Statement,
    StoreError,
    insert,
    operation,
    param,
)
from florin_server.db.tables.settlement import OPEN_TX_PREDICATE
from florin_server.db.tables.tables import chain_tx_table, executor_pause_table


class ExecutorPaused(StoreError):  # noqa: N818  (a state of the world, not a mistake)
    """An executor is paused; nothing was written, and nothing can be broadcast."""

    is_transient = True


class _Pause(NamedTuple):
    id: str
    paused_at_us: int


class _OpenCount(NamedTuple):
    chain_id: str
    sender: str
    number: int


_PAUSE = Command(insert(executor_pause_table).on_conflict_do_nothing())
_RESUME = Command(delete(executor_pause_table).where(executor_pause_table.c.id == param("id_")))
_PAUSES = Statement(select(executor_pause_table), _Pause)
_PAUSED = Statement(
    select(executor_pause_table.c.id).where(executor_pause_table.c.id == param("id_")), str
)
_OPEN = Statement(
    select(chain_tx_table.c.chain_id, chain_tx_table.c.sender, func.count().label("number"))
    .where(text(OPEN_TX_PREDICATE))
    .group_by(chain_tx_table.c.chain_id, chain_tx_table.c.sender),
    _OpenCount,
)


@operation
def pause(executor_id: str, now_us: int) -> Op[None]:
    """Store a pause; an existing pause keeps its start time."""
    yield _PAUSE(id=executor_id, paused_at_us=now_us)
    yield from generations.bump(generations.CacheKind.EXECUTORS)


@operation
def require_running(executor_id: str) -> Op[None]:
    """Raise ExecutorPaused if the executor is paused; part of an operation that sends with it."""
    if (yield from _PAUSED.any(id_=executor_id)):
        raise ExecutorPaused(f"{executor_id} is paused")


@operation
def pause_on_copy(executor_ids: Collection[str], now_us: int) -> Op[int | None]:
    """Return when the store was copied from another, while executors are paused for it.

    The first process on a copy pauses the executors that pay out: the copy lacks later payouts,
    which would be sent again. If that process has no such executors, the next process does it.
    """
    if executor_ids and (yield from installation.claim_copy()):
        for each_text in executor_ids:
            yield from pause(each_text, now_us)
    return (yield from installation.find_restore_time())


@operation
def pause_untrusted(executor_ids: Collection[str], now_us: int, reason: str) -> Op[None]:
    """Pause all executors that pay out, as the store may lack payouts; part of an operation."""
    yield from installation.mark_behind(reason)
    for each_text in executor_ids:
        yield from pause(each_text, now_us)


@operation
def check_database(executor_ids: Collection[str], now_us: int, identity: str) -> Op[str]:
    """Pause all executors that pay out if the store's database changed; return why, or "".

    `identity` names the server and its timeline. A promoted standby may lack the newest
    transactions, unless replication is synchronous, which Florin cannot detect.
    """
    before = yield from installation.record_database(identity)
    if before is None:
        return ""
    reason = f"the database changed from {before} to {identity}"
    yield from pause_untrusted(executor_ids, now_us, reason)
    return reason


@operation
def resume(executor_id: str) -> Op[None]:
    """End a pause, if there is any."""
    yield _RESUME(id_=executor_id)
    if not (yield from _PAUSES.any()):
        yield from installation.forget_copy()
        yield from installation.forget_behind()
    yield from generations.bump(generations.CacheKind.EXECUTORS)


@operation
def list_pauses() -> Op[dict[str, int]]:
    """Return since when executors are paused, in microseconds by id."""
    return dict((yield from _PAUSES.all()))


@operation
def count_open_transactions() -> Op[dict[str, int]]:
    """Return how many transactions are neither final nor replaced, by sender, of all processes."""
    return {f"{chain_id}:{sender}": count for chain_id, sender, count in (yield from _OPEN.all())}
