"""What is written down around the chain: transactions before they are sent, and proven ends.

A transaction of ours is here before it is broadcast. A payment that is processing ends here and
nowhere else, together with its event, its booking and the end of its transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter

from sqlalchemy import Select, Update, exists, func, select, text, update

from florin_server.domain.ledger import journals
from florin_server.domain.payments.payment import (
    Confirmation,
    Option,
    Payment,
    ResolvedBuild,
    Status,
)
from florin_server.domain.payments.state import Event
from florin_server.domain.quarantine import ItemKind
from florin_server.domain.settlement.chain_txs import (
    Accepted,
    ChainTx,
    Finding,
    TxEnd,
    Variant,
)
from florin_server.domain.settlement.state import TRANSACTION, TxEvent
from florin_server.store.engine.columns import U256
from florin_server.store.engine.query import (
    Op,
    Operation,
    Row,
    Statement,
    StoreError,
    any_of,
    columns,
    insert,
    one_of,
    operation,
    param,
)
from florin_server.store.engine.times import is_due
from florin_server.store.ledger import ledger
from florin_server.store.payments.payments import (
    confirmation_of,
    event_of,
    issued_of,
    option_of,
    put_events,
)
from florin_server.store.payouts import held_money
from florin_server.store.quarantine.items import is_left_out
from florin_server.store.receipts import effects
from florin_server.store.settlement import gas, leases, token_accounts, used_nonces
from florin_server.store.settlement.chain_tx_rows import items_of, whole
from florin_server.store.tables.payments import UNSETTLED, ConfirmState
from florin_server.store.tables.settlement import OPEN
from florin_server.store.tables.tables import (
    chain_tx,
    chain_tx_bump,
    chain_tx_item,
    confirm,
    payment,
    payment_option,
)
from florin_server.store.tables.tables import issued as issue


class LostLease(StoreError):  # noqa: N818  (a state of the world, not a mistake)
    """Somebody else works on this now; nothing was written, and nothing may be broadcast."""

    passes = True


class NotWaiting(LostLease):
    """Items of a transaction are done already, or are in another transaction."""


# Final transactions of ours that may carry a payment without paying it. Honest ones fail once, when
# their money moves between a trial and its block; from then on each is tried alone before it is
# sent, and what then fails twice more does so on purpose.
FAILURES_MAX = 3

_NOT_HELD = confirm.c.state != ConfirmState.HELD
# few transactions are open, however many there were
_IN_OPEN = (
    exists()
    .where(
        text(OPEN),
        chain_tx.c.chain_id == confirm.c.chain_id,
        chain_tx_item.c.tx_id == chain_tx.c.id,
        chain_tx_item.c.payment_id == confirm.c.payment_id,
    )
    .correlate(confirm)
)
_OPTION_AT = len(payment.c)
_CONFIRMATION_AT = _OPTION_AT + len(columns(payment_option, Option))


_TRACK = (confirm.c.from_block, confirm.c.app, confirm.c.failures, confirm.c.reverted)


def _accepted() -> Select[Row]:
    return (
        select(
            *payment.c,
            *columns(payment_option, Option),
            *columns(confirm, Confirmation),
            *_TRACK,
        )
        .join_from(confirm, payment, payment.c.id == confirm.c.payment_id)
        .join(
            payment_option,
            (payment_option.c.payment_id == confirm.c.payment_id)
            & (payment_option.c.id == confirm.c.option_id),
        )
        .where(text(UNSETTLED), _NOT_HELD, confirm.c.chain_id == param("chain_id"))
        .order_by(confirm.c.at_us, confirm.c.payment_id)
    )


_WAITING = Statement(
    _accepted()
    .where(
        confirm.c.state == ConfirmState.WAITING,
        is_due(confirm.c.retry_at_us),
        confirm.c.failures < param("most"),
        ~is_left_out(ItemKind.PAYMENT, confirm.c.payment_id),
    )
    .limit(param("limit"))
)
_UNSETTLED = Statement(_accepted())
_UNSETTLED_IDS = Statement(
    select(confirm.c.payment_id).where(
        text(UNSETTLED), _NOT_HELD, confirm.c.chain_id == param("chain_id")
    )
)
_ISSUED = Statement(
    select(*columns(issue, ResolvedBuild))
    .join(
        confirm,
        (confirm.c.payment_id == issue.c.payment_id) & (confirm.c.option_id == issue.c.option_id),
    )
    .where(any_of(confirm.c.payment_id, "ids"))
    .order_by(issue.c.payment_id, issue.c.n.desc())
)
_COUNT = Statement(select(func.count()).select_from(confirm).where(text(UNSETTLED)))
_SUBMIT = Statement(
    update(confirm)
    .where(any_of(confirm.c.payment_id, "ids"), confirm.c.state == ConfirmState.WAITING)
    .values(state=ConfirmState.SUBMITTED)
    .returning(confirm.c.payment_id)
)
_LEAVE = Statement(
    update(confirm)
    .where(any_of(confirm.c.payment_id, "ids"), confirm.c.state == ConfirmState.WAITING)
    .values(state=ConfirmState.SUBMITTED)
)
# whoever puts them into a transaction changes them too
_LOCK = Statement(
    select(confirm.c.payment_id)
    .where(any_of(confirm.c.payment_id, "ids"))
    .order_by(confirm.c.payment_id)
    .with_for_update()
)
_RELEASE = Statement(
    update(confirm)
    .where(any_of(confirm.c.payment_id, "ids"), text(UNSETTLED), _NOT_HELD, ~_IN_OPEN)
    .values(state=ConfirmState.WAITING, retry_at_us=param("at_us"))
)
_PART = Statement(
    update(confirm)
    .where(any_of(confirm.c.payment_id, "ids"), text(UNSETTLED))
    .values(reverted=confirm.c.reverted + 1)
)
_DONE = Statement(
    update(confirm).where(any_of(confirm.c.payment_id, "ids")).values(state=ConfirmState.DONE)
)
_APPEND = Statement(insert(chain_tx))
_ITEM = Statement(insert(chain_tx_item))
_KNOWN = Statement(
    select(chain_tx.c.hash).where(
        chain_tx.c.chain_id == param("chain_id"), any_of(chain_tx.c.hash, "hashes")
    )
)
_OPEN_TXS = Statement(
    select(*chain_tx.c)
    .where(
        text(OPEN), chain_tx.c.chain_id == param("chain_id"), chain_tx.c.sender == param("sender")
    )
    .order_by(chain_tx.c.nonce)
)
_AT_NONCE = Statement(
    select(*chain_tx.c)
    .where(
        chain_tx.c.chain_id == param("chain_id"),
        chain_tx.c.sender == param("sender"),
        chain_tx.c.nonce == param("nonce"),
    )
    .order_by(chain_tx.c.created_at_us.desc(), chain_tx.c.id)
)
_BUMP = Statement(insert(chain_tx_bump))


def _move(event: TxEvent) -> Update:
    """Moves a transaction by the state table; nothing if it is where the event cannot happen."""
    return (
        update(chain_tx)
        .where(
            chain_tx.c.id == param("tx_id"),
            one_of(chain_tx.c.state, TRANSACTION.sources(event)),
        )
        .values(state=TRANSACTION.target(event))
    )


_SENT = Statement(_move(TxEvent.SENT).values(sent_block=param("block")))
_END = {
    TRANSACTION.target(event): Statement(
        _move(event)
        .values(
            block_number=param("number"),
            block_hash=param("digest"),
            final_hash=param("mined"),
        )
        .returning(func.coalesce(chain_tx.c.final_hash, chain_tx.c.hash), chain_tx.c.chain_id)
    )
    for event in (TxEvent.FINAL, TxEvent.REPLACED)
}
# the payment is locked first, as by whoever simulates its outcome
_TO_SETTLE = Statement(
    select(payment.c.id, payment.c.status)
    .join_from(payment, confirm, confirm.c.payment_id == payment.c.id)
    .where(any_of(payment.c.id, "ids"), text(UNSETTLED), _NOT_HELD)
    .order_by(payment.c.id)
    .with_for_update()
)
_CONCLUDE = Statement(
    update(payment)
    .where(payment.c.id == param("payment_id"), payment.c.status == Status.PROCESSING)
    .values(
        version=payment.c.version + 1,
        updated_at_us=param("now_us"),
        status=param("end"),
        tx_id=param("tx"),
        # what was to be paid stays, also of a payment that failed
        option_unit=func.coalesce(param("paid_unit"), payment.c.option_unit),
        option_value=func.coalesce(param("paid", U256), payment.c.option_value),
        settled_value=param("settled"),
        failure_code=param("code"),
        failure_detail=param("detail"),
    )
    .returning(*payment.c)
)


@operation
def waiting(chain_id: str, limit: int, now_us: int) -> Op[list[Accepted]]:
    """Accepted payments that are in no transaction and due, the oldest first.

    One that too many transactions did not pay is sent no more.
    """
    rows = yield _WAITING(chain_id=chain_id, now_us=now_us, limit=limit, most=FAILURES_MAX)
    return [_accepted_of(row) for row in rows]


@operation
def unsettled(chain_id: str) -> Op[list[Accepted]]:
    """Every payment of a chain that waits for its end on chain, the oldest first."""
    return [_accepted_of(row) for row in (yield _UNSETTLED(chain_id=chain_id))]


@operation
def unsettled_ids(chain_id: str) -> Op[frozenset[str]]:
    """The same payments, by id."""
    return frozenset([payment_id for (payment_id,) in (yield _UNSETTLED_IDS(chain_id=chain_id))])


@operation
def issued(payment_ids: Collection[str]) -> Op[list[ResolvedBuild]]:
    """What was issued for the options that payments are bound to, the newest of each first."""
    return [issued_of(row) for row in (yield _ISSUED(ids=payment_ids))]


@operation
def count_unsettled() -> Op[int]:
    """How many payments are processing, on all chains."""
    ((count,),) = yield _COUNT()
    return int(count)


@operation
def append(tx: ChainTx, epoch: int, lease: str, claim: Operation[None]) -> Op[None]:
    """Writes a signed transaction down, with its items and the nonce that it uses.

    LostLease if the epoch is not the lease's newest. `claim` takes the items out of their line in
    the same transaction, and raises NotWaiting if one is not in it. In both cases these bytes
    must never be broadcast.
    """
    yield from _holding(lease, epoch)
    yield from claim
    yield _APPEND.of(tx)
    if tx.item_ids:
        yield _ITEM.many(items_of(tx))
    yield from used_nonces.note(tx.chain_id, tx.sender, tx.nonce + 1)


@operation
def bump(tx: ChainTx, raised: Variant, epoch: int, lease: str, now_us: int) -> Op[None]:
    """Writes down that a transaction was signed again for a higher fee; LostLease like `append`.

    The number of a variant is unique, so that nobody writes two next ones.
    """
    yield from _holding(lease, epoch)
    yield _BUMP(
        tx_id=tx.id, n=len(tx.bumps), raw=raised.raw, hash=raised.hash, created_at_us=now_us
    )


def _holding(lease: str, epoch: int) -> Op[None]:
    if not (yield from leases.is_current(lease, epoch)):
        raise LostLease(f"lease {lease} was taken over after epoch {epoch}")


@operation
def claim(payment_ids: Collection[str]) -> Op[None]:
    """Part of an operation: takes payments out of the line; NotWaiting if one is not in it."""
    taken = {payment_id for (payment_id,) in (yield _SUBMIT(ids=payment_ids))}
    if missing := [one for one in payment_ids if one not in taken]:
        raise NotWaiting(f"not waiting to be settled: {', '.join(missing)}")


@operation
def known(chain_id: str, hashes: Collection[str]) -> Op[set[str]]:
    """Return those of some hashes that transactions of ours were written down with."""
    return {found for (found,) in (yield _KNOWN(chain_id=chain_id, hashes=hashes))}


@operation
def sent(heads: Mapping[str, int]) -> Op[None]:
    """Note that transactions were handed to the chain, maybe once more, with its head then."""
    for tx_id, head in heads.items():
        yield _SENT(tx_id=tx_id, block=head)


@operation
def open_txs(chain_id: str, sender: str) -> Op[list[ChainTx]]:
    """A key's transactions that are neither final nor replaced, in the order of their nonces."""
    return (yield from whole((yield _OPEN_TXS(chain_id=chain_id, sender=sender))))


@operation
def at_nonce(chain_id: str, sender: str, nonce: int) -> Op[list[ChainTx]]:
    """What was ever signed for a nonce, the newest first."""
    rows = yield _AT_NONCE(chain_id=chain_id, sender=sender, nonce=nonce)
    return (yield from whole(rows))


@operation
def leave(payment_ids: Collection[str]) -> Op[None]:
    """Takes payments out of the line whose transaction is the buyer's own to send."""
    yield _LEAVE(ids=payment_ids)


@operation
def release(payment_ids: Collection[str], retry_at_us: int) -> Op[None]:
    """Puts payments that are not settled back in line, due at a time.

    One that is in an open transaction stays there: another process sent it meanwhile.
    """
    yield _LOCK(ids=payment_ids)
    yield _RELEASE(ids=payment_ids, at_us=retry_at_us)


@operation
def part(payment_ids: Sequence[str]) -> Op[None]:
    """Part of an operation: a transaction of these came to nothing as a whole; each goes alone."""
    if payment_ids:
        yield _PART(ids=payment_ids)


@operation
def conclude(
    findings: Sequence[Finding],
    ends: Sequence[TxEnd],
    now_us: int,
    watch: Operation[None] | None = None,
) -> Op[list[Payment]]:
    """Ends payments and transactions on proof from the chain, and books both.

    `watch` writes down, in the same transaction, what a reorganisation might still undo.

    Answers the payments that it ended, or whose money it held. What had ended before, or was
    simulated, is left alone and nothing is booked twice, so the same proof may come again.
    """
    changed: list[Payment] = []
    over: list[str] = []
    stopped: list[Payment] = []
    to_settle = yield from _to_settle(findings)
    yield from effects.put([one for one in findings if one.payment_id in to_settle])
    for finding in sorted(findings, key=attrgetter("payment_id")):
        status = to_settle.get(finding.payment_id)
        if finding.held is not None:
            if status is Status.PROCESSING:
                stopped.append((yield from held_money.hold(finding.held, finding.postings, now_us)))
        elif status is Status.SUCCEEDED:
            # a reorganisation had undone it, and its payment stays as it ended
            yield from _book(finding, now_us)
            over.append(finding.payment_id)
        elif status is not None:
            ended = yield from _conclude(finding, now_us)
            if ended is not None:
                changed.append(ended)
    if over or changed:
        yield _DONE(ids=[*over, *(one.id for one in changed)])
    if changed:
        yield from put_events([event_of(one, *_reason(one)) for one in changed])
        yield from token_accounts.free([one.id for one in changed if one.status is Status.FAILED])
    yield from end_txs(ends, now_us)
    if watch is not None:
        yield from watch
    return changed + stopped


@operation
def end_txs(ends: Sequence[TxEnd], now_us: int) -> Op[None]:
    """Part of an operation: ends transactions and books what they cost and spent, once."""
    for end in sorted(ends, key=attrgetter("tx_id")):
        rows = yield _END[end.state](
            tx_id=end.tx_id,
            number=end.block_number,
            digest=end.block_hash,
            mined=end.final_hash,
        )
        if rows and end.costs:
            key, tx_hash = journals.gas(end.tx_id), rows[0][0]
            yield from ledger.post_again(key, journals.Kind.GAS, None, tx_hash, end.costs, now_us)
        if rows and end.spent:
            yield from gas.book(end.tx_id, rows[0][1], end.spent, now_us)


def _to_settle(findings: Sequence[Finding]) -> Op[dict[str, Status]]:
    """The payments whose end is still looked for on chain: nobody simulated another one."""
    if not findings:
        return {}
    return dict([row[:2] for row in (yield _TO_SETTLE(ids={one.payment_id for one in findings}))])


def _conclude(finding: Finding, now_us: int) -> Op[Payment | None]:
    rows = yield _CONCLUDE(
        payment_id=finding.payment_id,
        now_us=now_us,
        end=finding.status,
        tx=finding.tx_id,
        paid_unit=finding.option_unit,
        paid=finding.option_value,
        settled=finding.settled_value,
        code=finding.failure_code,
        detail=finding.failure_detail,
    )
    if not rows:
        return None
    yield from _book(finding, now_us)
    return Payment(*rows[0])


def _book(finding: Finding, now_us: int) -> Op[None]:
    if finding.postings or finding.status is Status.SUCCEEDED:
        key, of = journals.settle(finding.payment_id), finding.payment_id
        yield from ledger.post_again(
            key, journals.Kind.SETTLE, of, finding.tx_id, finding.postings, now_us
        )


def _reason(ended: Payment) -> tuple[Event, dict[str, str | None]]:
    if ended.status is Status.SUCCEEDED:
        return Event.EFFECT_FINAL, {"txId": ended.tx_id}
    return Event.UNSPENDABLE, {"reason": ended.failure_detail}


def _accepted_of(row: Row) -> Accepted:
    from_block, app, failures, reverted = row[-len(_TRACK) :]
    return Accepted(
        Payment(*row[:_OPTION_AT]),
        option_of(row[_OPTION_AT:_CONFIRMATION_AT]),
        confirmation_of(row[_CONFIRMATION_AT : -len(_TRACK)]),
        from_block,
        app,
        failures,
        alone=failures > 0 or reverted > 0,
    )
