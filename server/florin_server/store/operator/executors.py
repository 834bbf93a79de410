"""Executors: which of them the operator has paused, and what they have sent that is open."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import delete, func, select, text

from florin_server.store.engine.query import Op, Statement, StoreError, insert, operation, param
from florin_server.store.hints import generations
from florin_server.store.operator import installation
from florin_server.store.tables.settlement import OPEN
from florin_server.store.tables.tables import chain_tx, executor_pause


class Paused(StoreError):  # noqa: N818  (a state of the world, not a mistake)
    """An executor is paused; nothing was written, and nothing may be broadcast."""

    passes = True


_PAUSE = Statement(insert(executor_pause).on_conflict_do_nothing())
_RESUME = Statement(delete(executor_pause).where(executor_pause.c.id == param("id_")))
_PAUSES = Statement(select(executor_pause))
_PAUSED = Statement(select(executor_pause.c.id).where(executor_pause.c.id == param("id_")))
_OPEN = Statement(
    select(chain_tx.c.chain_id, chain_tx.c.sender, func.count())
    .where(text(OPEN))
    .group_by(chain_tx.c.chain_id, chain_tx.c.sender)
)


@operation
def pause(executor_id: str, now_us: int) -> Op[None]:
    """Stores a pause; one that lasts already goes on since when it began."""
    yield _PAUSE(id=executor_id, paused_at_us=now_us)
    yield from generations.bump(generations.Kind.EXECUTORS)


@operation
def require_running(executor_id: str) -> Op[None]:
    """Part of an operation that sends with an executor; Paused if it is paused by now."""
    if (yield _PAUSED(id_=executor_id)):
        raise Paused(f"{executor_id} is paused")


@operation
def begin(pay_out: Collection[str], now_us: int) -> Op[int | None]:
    """When the store was copied from another one, as long as anything is paused for it.

    Whoever begins first on a copy pauses the executors that pay out: what they have sent since is
    not in it, and would be sent again. Where there is none the next one does.
    """
    if pay_out and (yield from installation.begin_on_copy()):
        for one in pay_out:
            yield from pause(one, now_us)
    return (yield from installation.restored_from())


@operation
def distrust(pay_out: Collection[str], now_us: int, reason: str) -> Op[None]:
    """Part of an operation: pauses all that pay out, as the store may lack what was paid out."""
    yield from installation.mark_behind(reason)
    for one in pay_out:
        yield from pause(one, now_us)


@operation
def check_database(pay_out: Collection[str], now_us: int, identity: str) -> Op[str]:
    """Pause all that pay out if the store is on another database than before; return why, or "".

    `identity` names the server and its timeline. A standby that was promoted may lack the newest
    transactions, unless replication is synchronous, which cannot be seen from here.
    """
    before = yield from installation.remember_database(identity)
    if before is None:
        return ""
    reason = f"the database changed from {before} to {identity}"
    yield from distrust(pay_out, now_us, reason)
    return reason


@operation
def resume(executor_id: str) -> Op[None]:
    """Ends a pause, if there is one."""
    yield _RESUME(id_=executor_id)
    if not (yield _PAUSES()):
        yield from installation.forget_copy()
        yield from installation.forget_behind()
    yield from generations.bump(generations.Kind.EXECUTORS)


@operation
def pauses() -> Op[dict[str, int]]:
    """Since when executors are paused, by id."""
    return dict([row[:2] for row in (yield _PAUSES())])


@operation
def open_transactions() -> Op[dict[str, int]]:
    """How many transactions are neither final nor replaced, by who sent them, whatever process."""
    return {f"{chain_id}:{sender}": count for chain_id, sender, count in (yield _OPEN())}
