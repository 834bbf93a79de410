"""Payouts: money that is to leave a treasury, taken up in the order in which it was asked for.

A refund is a row of its own and a payout with the same id; both change together. A payout that is
in no transaction, or in one that provably moved nothing, is waiting.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Select, Text, Update, case, func, null, select, text, update

from florin_server.domain.ledger import accounts, journals
from florin_server.domain.payments.payment import Refund, RefundStatus
from florin_server.domain.payouts.payout import Payout, PayoutKind, PayoutStatus
from florin_server.domain.payouts.state import PAYOUT, REFUND, PayoutEvent
from florin_server.domain.quarantine import ItemKind
from florin_server.domain.settlement.chain_txs import Posting, TxEnd
from florin_server.store.engine.query import (
    Op,
    Operation,
    Row,
    Statement,
    StoreError,
    any_of,
    columns,
    exact_sum,
    insert,
    one_of,
    operation,
    param,
)
from florin_server.store.ledger import ledger
from florin_server.store.payouts import covered, refunds
from florin_server.store.quarantine.items import is_left_out
from florin_server.store.settlement import chain_txs, token_accounts
from florin_server.store.tables.payouts import OWED
from florin_server.store.tables.settlement import OPEN
from florin_server.store.tables.tables import chain_tx, chain_tx_item, merchant, payout, refund

_COLUMNS = columns(payout, Payout)


class Uncovered(StoreError):  # noqa: N818  (a state of the world, not a mistake)
    """The merchant may not have that much paid out; nothing was written."""

    passes = True

    def __init__(self, missing: int, whose: str = "the merchant's balance and credit") -> None:
        super().__init__(f"{whose} lack {missing} minor units for it")


@dataclass(frozen=True, slots=True)
class Credit:
    """What may be owed for refunds in one asset, in minor units, within one another."""

    merchant: int
    partner: int
    total: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a payout that was in a transaction.

    It is done if there is a `posting`, waits again if there is a time to retry it at, and stays
    where it is otherwise, until the operator has looked at its `problem`. What lapsed is no fault.
    """

    payout: Payout
    tx_id: str | None = None
    posting: Posting | None = None
    retry_at_us: int | None = None
    problem: str | None = None
    lapsed: bool = False


def _payouts() -> Select[Row]:
    return select(*_COLUMNS)


def _owed() -> Select[Row]:
    """Payouts that are waiting or submitted on one chain."""
    return _payouts().where(text(OWED), payout.c.chain_id == param("chain_id"))


def _move(event: PayoutEvent) -> Update:
    """Moves a payout by the state table; nothing if it is where the event cannot happen."""
    return (
        update(payout)
        .where(payout.c.id == param("id_"), one_of(payout.c.status, PAYOUT.sources(event)))
        .values(status=PAYOUT.target(event))
    )


def _move_its_refund(event: PayoutEvent) -> Update:
    """The same of its refund, unless that has succeeded: it stays so, with its transaction."""
    row = REFUND.rows[event].items()
    moved = {before: after for before, after in row if before is not RefundStatus.SUCCEEDED}
    (after,) = set(moved.values())
    return (
        update(refund)
        .where(refund.c.id == param("id_"), one_of(refund.c.status, moved))
        .values(
            status=after,
            tx_id=param("tx"),
            completed_at_us=param("done_us"),
            version=case((refund.c.status == after, refund.c.version), else_=param("next_version")),
        )
    )


def _of_merchant() -> Select[Row]:
    return select(exact_sum(payout.c.value)).where(
        text(OWED),
        payout.c.merchant_id == param("merchant_id"),
        payout.c.asset == param("asset"),
        payout.c.held_id.is_(None),
    )


_ADD = Statement(insert(payout))
_ONE = Statement(_payouts().where(payout.c.id == param("id_")))
_SOME = Statement(_payouts().where(any_of(payout.c.id, "ids")))
_LOCK = Statement(
    _payouts().where(any_of(payout.c.id, "ids")).order_by(payout.c.id).with_for_update()
)
_DUE = Statement(
    _owed()
    .where(
        payout.c.status == PayoutStatus.WAITING,
        payout.c.retry_at_us <= param("now_us"),
        ~is_left_out(ItemKind.PAYOUT, payout.c.id),
    )
    .order_by(payout.c.created_at_us, payout.c.id)
    .limit(param("limit"))
)
_ALIKE = Statement(
    _owed()
    .where(
        payout.c.status == PayoutStatus.WAITING,
        payout.c.asset == param("asset"),
        payout.c.account == param("account"),
        payout.c.value == param("value"),
    )
    .order_by(payout.c.created_at_us, payout.c.id)
)
_SUBMITTED = Statement(
    _owed().where(payout.c.status == PayoutStatus.SUBMITTED).order_by(payout.c.created_at_us)
)
_PROBLEMS = Statement(
    select(payout.c.chain_id, payout.c.problem, func.count())
    .where(text(OWED))
    .group_by(payout.c.chain_id, payout.c.problem)
    .order_by(payout.c.chain_id, payout.c.problem)
)
_LISTED = Statement(
    _payouts().order_by(payout.c.created_at_us.desc(), payout.c.id.desc()).limit(param("limit"))
)
_LISTED_OWED = Statement(
    _payouts()
    .where(text(OWED))
    .order_by(payout.c.created_at_us.desc(), payout.c.id.desc())
    .limit(param("limit"))
)
# a merchant owes only where something went back to its buyers
_REFUNDERS = Statement(
    select(payout.c.merchant_id, merchant.c.partner_id)
    .join_from(payout, merchant, merchant.c.id == payout.c.merchant_id, isouter=True)
    .where(
        payout.c.asset == param("asset"),
        payout.c.kind != PayoutKind.BALANCE,
        one_of(payout.c.status, (PayoutStatus.SUBMITTED, PayoutStatus.DONE)),
    )
    .group_by(payout.c.merchant_id, merchant.c.partner_id)
)
_PARTNER = Statement(select(merchant.c.partner_id).where(merchant.c.id == param("merchant_id")))
_UNDER_WAY_ALL = Statement(
    select(payout.c.merchant_id, exact_sum(payout.c.value))
    .where(
        payout.c.status == PayoutStatus.SUBMITTED,
        payout.c.asset == param("asset"),
        payout.c.held_id.is_(None),
    )
    .group_by(payout.c.merchant_id)
)
_UNDER_WAY = Statement(_of_merchant().where(payout.c.status == PayoutStatus.SUBMITTED))
_ASKED_FOR = Statement(_of_merchant())
_CLAIM = Statement(
    _move(PayoutEvent.CLAIMED)
    .values(problem=None, tx_id=param("tx"), lapses_at=param("lapses"))
    .returning(payout.c.id)
)
_SET_ASIDE = Statement(
    _move(PayoutEvent.SET_ASIDE).values(retry_at_us=param("at_us"), problem=param("why"))
)
# a process that lost its lease may tell of a transaction that another one has followed since
_CONCLUDE = {
    event: Statement(
        _move(event)
        .where(payout.c.tx_id.is_not_distinct_from(param("of_tx", Text)))
        .values(
            retry_at_us=param("at_us"),
            problem=param("why"),
            tx_id=param("tx"),
            completed_at_us=param("done_us"),
        )
        .returning(payout.c.id)
    )
    for event in (PayoutEvent.PAID, PayoutEvent.MOVED_NOTHING, PayoutEvent.UNCLEAR)
}
# few transactions are open, however many there were
_IN_OPEN = Statement(
    select(chain_tx_item.c.payout_id)
    .join_from(chain_tx, chain_tx_item, chain_tx_item.c.tx_id == chain_tx.c.id)
    .where(
        text(OPEN),
        chain_tx.c.chain_id == param("chain"),
        chain_tx_item.c.payout_id == param("id_"),
    )
)
_REFUSE = Statement(
    _move(PayoutEvent.REFUSED).values(completed_at_us=param("now_us")).returning(*_COLUMNS)
)
_REOPEN = Statement(
    _move(PayoutEvent.UNDONE).values(
        problem=param("why"), tx_id=param("tx"), completed_at_us=null()
    )
)
_MOVE_REFUND = {
    event: Statement(_move_its_refund(event).returning(*refund.c)) for event in PayoutEvent
}
_PAID_BY = Statement(update(refund).where(refund.c.id == param("id_")).values(tx_id=param("tx")))
_DONE = Statement(
    _payouts()
    .where(payout.c.status == PayoutStatus.DONE, payout.c.id > param("after"))
    .order_by(payout.c.id)
    .limit(param("limit"))
)


@operation
def add(new: Payout) -> Op[None]:
    """Part of an operation: stores a payout that waits."""
    yield _ADD.of(new)


@operation
def get(payout_id: str) -> Op[Payout | None]:
    """One payout."""
    rows = yield _ONE(id_=payout_id)
    return Payout(*rows[0]) if rows else None


@operation
def some(payout_ids: Sequence[str]) -> Op[dict[str, Payout]]:
    """Payouts by id."""
    return {row[0]: Payout(*row) for row in (yield _SOME(ids=payout_ids))}


@operation
def lock(payout_ids: Collection[str]) -> Op[dict[str, Payout]]:
    """Part of an operation: the same, which nobody else changes until it ends."""
    return {row[0]: Payout(*row) for row in (yield _LOCK(ids=payout_ids))}


@operation
def due(chain_id: str, limit: int, now_us: int) -> Op[list[Payout]]:
    """Payouts of a chain that are waiting and may be tried now, the oldest first."""
    rows = yield _DUE(chain_id=chain_id, now_us=now_us, limit=limit)
    return [Payout(*row) for row in rows]


@operation
def alike(chain_id: str, asset: str, account: str, value: int) -> Op[list[Payout]]:
    """Return the waiting payouts of a chain that make the same transfer, the oldest first."""
    rows = yield _ALIKE(chain_id=chain_id, asset=asset, account=account, value=value)
    return [Payout(*row) for row in rows]


@operation
def submitted(chain_id: str) -> Op[list[Payout]]:
    """Payouts of a chain that are on their way, or stuck."""
    return [Payout(*row) for row in (yield _SUBMITTED(chain_id=chain_id))]


@operation
def problems() -> Op[list[tuple[str, str, int]]]:
    """What keeps payouts from being done: chain, problem (empty if none), how many."""
    return [(chain, problem or "", count) for chain, problem, count in (yield _PROBLEMS())]


@operation
def listed(limit: int, *, all_: bool) -> Op[list[Payout]]:
    """Payouts, the newest first: all of them, or those that are neither done nor refused."""
    return [Payout(*row) for row in (yield (_LISTED if all_ else _LISTED_OWED)(limit=limit))]


@operation
def available(merchant_id: str, asset: str) -> Op[int]:
    """What a merchant is owed in an asset and has not asked for; below zero if it owes."""
    ((asked,),) = yield _ASKED_FOR(merchant_id=merchant_id, asset=asset)
    return (yield from _owed_to(merchant_id, asset)) - (asked or 0)


@operation
def uncovered(one: Payout, credit: Credit | None) -> Op[Uncovered | None]:
    """Return what is missing to pay a payout; None if the merchant's balance and credit cover it.

    A merchant's balance is what it is owed less what is on its way. `credit` is what may be owed
    for what goes back to buyers, None if that has no limit. Merchants cost nothing to create, so
    what one owes counts against its partner too, and against all.
    """
    goes_back = one.kind is not PayoutKind.BALANCE
    if one.backed or (goes_back and credit is None):
        return None
    ((sent,),) = yield _UNDER_WAY(merchant_id=one.merchant_id, asset=one.asset)
    owes = one.value - ((yield from _owed_to(one.merchant_id, one.asset)) - (sent or 0))
    most = credit.merchant if goes_back and credit is not None else 0
    if owes > most:
        return Uncovered(owes - most)
    if owes <= 0 or credit is None:
        return None
    ((partner_id,),) = (yield _PARTNER(merchant_id=one.merchant_id)) or [(one.merchant_id,)]
    of_partner = of_all = owes
    for (merchant_id, partner), debt in (yield from _debts(one.asset)).items():
        if merchant_id != one.merchant_id:
            of_all += debt
            of_partner += debt if partner == partner_id else 0
    if of_partner > credit.partner:
        whose = "the balances and the credit of the partner's merchants"
        return Uncovered(of_partner - credit.partner, whose)
    if of_all > credit.total:
        return Uncovered(of_all - credit.total, "the balances and the credit of all partners")
    return None


def _debts(asset: str) -> Op[dict[tuple[str, str], int]]:
    """Return what merchants owe in an asset with all that is on its way, by (merchant, partner)."""
    refunders = [(row[0], row[1] or row[0]) for row in (yield _REFUNDERS(asset=asset))]
    sent = {row[0]: row[1] for row in (yield _UNDER_WAY_ALL(asset=asset))}
    named = {accounts.merchant(merchant_id) for merchant_id, _ in refunders}
    balances = yield from ledger.balances(named, asset)
    debts = {
        (merchant_id, partner_id): balances[accounts.merchant(merchant_id)]
        + sent.get(merchant_id, 0)
        for merchant_id, partner_id in refunders
    }
    return {key: debt for key, debt in debts.items() if debt > 0}


@operation
def claim(
    one: Payout, tx_hash: str, lapses_at: int | None, credit: Credit | None, now_us: int
) -> Op[None]:
    """Part of an operation: takes a payout out of the line, for a transaction.

    Uncovered if the merchant may not have that much paid out; NotWaiting if it is not in the line.
    """
    if (missing := (yield from uncovered(one, credit))) is not None:
        raise missing
    if not (yield _CLAIM(id_=one.id, tx=tx_hash, lapses=lapses_at)):
        raise chain_txs.NotWaiting(f"not waiting to be paid out: {one.id}")
    yield from _move_refund(one, PayoutEvent.CLAIMED, tx_hash, now_us)


@operation
def set_aside(payout_id: str, problem: str, retry_at_us: int) -> Op[None]:
    """Leaves a waiting payout for later, and remembers why."""
    yield _SET_ASIDE(id_=payout_id, at_us=retry_at_us, why=problem)


@operation
def conclude(
    outcomes: Sequence[Outcome], ends: Sequence[TxEnd], now_us: int, watch: Operation[None]
) -> Op[None]:
    """Ends transactions and what they were for, on proof from the chain, and books both once.

    `watch` writes down, in the same transaction, what a deep reorganisation might undo.
    """
    for one in outcomes:
        yield from _conclude(one, now_us)
    yield from chain_txs.end_txs(ends, now_us)
    yield from watch


@operation
def reopen(one: Payout, tx_hash: str, now_us: int) -> Op[None]:
    """Part of an operation: a payout is on its way again in what was final, and is not any more."""
    if one.status is PayoutStatus.DONE:
        yield from ledger.reverse(key_of(one), now_us)
    why = "a reorganisation undid its transaction, which is sent again"
    yield _REOPEN(id_=one.id, why=why, tx=tx_hash)
    yield from _move_refund(one, PayoutEvent.UNDONE, tx_hash, now_us)


@operation
def refuse(payout_id: str, now_us: int) -> Op[Payout | None]:
    """Calls a waiting payout off for good; None if it is not waiting."""
    rows = yield _REFUSE(id_=payout_id, now_us=now_us)
    if not rows:
        return None
    refused = Payout(*rows[0])
    yield from _move_refund(refused, PayoutEvent.REFUSED, None, now_us)
    return refused


@operation
def resolve(one: Payout, posting: Posting | None, told: str, now_us: int) -> Op[Payout | None]:
    """Ends a payout by what the operator found out; None if it is not stuck.

    With a `posting` it is done. Without, it waits to be sent once more: what its transaction did
    not move cannot be moved by that any more. `told` is kept with it.
    """
    known = (yield from lock([one.id])).get(one.id)
    if known is None or known.status is not PayoutStatus.SUBMITTED:
        return None
    if (yield _IN_OPEN(chain=one.chain_id, id_=one.id)):
        return None
    if posting is not None:
        outcome = Outcome(known, known.tx_id, posting, problem=told)
    else:
        outcome = Outcome(known, retry_at_us=now_us, problem=told)
    yield from _conclude(outcome, now_us)
    return (yield from get(one.id))


@operation
def check(page: int = 500) -> Op[list[str]]:
    """Tells, in sentences, which payouts are done and not in the books; nothing if all are."""
    found: list[str] = []
    after = ""
    while rows := (yield _DONE(after=after, limit=page)):
        done = [Payout(*row) for row in rows]
        booked = yield from ledger.booked([key_of(one) for one in done])
        found += [
            f"payout {one.id} is done and not booked" for one in done if key_of(one) not in booked
        ]
        after = done[-1].id
    return found


def key_of(one: Payout) -> str:
    """What makes sure that a payout is booked once."""
    return journals.payout(one.kind, one.id)


def _conclude(one: Outcome, now_us: int) -> Op[None]:
    subject = one.payout
    if one.posting is not None:
        event = PayoutEvent.PAID
    elif one.retry_at_us is not None:
        event = PayoutEvent.MOVED_NOTHING
    else:
        event = PayoutEvent.UNCLEAR
    done_us = now_us if one.posting is not None else None
    moved = yield _CONCLUDE[event](
        id_=subject.id,
        of_tx=subject.tx_id,
        at_us=one.retry_at_us or 0,
        why=one.problem,
        tx=one.tx_id,
        done_us=done_us,
    )
    if not moved:
        return
    if event is PayoutEvent.MOVED_NOTHING:
        # its transaction moved nothing, and so opened nothing
        yield from token_accounts.free([subject.id])
    yield from _move_refund(subject, event, one.tx_id, now_us)
    if one.posting is not None:
        kind = journals.payout_kind(subject.kind)
        # a reorganisation may have undone it before
        yield from ledger.post_again(
            key_of(subject), kind, subject.payment_id, one.tx_id, (one.posting,), now_us
        )
        if subject.kind is PayoutKind.BALANCE:
            yield from covered.add_payout(subject, one.tx_id, now_us)


def _move_refund(subject: Payout, event: PayoutEvent, tx_id: str | None, now_us: int) -> Op[None]:
    if subject.kind is not PayoutKind.REFUND:
        return
    if subject.payment_id is None:
        raise RuntimeError(f"refund {subject.id} belongs to no payment")
    done_us = now_us if event in {PayoutEvent.PAID, PayoutEvent.REFUSED} else None
    yield from refunds.lock(subject.payment_id)
    version = yield from refunds.next_version(subject.payment_id)
    moved = yield _MOVE_REFUND[event](
        id_=subject.id, tx=tx_id, done_us=done_us, next_version=version
    )
    for row in moved:
        yield from refunds.changed(Refund(*row), now_us)
    if not moved and event is PayoutEvent.PAID:
        yield _PAID_BY(id_=subject.id, tx=tx_id)


def _owed_to(merchant_id: str, asset: str) -> Op[int]:
    return -(yield from ledger.balance(accounts.merchant(merchant_id), asset))
