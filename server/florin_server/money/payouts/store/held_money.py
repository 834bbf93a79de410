"""Money of blocked payers: held when it is booked, and resolved by the operator's decision.

A payment with held money stays processing. Only a decision, or a reorg that undoes the money,
changes that.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlalchemy import delete, func, null, select, text, update

from florin_server.db.engine.query import (
    Command,
    Op,
    Statement,
    columns,
    insert,
    is_in,
    operation,
    param,
)
from florin_server.db.tables.held_money import UNRESOLVED_PREDICATE
from florin_server.db.tables.payments import ConfirmationState
from florin_server.db.tables.tables import (
    chain_tx_bump_table,
    chain_tx_item_table,
    chain_tx_table,
    confirmation_table,
    held_money_table,
    payment_table,
)
from florin_server.domain.ledger import journals
from florin_server.domain.payments.payment import FailureCode, Payment, PaymentStatus
from florin_server.domain.payments.state import PaymentStateEvent, apply_event
from florin_server.domain.payouts.held_money import HeldMoney, HeldMoneyState
from florin_server.domain.settlement.chain_txs import LedgerPosting
from florin_server.money.ledger.store import ledger
from florin_server.money.payments.store.payments import put_events, to_event_row

# the failure detail of a payment that failed by a decision
_REASONS = {
    HeldMoneyState.RETURNED: "payer is blocked: the operator returns the money",
    HeldMoneyState.KEPT: "payer is blocked: the operator keeps the money",
}
_EVENTS = {
    HeldMoneyState.RELEASED: PaymentStateEvent.RELEASED,
    HeldMoneyState.RETURNED: PaymentStateEvent.RETURNED,
    HeldMoneyState.KEPT: PaymentStateEvent.KEPT,
}

_COLUMNS = columns(held_money_table, HeldMoney)
_MATCHES_ID = held_money_table.c.id == param("id_")


class HeldMoneyCount(NamedTuple):
    """The number of items in a state on a chain (CAIP-2)."""

    chain_id: str
    state: HeldMoneyState
    number: int


_PUT = Command(insert(held_money_table))
_GET = Statement(select(*_COLUMNS).where(_MATCHES_ID), HeldMoney)
_LOCK = Statement(select(*_COLUMNS).where(_MATCHES_ID).with_for_update(), HeldMoney)
_OF_EVENT = Statement(
    select(*_COLUMNS).where(
        held_money_table.c.payment_id == param("payment_id"),
        held_money_table.c.event == param("event_"),
    ),
    HeldMoney,
)
_OF_PAYMENT = Statement(
    select(*_COLUMNS)
    .where(held_money_table.c.payment_id == param("payment_id"))
    .order_by(held_money_table.c.id),
    HeldMoney,
)
_LOCK_OF_PAYMENT = Statement(
    select(*_COLUMNS)
    .where(held_money_table.c.payment_id == param("payment_id"))
    .order_by(held_money_table.c.id)
    .with_for_update(),
    HeldMoney,
)
_BROUGHT_BY = Statement(
    select(*_COLUMNS)
    .where(
        held_money_table.c.chain_id == param("chain"),
        is_in(held_money_table.c.tx_hash, "hashes"),
        ~held_money_table.c.late,
    )
    .order_by(held_money_table.c.id)
    .with_for_update(),
    HeldMoney,
)
_STRAY = Statement(
    select(*_COLUMNS)
    .where(
        held_money_table.c.chain_id == param("chain"),
        is_in(held_money_table.c.tx_hash, "hashes"),
        held_money_table.c.late,
    )
    .order_by(held_money_table.c.id)
    .with_for_update(),
    HeldMoney,
)
_UNDONE = Statement(
    select(*_COLUMNS)
    .where(
        held_money_table.c.payment_id == param("payment_id"),
        held_money_table.c.state == HeldMoneyState.UNDONE,
        held_money_table.c.late,
        held_money_table.c.asset == param("asset"),
        held_money_table.c.payer == param("payer"),
    )
    .order_by(held_money_table.c.id)
    .with_for_update(),
    HeldMoney,
)
_SELECT = select(*_COLUMNS).order_by(
    held_money_table.c.since_us.desc(), held_money_table.c.id.desc()
)
_ALL = Statement(_SELECT.limit(param("limit")), HeldMoney)
_OPEN = Statement(_SELECT.where(text(UNRESOLVED_PREDICATE)).limit(param("limit")), HeldMoney)
_UNDECIDED = (
    select(held_money_table.c.id)
    .where(text(UNRESOLVED_PREDICATE), held_money_table.c.state == HeldMoneyState.HELD)
    .limit(param("limit"))
)
_COUNT_WAITING = Statement(select(func.count()).select_from(_UNDECIDED.subquery("limited")), int)
_COUNTS = Statement(
    select(held_money_table.c.chain_id, held_money_table.c.state, func.count().label("number"))
    .where(text(UNRESOLVED_PREDICATE))
    .group_by(held_money_table.c.chain_id, held_money_table.c.state),
    HeldMoneyCount,
)
_DECIDE = Statement(
    update(held_money_table)
    .where(_MATCHES_ID)
    .values(
        state=param("verdict"),
        note=param("words"),
        decided_at_us=param("now_us"),
        payout_id=param("payout"),
        even_if_blocked=param("even"),
    )
    .returning(*_COLUMNS),
    HeldMoney,
)
_MOVE = Command(update(held_money_table).where(_MATCHES_ID).values(state=param("after")))
_RETURN_AGAIN = Command(
    update(held_money_table)
    .where(_MATCHES_ID)
    .values(state=HeldMoneyState.RETURNED, tx_hash=param("tx"))
)
_KEEP_AGAIN = Command(
    update(held_money_table)
    .where(_MATCHES_ID, held_money_table.c.state == HeldMoneyState.RETURNED)
    .values(state=HeldMoneyState.KEPT, payout_id=null(), even_if_blocked=False)
)
_FORGET = Command(delete(held_money_table).where(_MATCHES_ID))
_FORGET_UNDONE = Command(
    delete(held_money_table).where(_MATCHES_ID, held_money_table.c.state == HeldMoneyState.UNDONE)
)
_SET_CONFIRM = Command(
    update(confirmation_table)
    .where(confirmation_table.c.payment_id == param("payment"))
    .values(state=param("after"))
)
_TOUCH = Statement(
    update(payment_table)
    .where(
        payment_table.c.id == param("payment"), payment_table.c.status == PaymentStatus.PROCESSING
    )
    .values(version=payment_table.c.version + 1, updated_at_us=param("now_us"))
    .returning(*payment_table.c),
    Payment,
)
_END = Statement(
    update(payment_table)
    .where(
        payment_table.c.id == param("payment"), payment_table.c.status == PaymentStatus.PROCESSING
    )
    .values(
        version=payment_table.c.version + 1,
        updated_at_us=param("now_us"),
        status=param("after"),
        tx_id=param("tx"),
        settled_value=param("settled"),
        failure_code=param("code"),
        failure_detail=param("detail"),
    )
    .returning(*payment_table.c),
    Payment,
)

_FOR_A_PAYMENT = (
    select(chain_tx_table.c.id)
    .join_from(
        chain_tx_table, chain_tx_item_table, chain_tx_item_table.c.tx_id == chain_tx_table.c.id
    )
    .where(
        chain_tx_table.c.chain_id == param("chain_id"),
        chain_tx_item_table.c.payment_id == param("payment_id"),
    )
)
_IS_SENT = Statement(_FOR_A_PAYMENT.where(chain_tx_table.c.hash == param("hash_")), str)
_IS_SENT_BUMPED = Statement(
    _FOR_A_PAYMENT.join(
        chain_tx_bump_table, chain_tx_bump_table.c.tx_id == chain_tx_table.c.id
    ).where(chain_tx_bump_table.c.hash == param("hash_")),
    str,
)


def format_journal_key(item: HeldMoney) -> str:
    """Return the key that makes sure a payment's held money is booked once."""
    return journals.held_key(item.payment_id)


@operation
def hold(item: HeldMoney, postings: Sequence[LedgerPosting], now_us: int) -> Op[Payment]:
    """Hold the money of a payment that is processing, and book it; part of an operation.

    The caller has checked, in the same transaction, that the payment waits for settlement.
    """
    yield _SET_CONFIRM(payment=item.payment_id, after=ConfirmationState.HELD)
    held_payment = yield from _TOUCH.single(payment=item.payment_id, now_us=now_us)
    yield _PUT(item)
    # a reorg may have undone it before
    yield from ledger.post_again(
        format_journal_key(item),
        journals.JournalKind.HELD,
        item.payment_id,
        item.tx_hash,
        postings,
        now_us,
    )
    yield from put_events(
        [
            to_event_row(
                held_payment, PaymentStateEvent.HELD, {"txId": item.tx_hash, "heldId": item.id}
            )
        ]
    )
    return held_payment


@operation
def is_sent_by_us(chain_id: str, payment_id: str, tx_hash: str) -> Op[bool]:
    """Return True if a transaction is ours, signed for a payment; reads all fee-bumped variants."""
    params = {"chain_id": chain_id, "payment_id": payment_id, "hash_": tx_hash}
    return (yield from _IS_SENT.any(**params)) or (yield from _IS_SENT_BUMPED.any(**params))


@operation
def put(item: HeldMoney) -> Op[None]:
    """Hold money that came late, which the caller books; part of an operation."""
    yield _PUT(item)


@operation
def find(held_id: str) -> Op[HeldMoney | None]:
    """Return held money by its id; None if it does not exist."""
    return (yield from _GET.first(id_=held_id))


@operation
def lock(held_id: str) -> Op[HeldMoney | None]:
    """Return held money by its id, locked until the surrounding operation ends."""
    return (yield from _LOCK.first(id_=held_id))


@operation
def list_of_payment(payment_id: str) -> Op[list[HeldMoney]]:
    """Return the held money of a payment, also what is closed."""
    return (yield from _OF_PAYMENT.all(payment_id=payment_id))


@operation
def lock_of_payment(payment_id: str) -> Op[list[HeldMoney]]:
    """Return the held money of a payment, locked until the surrounding operation ends."""
    return (yield from _LOCK_OF_PAYMENT.all(payment_id=payment_id))


@operation
def find_by_event(payment_id: str, event: str) -> Op[HeldMoney | None]:
    """Return held money of a payment's settlement event; None if it does not exist."""
    return (yield from _OF_EVENT.first(payment_id=payment_id, event_=event))


@operation
def lock_by_transactions(chain_id: str, tx_hashes: Collection[str]) -> Op[list[HeldMoney]]:
    """Return the held money that transactions brought in time, locked; part of an operation."""
    return (yield from _BROUGHT_BY.all(chain=chain_id, hashes=tx_hashes))


@operation
def lock_strays(chain_id: str, tx_hashes: Collection[str]) -> Op[list[HeldMoney]]:
    """Return what transactions moved home from payments' addresses.

    It is locked; part of an operation.
    """
    late = yield from _STRAY.all(chain=chain_id, hashes=tx_hashes)
    return [money for money in late if money.deposit_address is not None]


@operation
def lock_undone_strays(item: HeldMoney) -> Op[list[HeldMoney]]:
    """Return money of the same address, asset and sender that was paid back, and then undone.

    It is locked; part of an operation.
    """
    undone = yield from _UNDONE.all(payment_id=item.payment_id, asset=item.asset, payer=item.payer)
    return [money for money in undone if money.deposit_address == item.deposit_address]


@operation
def record_arrived_again(item: HeldMoney, tx_hash: str) -> Op[None]:
    """Record that money which was paid back, and then undone, came home after all.

    Part of an operation.
    """
    yield _RETURN_AGAIN(id_=item.id, tx=tx_hash)


@operation
def list_held_money(limit: int, *, include_closed: bool) -> Op[list[HeldMoney]]:
    """Return held money, the newest first: all, or what is neither released nor returned."""
    return (yield from (_ALL if include_closed else _OPEN).all(limit=limit))


@operation
def count_unresolved() -> Op[list[HeldMoneyCount]]:
    """Return the counts of what is neither released nor returned."""
    return (yield from _COUNTS.all())


@operation
def count_waiting(limit: int) -> Op[int]:
    """Return how much held money waits for a decision, at most `limit` items."""
    return (yield from _COUNT_WAITING.single(limit=limit))


@operation
def end_payment(item: HeldMoney, verdict: HeldMoneyState, now_us: int) -> Op[Payment]:
    """End a payment by the decision about its held money; part of an operation."""
    event = _EVENTS[verdict]
    released = verdict is HeldMoneyState.RELEASED
    ended_payment = yield from _END.single(
        payment=item.payment_id,
        now_us=now_us,
        after=apply_event(PaymentStatus.PROCESSING, event),
        tx=item.tx_hash if released else None,
        settled=item.settled_value if released else None,
        code=None if released else FailureCode.DECLINED_USER,
        detail=_REASONS.get(verdict),
    )

    yield _SET_CONFIRM(payment=item.payment_id, after=ConfirmationState.DONE)
    yield from put_events([to_event_row(ended_payment, event, {"heldId": item.id})])
    return ended_payment


@operation
def record_verdict(
    held_id: str,
    verdict: HeldMoneyState,
    note: str,
    payout_id: str | None,
    now_us: int,
    *,
    even_if_blocked: bool,
) -> Op[HeldMoney]:
    """Record a decision; part of an operation."""
    return (
        yield from _DECIDE.single(
            id_=held_id,
            verdict=verdict,
            words=note,
            payout=payout_id,
            now_us=now_us,
            even=even_if_blocked,
        )
    )


@operation
def record_payout_refusal(held_id: str) -> Op[None]:
    """Keep held money whose returning payout was cancelled; part of an operation.

    If a reorg undid its arrival, delete it.
    """
    yield _KEEP_AGAIN(id_=held_id)
    yield _FORGET_UNDONE(id_=held_id)


@operation
def mark_undone(item: HeldMoney) -> Op[None]:
    """Mark money as undone that a reorg removed while it was returned; part of an operation."""
    yield _MOVE(id_=item.id, after=HeldMoneyState.UNDONE)


@operation
def rebook_returned(item: HeldMoney, now_us: int) -> Op[None]:
    """Book returned money again that a reorg removed and that has arrived after all; once.

    Part of an operation.
    """
    if item.state is HeldMoneyState.UNDONE:
        yield from ledger.post_reversed_again(format_journal_key(item), now_us)
        yield _MOVE(id_=item.id, after=HeldMoneyState.RETURNED)


@operation
def forget(item: HeldMoney) -> Op[None]:
    """Delete held money that a reorg removed before it was returned; part of an operation."""
    yield _FORGET(id_=item.id)
