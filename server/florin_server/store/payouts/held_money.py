"""Money of blocked payers: held with its booking, ended by the operator's verdict.

A payment whose money is held stays processing, and nothing but a verdict, or a reorganisation that
undoes the money, takes it from there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import delete, func, null, select, text, update

from florin_server.domain.ledger import journals
from florin_server.domain.payments.payment import FailureCode, Payment, Status
from florin_server.domain.payments.state import Event, step
from florin_server.domain.payouts.held_money import HeldMoney, HeldState
from florin_server.domain.settlement.chain_txs import Posting
from florin_server.store.engine.query import (
    Op,
    Statement,
    any_of,
    columns,
    insert,
    operation,
    param,
)
from florin_server.store.ledger import ledger
from florin_server.store.payments.payments import event_of, put_events
from florin_server.store.tables.held_money import OURS_TO_ANSWER_FOR
from florin_server.store.tables.payments import ConfirmState
from florin_server.store.tables.tables import (
    chain_tx,
    chain_tx_bump,
    chain_tx_item,
    confirm,
    held_money,
    payment,
)

# what a payment that failed by a verdict says of it
_REASONS = {
    HeldState.RETURNED: "payer is blocked: the operator returns the money",
    HeldState.KEPT: "payer is blocked: the operator keeps the money",
}
_EVENTS = {
    HeldState.RELEASED: Event.RELEASED,
    HeldState.RETURNED: Event.RETURNED,
    HeldState.KEPT: Event.KEPT,
}

_COLUMNS = columns(held_money, HeldMoney)
_ONE = held_money.c.id == param("id_")
_PUT = Statement(insert(held_money))
_GET = Statement(select(*_COLUMNS).where(_ONE))
_LOCK = Statement(select(*_COLUMNS).where(_ONE).with_for_update())
_OF_EVENT = Statement(
    select(*_COLUMNS).where(
        held_money.c.payment_id == param("payment_id"), held_money.c.event == param("event_")
    )
)
_BROUGHT_BY = Statement(
    select(*_COLUMNS)
    .where(
        held_money.c.chain_id == param("chain"),
        any_of(held_money.c.tx_hash, "hashes"),
        ~held_money.c.late,
    )
    .order_by(held_money.c.id)
    .with_for_update()
)
_LISTED = select(*_COLUMNS).order_by(held_money.c.since_us.desc(), held_money.c.id.desc())
_ALL = Statement(_LISTED.limit(param("limit")))
_OPEN = Statement(_LISTED.where(text(OURS_TO_ANSWER_FOR)).limit(param("limit")))
_COUNTS = Statement(
    select(held_money.c.chain_id, held_money.c.state, func.count())
    .where(text(OURS_TO_ANSWER_FOR))
    .group_by(held_money.c.chain_id, held_money.c.state)
)
_DECIDE = Statement(
    update(held_money)
    .where(_ONE)
    .values(
        state=param("verdict"),
        note=param("words"),
        decided_at_us=param("now_us"),
        payout_id=param("payout"),
        even_if_blocked=param("even"),
    )
    .returning(*_COLUMNS)
)
_MOVE = Statement(update(held_money).where(_ONE).values(state=param("after")))
_KEEP_AGAIN = Statement(
    update(held_money)
    .where(_ONE, held_money.c.state == HeldState.RETURNED)
    .values(state=HeldState.KEPT, payout_id=null(), even_if_blocked=False)
)
_FORGET = Statement(delete(held_money).where(_ONE))
_FORGET_UNDONE = Statement(delete(held_money).where(_ONE, held_money.c.state == HeldState.UNDONE))
_SET_CONFIRM = Statement(
    update(confirm).where(confirm.c.payment_id == param("payment")).values(state=param("after"))
)
_TOUCH = Statement(
    update(payment)
    .where(payment.c.id == param("payment"), payment.c.status == Status.PROCESSING)
    .values(version=payment.c.version + 1, updated_at_us=param("now_us"))
    .returning(*payment.c)
)
_END = Statement(
    update(payment)
    .where(payment.c.id == param("payment"), payment.c.status == Status.PROCESSING)
    .values(
        version=payment.c.version + 1,
        updated_at_us=param("now_us"),
        status=param("after"),
        tx_id=param("tx"),
        settled_value=param("settled"),
        failure_code=param("code"),
        failure_detail=param("detail"),
    )
    .returning(*payment.c)
)

_FOR_A_PAYMENT = (
    select(chain_tx.c.id)
    .join_from(chain_tx, chain_tx_item, chain_tx_item.c.tx_id == chain_tx.c.id)
    .where(
        chain_tx.c.chain_id == param("chain_id"),
        chain_tx_item.c.payment_id == param("payment_id"),
    )
)
_OURS = Statement(_FOR_A_PAYMENT.where(chain_tx.c.hash == param("hash_")))
_OURS_RAISED = Statement(
    _FOR_A_PAYMENT.join(chain_tx_bump, chain_tx_bump.c.tx_id == chain_tx.c.id).where(
        chain_tx_bump.c.hash == param("hash_")
    )
)


def key_of(one: HeldMoney) -> str:
    """What makes sure that a payment's held money is booked once."""
    return journals.held(one.payment_id)


@operation
def hold(one: HeldMoney, postings: Sequence[Posting], now_us: int) -> Op[Payment]:
    """Part of an operation: holds what paid a payment that is processing, and books it.

    Whoever calls this has seen that the payment is to be settled, in the same transaction.
    """
    yield _SET_CONFIRM(payment=one.payment_id, after=ConfirmState.HELD)
    (row,) = yield _TOUCH(payment=one.payment_id, now_us=now_us)
    stopped = Payment(*row)
    yield _PUT.of(one)
    # a reorganisation may have undone it before
    yield from ledger.post_again(
        key_of(one), journals.Kind.HELD, one.payment_id, one.tx_hash, postings, now_us
    )
    yield from put_events([event_of(stopped, Event.HELD, {"txId": one.tx_hash, "heldId": one.id})])
    return stopped


@operation
def sent_by_us(chain_id: str, payment_id: str, tx_hash: str) -> Op[bool]:
    """True if a transaction is one of ours, signed for a payment; looks at all raised ones."""
    asked = {"chain_id": chain_id, "payment_id": payment_id, "hash_": tx_hash}
    return bool((yield _OURS(**asked)) or (yield _OURS_RAISED(**asked)))


@operation
def put(one: HeldMoney) -> Op[None]:
    """Part of an operation: holds money that came late; whoever calls this books it."""
    yield _PUT.of(one)


@operation
def get(held_id: str) -> Op[HeldMoney | None]:
    """Held money by its id."""
    rows = yield _GET(id_=held_id)
    return HeldMoney(*rows[0]) if rows else None


@operation
def lock(held_id: str) -> Op[HeldMoney | None]:
    """Part of an operation: the same, which nobody else changes until it ends."""
    rows = yield _LOCK(id_=held_id)
    return HeldMoney(*rows[0]) if rows else None


@operation
def of_event(payment_id: str, event: str) -> Op[HeldMoney | None]:
    """What is known of a settlement event of a payment."""
    rows = yield _OF_EVENT(payment_id=payment_id, event_=event)
    return HeldMoney(*rows[0]) if rows else None


@operation
def brought_by(chain_id: str, tx_hashes: Collection[str]) -> Op[list[HeldMoney]]:
    """Part of an operation: what transactions brought for payments that waited for it, locked."""
    return [HeldMoney(*row) for row in (yield _BROUGHT_BY(chain=chain_id, hashes=tx_hashes))]


@operation
def listed(limit: int, *, all_: bool) -> Op[list[HeldMoney]]:
    """Held money, the newest first: all that ever was, or what is neither released nor returned."""
    return [HeldMoney(*row) for row in (yield (_ALL if all_ else _OPEN)(limit=limit))]


@operation
def counts() -> Op[list[tuple[str, HeldState, int]]]:
    """How much there is that is neither released nor returned: chain, state, how many."""
    return [(chain, state, count) for chain, state, count in (yield _COUNTS())]


@operation
def end(one: HeldMoney, verdict: HeldState, now_us: int) -> Op[Payment]:
    """Part of an operation: ends the payment that waits for a verdict about its money."""
    event = _EVENTS[verdict]
    released = verdict is HeldState.RELEASED
    (row,) = yield _END(
        payment=one.payment_id,
        now_us=now_us,
        after=step(Status.PROCESSING, event),
        tx=one.tx_hash if released else None,
        settled=one.settled_value if released else None,
        code=None if released else FailureCode.DECLINED_USER,
        detail=_REASONS.get(verdict),
    )
    ended = Payment(*row)
    yield _SET_CONFIRM(payment=one.payment_id, after=ConfirmState.DONE)
    yield from put_events([event_of(ended, event, {"heldId": one.id})])
    return ended


@operation
def decide(
    held_id: str,
    verdict: HeldState,
    note: str,
    payout_id: str | None,
    now_us: int,
    *,
    even_if_blocked: bool,
) -> Op[HeldMoney]:
    """Part of an operation: writes a verdict down."""
    (row,) = yield _DECIDE(
        id_=held_id,
        verdict=verdict,
        words=note,
        payout=payout_id,
        now_us=now_us,
        even=even_if_blocked,
    )
    return HeldMoney(*row)


@operation
def payout_refused(held_id: str) -> Op[None]:
    """Part of an operation: the payout was called off that would have returned it; it is kept.

    If a reorganisation undid that it came, there is nothing left of it.
    """
    yield _KEEP_AGAIN(id_=held_id)
    yield _FORGET_UNDONE(id_=held_id)


@operation
def undone(one: HeldMoney) -> Op[None]:
    """Part of an operation: it never came, and is on its way back, or went."""
    yield _MOVE(id_=one.id, after=HeldState.UNDONE)


@operation
def came_again(one: HeldMoney, now_us: int) -> Op[None]:
    """Part of an operation: what was returned already has come after all; books it once."""
    if one.state is HeldState.UNDONE:
        yield from ledger.repeat(key_of(one), now_us)
        yield _MOVE(id_=one.id, after=HeldState.RETURNED)


@operation
def forget(one: HeldMoney) -> Op[None]:
    """Part of an operation: it never came, and nothing was done with it."""
    yield _FORGET(id_=one.id)
