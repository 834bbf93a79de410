"""Payouts: money to leave a treasury, processed in the order of requests.

A refund has its own row and a payout with the same id; both change together. A payout that is in no
transaction, or in a transaction that provably moved nothing, is waiting.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Select, Text, func, null, select, text, update

from florin_server.db.engine.query import (
    Command,
    Op,
    Operation,
    Statement,
    columns,
    insert,
    is_in,
    operation,
    param,
)
from florin_server.db.tables.payouts import OWED_PREDICATE
from florin_server.db.tables.settlement import OPEN_TX_PREDICATE
from florin_server.db.tables.tables import (
    chain_tx_item_table,
    chain_tx_table,
    payout_table,
    refund_table,
)
from florin_server.domain.ledger import journals
from florin_server.domain.payments.deposits import DepositReport
from florin_server.domain.payments.payment import Refund
from florin_server.domain.payments.state import PaymentStateEvent
from florin_server.domain.payouts.payout import Payout, PayoutKind, PayoutStatus
from florin_server.domain.payouts.state import PayoutEvent
from florin_server.domain.quarantine import QuarantinedItemKind
from florin_server.domain.settlement.chain_txs import LedgerPosting, TransactionOutcome
from florin_server.money.ledger.store import ledger
from florin_server.money.payments.store import deposit_addresses, deposit_events
from florin_server.money.payments.store.deposit_events import NamedReport
from florin_server.money.payouts.store import balances, covered, held_money
from florin_server.money.payouts.store.transitions import (
    update_by_event,
    update_refund_by_event,
)
from florin_server.money.refunds import store as refunds
from florin_server.money.settlement.store import chain_txs, token_accounts
from florin_server.operations.store.quarantine import is_excluded

_COLUMNS = columns(payout_table, Payout)


@dataclass(frozen=True, slots=True)
class PayoutOutcome:
    """The outcome of a payout that was in a transaction.

    It is done if `posting` is set, and waits again if `retry_at_us` is set. Otherwise it stays
    submitted until the operator has resolved its `problem`. `has_lapsed` is true if its transaction
    expired, which is not a failure.
    """

    payout: Payout
    tx_hash: str | None = None
    posting: LedgerPosting | None = None
    retry_at_us: int | None = None
    problem: str | None = None
    has_lapsed: bool = False


def _select_payouts() -> Select[Any]:
    return select(*_COLUMNS)


def _select_owed() -> Select[Any]:
    """Build a query of payouts that are waiting or submitted on one chain."""
    return _select_payouts().where(
        text(OWED_PREDICATE), payout_table.c.chain_id == param("chain_id")
    )


class _Problem(NamedTuple):
    chain_id: str
    problem: str | None
    number: int


_ADD = Command(insert(payout_table))
_FIND = Statement(_select_payouts().where(payout_table.c.id == param("id_")), Payout)
_FIND_MANY = Statement(_select_payouts().where(is_in(payout_table.c.id, "ids")), Payout)
_LOCK = Statement(
    _select_payouts()
    .where(is_in(payout_table.c.id, "ids"))
    .order_by(payout_table.c.id)
    .with_for_update(),
    Payout,
)
_DUE = Statement(
    _select_owed()
    .where(
        payout_table.c.status == PayoutStatus.WAITING,
        payout_table.c.retry_at_us <= param("now_us"),
        ~is_excluded(QuarantinedItemKind.PAYOUT, payout_table.c.id),
    )
    .order_by(payout_table.c.created_at_us, payout_table.c.id)
    .limit(param("limit")),
    Payout,
)
_LIST_IDENTICAL = Statement(
    _select_owed()
    .where(
        payout_table.c.status == PayoutStatus.WAITING,
        payout_table.c.asset == param("asset"),
        payout_table.c.account == param("account"),
        payout_table.c.value == param("value"),
    )
    .order_by(payout_table.c.created_at_us, payout_table.c.id),
    Payout,
)
_SUBMITTED = Statement(
    _select_owed()
    .where(payout_table.c.status == PayoutStatus.SUBMITTED)
    .order_by(payout_table.c.created_at_us),
    Payout,
)
_PROBLEMS = Statement(
    select(payout_table.c.chain_id, payout_table.c.problem, func.count().label("number"))
    .where(text(OWED_PREDICATE))
    .group_by(payout_table.c.chain_id, payout_table.c.problem)
    .order_by(payout_table.c.chain_id, payout_table.c.problem),
    _Problem,
)
_LIST = Statement(
    _select_payouts()
    .order_by(payout_table.c.created_at_us.desc(), payout_table.c.id.desc())
    .limit(param("limit")),
    Payout,
)
_LIST_OWED = Statement(
    _select_payouts()
    .where(text(OWED_PREDICATE))
    .order_by(payout_table.c.created_at_us.desc(), payout_table.c.id.desc())
    .limit(param("limit")),
    Payout,
)
_CLAIM = Statement(
    update_by_event(PayoutEvent.CLAIMED)
    .values(problem=None, tx_id=param("tx"), lapses_at=param("lapses"))
    .returning(payout_table.c.id),
    str,
)
_DEFER = Command(
    update_by_event(PayoutEvent.SET_ASIDE).values(retry_at_us=param("at_us"), problem=param("why"))
)
# a process that lost its lease may report a transaction that was replaced since
_FINALIZE = {
    event: Statement(
        update_by_event(event)
        .where(payout_table.c.tx_id.is_not_distinct_from(param("of_tx", Text)))
        .values(
            retry_at_us=param("at_us"),
            problem=param("why"),
            tx_id=param("tx"),
            completed_at_us=param("done_us"),
        )
        .returning(payout_table.c.id),
        str,
    )
    for event in (PayoutEvent.PAID, PayoutEvent.MOVED_NOTHING, PayoutEvent.UNCLEAR)
}
# few transactions are open at any time
_IN_OPEN = Statement.nullable(
    select(chain_tx_item_table.c.payout_id)
    .join_from(
        chain_tx_table, chain_tx_item_table, chain_tx_item_table.c.tx_id == chain_tx_table.c.id
    )
    .where(
        text(OPEN_TX_PREDICATE),
        chain_tx_table.c.chain_id == param("chain"),
        chain_tx_item_table.c.payout_id == param("id_"),
    ),
    str,
)
_REFUSE = Statement(
    update_by_event(PayoutEvent.REFUSED)
    .values(completed_at_us=param("now_us"))
    .returning(*_COLUMNS),
    Payout,
)
_REOPEN = Command(
    update_by_event(PayoutEvent.UNDONE).values(
        problem=param("why"), tx_id=param("tx"), completed_at_us=null()
    )
)
_MOVE_REFUND = {
    event: Statement(update_refund_by_event(event).returning(*refund_table.c), Refund)
    for event in PayoutEvent
}
_PAID_BY = Command(
    update(refund_table).where(refund_table.c.id == param("id_")).values(tx_id=param("tx"))
)
_DONE = Statement(
    _select_payouts()
    .where(payout_table.c.status == PayoutStatus.DONE, payout_table.c.id > param("after"))
    .order_by(payout_table.c.id)
    .limit(param("limit")),
    Payout,
)


@operation
def add(payout: Payout) -> Op[None]:
    """Store a waiting payout; part of an operation."""
    yield _ADD(payout)


@operation
def find(payout_id: str) -> Op[Payout | None]:
    """Return a payout; None if it does not exist."""
    return (yield from _FIND.first(id_=payout_id))


@operation
def find_many(payout_ids: Sequence[str]) -> Op[dict[str, Payout]]:
    """Return payouts by id."""
    return {payout.id: payout for payout in (yield from _FIND_MANY.all(ids=payout_ids))}


@operation
def lock(payout_ids: Collection[str]) -> Op[dict[str, Payout]]:
    """Return payouts by id, locked until the surrounding operation ends."""
    return {payout.id: payout for payout in (yield from _LOCK.all(ids=payout_ids))}


@operation
def list_due(chain_id: str, limit: int, now_us: int) -> Op[list[Payout]]:
    """Return a chain's waiting payouts that are due, the oldest first."""
    return (yield from _DUE.all(chain_id=chain_id, now_us=now_us, limit=limit))


@operation
def list_identical(chain_id: str, asset: str, account: str, value: int) -> Op[list[Payout]]:
    """Return the waiting payouts of a chain that make an equal transfer, the oldest first."""
    return (
        yield from _LIST_IDENTICAL.all(chain_id=chain_id, asset=asset, account=account, value=value)
    )


@operation
def list_submitted(chain_id: str) -> Op[list[Payout]]:
    """Return a chain's submitted payouts."""
    return (yield from _SUBMITTED.all(chain_id=chain_id))


@operation
def count_problems() -> Op[list[tuple[str, str, int]]]:
    """Return why payouts are not done: chain, problem (empty if none), count."""
    return [(chain, problem or "", count) for chain, problem, count in (yield from _PROBLEMS.all())]


@operation
def list_payouts(limit: int, *, include_closed: bool) -> Op[list[Payout]]:
    """Return payouts, the newest first: all, or those that are neither done nor refused."""
    return (yield from (_LIST if include_closed else _LIST_OWED).all(limit=limit))


@operation
def claim(
    payout: Payout,
    tx_hash: str,
    lapses_at: int | None,
    credit: balances.CreditLimits | None,
    now_us: int,
) -> Op[None]:
    """Claim a payout for a transaction; part of an operation.

    Raise InsufficientBalance if the merchant's balance and credit do not cover it, ItemsUnavailable
    if it is not waiting.
    """
    if (missing := (yield from balances.find_shortfall(payout, credit))) is not None:
        raise missing
    if not (yield from _CLAIM.any(id_=payout.id, tx=tx_hash, lapses=lapses_at)):
        raise chain_txs.ItemsUnavailable(f"not waiting to be paid out: {payout.id}")
    yield from _move_refund(payout, PayoutEvent.CLAIMED, tx_hash, now_us)


@operation
def defer(payout_id: str, problem: str, retry_at_us: int) -> Op[None]:
    """Postpone a waiting payout, and record why."""
    yield _DEFER(id_=payout_id, at_us=retry_at_us, why=problem)


@operation
def finalize(
    payout_outcomes: Sequence[PayoutOutcome],
    transaction_outcomes: Sequence[TransactionOutcome],
    now_us: int,
    watch_operation: Operation[None],
) -> Op[None]:
    """End transactions and their payouts on proof from the chain; book both once.

    `watch_operation` records, in the same transaction, what a deep reorg could undo.
    """
    for payout_outcome in payout_outcomes:
        yield from _finalize_payout(payout_outcome, now_us)
    yield from chain_txs.finalize_transactions(transaction_outcomes, now_us)
    yield from watch_operation


@operation
def reopen(payout: Payout, tx_hash: str, now_us: int) -> Op[None]:
    """Reopen a payout whose final transaction is no longer final; part of an operation."""
    if payout.status is PayoutStatus.DONE:
        yield from ledger.reverse(format_journal_key(payout), now_us)
    why = "a reorganization undid its transaction; Florin sends it again"
    yield _REOPEN(id_=payout.id, why=why, tx=tx_hash)
    yield from _move_refund(payout, PayoutEvent.UNDONE, tx_hash, now_us)


@operation
def refuse(payout_id: str, now_us: int) -> Op[Payout | None]:
    """Cancel a waiting payout for good; return None if it is not waiting."""
    payout = yield from _REFUSE.first(id_=payout_id, now_us=now_us)
    if payout is None:
        return None
    yield from _move_refund(payout, PayoutEvent.REFUSED, None, now_us)
    return payout


@operation
def resolve(
    payout: Payout, posting: LedgerPosting | None, problem: str, now_us: int
) -> Op[Payout | None]:
    """Resolve a payout by the operator's finding; return None if it is not stuck.

    With a `posting` it is done. Without, it waits to be sent again: its transaction can no longer
    move what it did not move. `problem` is stored with it.
    """
    locked_payout = (yield from lock([payout.id])).get(payout.id)
    if locked_payout is None or locked_payout.status is not PayoutStatus.SUBMITTED:
        return None
    if (yield from _IN_OPEN.any(chain=payout.chain_id, id_=payout.id)):
        return None
    if posting is not None:
        payout_outcome = PayoutOutcome(locked_payout, locked_payout.tx_id, posting, problem=problem)
    else:
        payout_outcome = PayoutOutcome(locked_payout, retry_at_us=now_us, problem=problem)
    yield from _finalize_payout(payout_outcome, now_us)
    return (yield from find(payout.id))


@operation
def check(page: int = 500) -> Op[list[str]]:
    """Return, in sentences, the payouts that are done but not booked; empty if none is."""
    problems: list[str] = []
    after = ""
    while done_payouts := (yield from _DONE.all(after=after, limit=page)):
        booked = yield from ledger.filter_booked(
            [format_journal_key(payout) for payout in done_payouts]
        )
        problems += [
            f"payout {payout.id} is done but not booked"
            for payout in done_payouts
            if format_journal_key(payout) not in booked
        ]
        after = done_payouts[-1].id
    return problems


def format_journal_key(payout: Payout) -> str:
    """Return the key that makes sure a payout is booked once."""
    return journals.payout_key(payout.kind, payout.id)


def _finalize_payout(payout_outcome: PayoutOutcome, now_us: int) -> Op[None]:
    payout = payout_outcome.payout
    if payout_outcome.posting is not None:
        event = PayoutEvent.PAID
    elif payout_outcome.retry_at_us is not None:
        event = PayoutEvent.MOVED_NOTHING
    else:
        event = PayoutEvent.UNCLEAR
    done_us = now_us if payout_outcome.posting is not None else None
    moved = yield from _FINALIZE[event].any(
        id_=payout.id,
        of_tx=payout.tx_id,
        at_us=payout_outcome.retry_at_us or 0,
        why=payout_outcome.problem,
        tx=payout_outcome.tx_hash,
        done_us=done_us,
    )
    if not moved:
        return
    if event is PayoutEvent.MOVED_NOTHING:
        # its transaction moved nothing, and so opened nothing
        yield from token_accounts.release([payout.id])
    yield from _move_refund(payout, event, payout_outcome.tx_hash, now_us)
    if payout_outcome.posting is not None:
        kind = journals.get_payout_kind(payout.kind)
        # a reorg may have undone it before
        yield from ledger.post_again(
            format_journal_key(payout),
            kind,
            payout.payment_id,
            payout_outcome.tx_hash,
            (payout_outcome.posting,),
            now_us,
        )
        if payout.kind is PayoutKind.BALANCE:
            yield from covered.add_payout(payout, payout_outcome.tx_hash, now_us)
        elif payout.kind is PayoutKind.RETURN:
            yield from _report_return(payout, payout_outcome.tx_hash, now_us)


def _report_return(payout: Payout, tx_hash: str | None, now_us: int) -> Op[None]:
    """Report money from a payment's address that is back; a reorganization reports it once."""
    if payout.held_id is None or payout.payment_id is None:
        return
    held = yield from held_money.find(payout.held_id)
    if held is None or held.deposit_address is None:
        return
    address = held.deposit_address.rpartition(":")[2]
    refund_account = yield from deposit_addresses.find_refund_account(held.chain_id, address)
    is_sender_known = not held.has_unknown_sender and held.payer != refund_account
    report = DepositReport(
        address=held.deposit_address,
        asset=payout.asset,
        value=payout.value,
        sender=held.payer if is_sender_known else None,
        tx_hash=tx_hash,
        is_final=True,
        returned_to=payout.account,
        payout_id=payout.id,
    )
    cause = PaymentStateEvent.DEPOSIT_RETURNED
    yield from deposit_events.record(
        [NamedReport(payout.payment_id, payout.id, cause, report)], now_us
    )


def _move_refund(payout: Payout, event: PayoutEvent, tx_id: str | None, now_us: int) -> Op[None]:
    if payout.kind is not PayoutKind.REFUND:
        return
    if payout.payment_id is None:
        raise RuntimeError(f"refund {payout.id} belongs to no payment")
    done_us = now_us if event in {PayoutEvent.PAID, PayoutEvent.REFUSED} else None
    yield from refunds.lock(payout.payment_id)
    version = yield from refunds.get_next_version(payout.payment_id)
    moved = yield from _MOVE_REFUND[event].first(
        id_=payout.id, tx=tx_id, done_us=done_us, next_version=version
    )
    if moved is not None:
        yield from refunds.record_change(moved, now_us)
    elif event is PayoutEvent.PAID:
        yield _PAID_BY(id_=payout.id, tx=tx_id)
