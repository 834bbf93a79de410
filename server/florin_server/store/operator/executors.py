"""Executors: which of them the operator has paused, and what they have sent that is open."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import delete, func, select, text

from florin_server.store.engine.query import Op, Statement, insert, operation, param
from florin_server.store.hints import generations
from florin_server.store.operator import installation
from florin_server.store.tables.settlement import OPEN
from florin_server.store.tables.tables import chain_tx, executor_pause

_PAUSE = Statement(insert(executor_pause).on_conflict_do_nothing())
_RESUME = Statement(delete(executor_pause).where(executor_pause.c.id == param("id_")))
_PAUSES = Statement(select(executor_pause))
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
def resume(executor_id: str) -> Op[None]:
    """Ends a pause, if there is one."""
    yield _RESUME(id_=executor_id)
    if not (yield _PAUSES()):
        yield from installation.forget_copy()
    yield from generations.bump(generations.Kind.EXECUTORS)


@operation
def pauses() -> Op[dict[str, int]]:
    """Since when executors are paused, by id."""
    return dict([row[:2] for row in (yield _PAUSES())])


@operation
def open_transactions() -> Op[dict[str, int]]:
    """How many transactions are neither final nor replaced, by who sent them, whatever process."""
    return {f"{chain_id}:{sender}": count for chain_id, sender, count in (yield _OPEN())}
