"""Whose turn it is under an idempotency key that only guards, where several processes may have it.

A turn belongs to a process and lasts as long as the process says that it lives: the turns of one
that died are taken over by whoever asks next.
"""

from __future__ import annotations

from sqlalchemy import and_, delete, func, or_, select

from florin_server.store.engine.query import Op, Statement, apart, insert, operation, param
from florin_server.store.limits.sharing import ALIVE_US
from florin_server.store.payments import idempotency
from florin_server.store.payments.idempotency import Claim
from florin_server.store.tables.tables import key_turn, process

_new = insert(key_turn)
_newest = process.alias("newest")
_alive = select(process.c.id).where(
    process.c.now_us > select(func.max(_newest.c.now_us)).scalar_subquery() - ALIVE_US
)
_TAKE = Statement(
    _new.on_conflict_do_update(
        index_elements=["scope", "key"],
        set_={"process_id": _new.excluded.process_id},
        where=or_(
            key_turn.c.process_id == _new.excluded.process_id, key_turn.c.process_id.not_in(_alive)
        ),
    ).returning(key_turn.c.key)
)
_GIVE_BACK = Statement(
    delete(key_turn).where(
        and_(
            key_turn.c.scope == param("scope_"),
            key_turn.c.key == param("key_"),
            key_turn.c.process_id == param("own"),
        )
    )
)


@apart
def take(claim: Claim, own: str) -> Op[tuple[bool, bytes | None]]:
    """Takes the turn under a key; False while another process has it.

    Answers also the fingerprint of the request that the key stands for, None if it may be used. No
    turn is taken under a key that stands for another request than the claim's.
    """
    known = yield from idempotency.find(claim.scope, claim.key, claim.now_us)
    if known not in (None, claim.fingerprint):
        return True, known
    if not (yield _TAKE(scope=claim.scope, key=claim.key, process_id=own)):
        return False, known
    # who had it until now may have bound it
    known = yield from idempotency.find(claim.scope, claim.key, claim.now_us)
    if known not in (None, claim.fingerprint):
        yield from give_back(claim.scope, claim.key, own)
    return True, known


@operation
def bind(claim: Claim, own: str) -> Op[None]:
    """Binds a key to the request that was done in its turn, and gives the turn back.

    FlorinError(idempotency_conflict) if another request was done meanwhile, by whoever took the
    turn of a process that was thought dead.
    """
    yield from idempotency.guard(claim)
    yield from give_back(claim.scope, claim.key, own)


@operation
def give_back(scope: str, key: str, own: str) -> Op[None]:
    """Gives a turn back, if the process has it."""
    yield _GIVE_BACK(scope_=scope, key_=key, own=own)
