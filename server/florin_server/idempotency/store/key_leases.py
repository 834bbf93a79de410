"""Turns under an idempotency key that is only a lock, where several processes share the store.

A turn belongs to a process and lasts while the process reports that it is alive. The next caller
takes over the turns of a dead process.
"""

from __future__ import annotations

from sqlalchemy import and_, delete, func, or_, select

from florin_server.db.engine.query import Command, Op, Statement, insert, isolated, operation, param
from florin_server.db.tables.tables import key_turn_table, process_table
from florin_server.idempotency.store import responses as idempotency
from florin_server.idempotency.store.responses import IdempotencyClaim
from florin_server.limits.store import ALIVE_US

_new = insert(key_turn_table)
_newest = process_table.alias("newest")
_alive = select(process_table.c.id).where(
    process_table.c.now_us > select(func.max(_newest.c.now_us)).scalar_subquery() - ALIVE_US
)
_TAKE = Statement(
    _new.on_conflict_do_update(
        index_elements=["scope", "key"],
        set_={"process_id": _new.excluded.process_id},
        where=or_(
            key_turn_table.c.process_id == _new.excluded.process_id,
            key_turn_table.c.process_id.not_in(_alive),
        ),
    ).returning(key_turn_table.c.key),
    str,
)
_GIVE_BACK = Command(
    delete(key_turn_table).where(
        and_(
            key_turn_table.c.scope == param("scope_"),
            key_turn_table.c.key == param("key_"),
            key_turn_table.c.process_id == param("own"),
        )
    )
)


@isolated
def acquire(claim: IdempotencyClaim, process_id: str) -> Op[tuple[bool, bytes | None]]:
    """Take the turn under a key; return False while another process has it.

    Also return the fingerprint of the request bound to the key, None if it is free. No turn is
    taken under a key that is bound to another request than the claim's.
    """
    fingerprint = yield from idempotency.find_fingerprint(claim.scope, claim.key, claim.now_us)
    if fingerprint not in (None, claim.fingerprint):
        return True, fingerprint
    if not (yield from _TAKE.any(scope=claim.scope, key=claim.key, process_id=process_id)):
        return False, fingerprint
    # the process that had it may have bound the key
    fingerprint = yield from idempotency.find_fingerprint(claim.scope, claim.key, claim.now_us)
    if fingerprint not in (None, claim.fingerprint):
        yield from release(claim.scope, claim.key, process_id)
    return True, fingerprint


@operation
def bind(claim: IdempotencyClaim, process_id: str) -> Op[None]:
    """Bind a key to the request that ran in its turn, and give the turn back.

    Raise ApiError(idempotency_conflict) if another request ran meanwhile, in a process that took
    the turn of this process as dead.
    """
    yield from idempotency.bind(claim)
    yield from release(claim.scope, claim.key, process_id)


@operation
def release(scope: str, key: str, process_id: str) -> Op[None]:
    """Give a turn back, if the process has it."""
    yield _GIVE_BACK(scope_=scope, key_=key, own=process_id)
