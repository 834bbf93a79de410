"""Records around the chain: transactions before they are sent, and proven ends.

Our transactions are recorded before they are broadcast. A payment that is processing ends only
here, together with its event, its booking and the end of its transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from sqlalchemy import Update, exists, func, select, text, update

from florin_server.db.engine.columns import U256
from florin_server.db.engine.query import (
    Command,
    Op,
    Operation,
    Statement,
    StoreError,
    columns,
    insert,
    is_in,
    is_one_of,
    operation,
    param,
)
from florin_server.db.engine.times import is_due
from florin_server.db.tables.payments import UNSETTLED_PREDICATE, ConfirmationState
from florin_server.db.tables.settlement import OPEN_TX_PREDICATE
from florin_server.db.tables.tables import (
    chain_tx,
    chain_tx_bump,
    chain_tx_item,
)
from florin_server.db.tables.tables import confirm as confirmation_table
from florin_server.db.tables.tables import issued as resolved_build_table
from florin_server.db.tables.tables import payment as payment_table
from florin_server.domain.ledger import journals
from florin_server.domain.payments.payment import (
    Confirmation,
    Payment,
    PaymentOption,
    PaymentStatus,
    ResolvedBuild,
)
from florin_server.domain.payments.state import PaymentStateEvent
from florin_server.domain.quarantine import QuarantinedItemKind
from florin_server.domain.settlement.chain_txs import (
    ChainTx,
    PaymentOutcome,
    SettlementItem,
    TransactionOutcome,
    TransactionVariant,
)
from florin_server.domain.settlement.state import TRANSACTION_TRANSITIONS, TxEvent
from florin_server.money.ledger.store import ledger
from florin_server.money.payments.store import effects
from florin_server.money.payments.store.payments import (
    put_events,
    to_event_row,
)
from florin_server.money.payouts.store import held_money
from florin_server.money.settlement.store import gas, token_accounts, used_nonces
from florin_server.money.settlement.store.chain_tx_rows import (
    TransactionRow,
    load_transactions,
    to_item_rows,
)
from florin_server.money.settlement.store.settlement_items import (
    NOT_HELD,
    SettlementRow,
    select_items,
    to_settlement_item,
)
from florin_server.operations.store import leases
from florin_server.operations.store.quarantine import is_excluded


class LostLease(StoreError):  # noqa: N818  (a state of the world, not a mistake)
    """Another process works on this now; nothing was written, and nothing can be broadcast."""

    is_transient = True


class ItemsUnavailable(LostLease):
    """Items of a transaction are already done, or are in another transaction."""


# Our final transactions that can include a payment without paying it. Honest payments fail once,
# when their money moves between a dry run and its block. From then on each is dry-run alone before
# it is sent, and a payment that fails twice more does so on purpose.
FAILURES_MAX = 3

# few transactions are open at any time
_IN_OPEN = (
    exists()
    .where(
        text(OPEN_TX_PREDICATE),
        chain_tx.c.chain_id == confirmation_table.c.chain_id,
        chain_tx_item.c.tx_id == chain_tx.c.id,
        chain_tx_item.c.payment_id == confirmation_table.c.payment_id,
    )
    .correlate(confirmation_table)
)


class _EndedTransaction(NamedTuple):
    hash: str
    chain_id: str


class _PaymentState(NamedTuple):
    id: str
    status: PaymentStatus


_WAITING = Statement(
    select_items()
    .where(
        confirmation_table.c.state == ConfirmationState.WAITING,
        is_due(confirmation_table.c.retry_at_us),
        confirmation_table.c.failures < param("most"),
        ~is_excluded(QuarantinedItemKind.PAYMENT, confirmation_table.c.payment_id),
    )
    .limit(param("limit")),
    SettlementRow,
    payment=Payment,
    option=PaymentOption,
    confirmation=Confirmation,
)
_UNSETTLED = Statement(
    select_items(),
    SettlementRow,
    payment=Payment,
    option=PaymentOption,
    confirmation=Confirmation,
)
_UNSETTLED_IDS = Statement(
    select(confirmation_table.c.payment_id).where(
        text(UNSETTLED_PREDICATE), NOT_HELD, confirmation_table.c.chain_id == param("chain_id")
    ),
    str,
)
_ISSUED = Statement(
    select(*columns(resolved_build_table, ResolvedBuild))
    .join(
        confirmation_table,
        (confirmation_table.c.payment_id == resolved_build_table.c.payment_id)
        & (confirmation_table.c.option_id == resolved_build_table.c.option_id),
    )
    .where(is_in(confirmation_table.c.payment_id, "ids"))
    .order_by(resolved_build_table.c.payment_id, resolved_build_table.c.n.desc()),
    ResolvedBuild,
)
_COUNT = Statement(
    select(func.count()).select_from(confirmation_table).where(text(UNSETTLED_PREDICATE)), int
)
_SUBMIT = Statement(
    update(confirmation_table)
    .where(
        is_in(confirmation_table.c.payment_id, "ids"),
        confirmation_table.c.state == ConfirmationState.WAITING,
    )
    .values(state=ConfirmationState.SUBMITTED)
    .returning(confirmation_table.c.payment_id),
    str,
)
_LEAVE = Command(
    update(confirmation_table)
    .where(
        is_in(confirmation_table.c.payment_id, "ids"),
        confirmation_table.c.state == ConfirmationState.WAITING,
    )
    .values(state=ConfirmationState.SUBMITTED)
)
# an operation that puts them into a transaction changes them too
_LOCK = Statement(
    select(confirmation_table.c.payment_id)
    .where(is_in(confirmation_table.c.payment_id, "ids"))
    .order_by(confirmation_table.c.payment_id)
    .with_for_update(),
    str,
)
_RELEASE = Command(
    update(confirmation_table)
    .where(
        is_in(confirmation_table.c.payment_id, "ids"),
        text(UNSETTLED_PREDICATE),
        NOT_HELD,
        ~_IN_OPEN,
    )
    .values(state=ConfirmationState.WAITING, retry_at_us=param("at_us"))
)
_ISOLATE = Command(
    update(confirmation_table)
    .where(is_in(confirmation_table.c.payment_id, "ids"), text(UNSETTLED_PREDICATE))
    .values(reverted=confirmation_table.c.reverted + 1)
)
_DONE = Command(
    update(confirmation_table)
    .where(is_in(confirmation_table.c.payment_id, "ids"))
    .values(state=ConfirmationState.DONE)
)
_APPEND = Command(insert(chain_tx))
_ITEM = Command(insert(chain_tx_item))
_FILTER_HASHES = Statement(
    select(chain_tx.c.hash).where(
        chain_tx.c.chain_id == param("chain_id"), is_in(chain_tx.c.hash, "hashes")
    ),
    str,
)
_OPEN_TXS = Statement(
    select(*chain_tx.c)
    .where(
        text(OPEN_TX_PREDICATE),
        chain_tx.c.chain_id == param("chain_id"),
        chain_tx.c.sender == param("sender"),
    )
    .order_by(chain_tx.c.nonce),
    TransactionRow,
)
_AT_NONCE = Statement(
    select(*chain_tx.c)
    .where(
        chain_tx.c.chain_id == param("chain_id"),
        chain_tx.c.sender == param("sender"),
        chain_tx.c.nonce == param("nonce"),
    )
    .order_by(chain_tx.c.created_at_us.desc(), chain_tx.c.id),
    TransactionRow,
)
_BUMP = Command(insert(chain_tx_bump))


def _update_by_event(event: TxEvent) -> Update:
    """Build an update by the state table; it changes nothing if the event cannot happen."""
    return (
        update(chain_tx)
        .where(
            chain_tx.c.id == param("tx_id"),
            is_one_of(chain_tx.c.state, TRANSACTION_TRANSITIONS.list_sources(event)),
        )
        .values(state=TRANSACTION_TRANSITIONS.get_target(event))
    )


_SENT = Command(_update_by_event(TxEvent.SENT).values(sent_block=param("block")))
_END = {
    TRANSACTION_TRANSITIONS.get_target(event): Statement(
        _update_by_event(event)
        .values(
            block_number=param("block_number"),
            block_hash=param("block_hash"),
            final_hash=param("final_hash"),
        )
        .returning(
            func.coalesce(chain_tx.c.final_hash, chain_tx.c.hash).label("hash"),
            chain_tx.c.chain_id,
        ),
        _EndedTransaction,
    )
    for event in (TxEvent.FINAL, TxEvent.REPLACED)
}
# the payment is locked first, as for a simulated outcome
_TO_SETTLE = Statement(
    select(payment_table.c.id, payment_table.c.status)
    .join_from(
        payment_table, confirmation_table, confirmation_table.c.payment_id == payment_table.c.id
    )
    .where(is_in(payment_table.c.id, "ids"), text(UNSETTLED_PREDICATE), NOT_HELD)
    .order_by(payment_table.c.id)
    .with_for_update(),
    _PaymentState,
)
_FINALIZE = Statement(
    update(payment_table)
    .where(
        payment_table.c.id == param("payment_id"),
        payment_table.c.status == PaymentStatus.PROCESSING,
    )
    .values(
        version=payment_table.c.version + 1,
        updated_at_us=param("now_us"),
        status=param("status"),
        tx_id=param("tx_id"),
        # the option stays, even for a payment that failed
        option_unit=func.coalesce(param("option_unit"), payment_table.c.option_unit),
        option_value=func.coalesce(param("option_value", U256), payment_table.c.option_value),
        settled_value=param("settled_value"),
        failure_code=param("failure_code"),
        failure_detail=param("failure_detail"),
    )
    .returning(*payment_table.c),
    Payment,
)


@operation
def list_waiting(chain_id: str, limit: int, now_us: int) -> Op[list[SettlementItem]]:
    """Return accepted payments that are in no transaction and due, the oldest first.

    A payment that too many transactions did not pay is not sent any more.
    """
    rows = yield from _WAITING.all(chain_id=chain_id, now_us=now_us, limit=limit, most=FAILURES_MAX)
    return [to_settlement_item(row) for row in rows]


@operation
def list_unsettled(chain_id: str) -> Op[list[SettlementItem]]:
    """Return every payment of a chain that waits for its end on chain, the oldest first."""
    return [to_settlement_item(row) for row in (yield from _UNSETTLED.all(chain_id=chain_id))]


@operation
def list_unsettled_ids(chain_id: str) -> Op[frozenset[str]]:
    """Return the ids of every payment of a chain that waits for its end on chain."""
    return frozenset((yield from _UNSETTLED_IDS.all(chain_id=chain_id)))


@operation
def list_resolved_builds(payment_ids: Collection[str]) -> Op[list[ResolvedBuild]]:
    """Return the resolved builds of payments' bound options, the newest of each first."""
    return (yield from _ISSUED.all(ids=payment_ids))


@operation
def count_unsettled() -> Op[int]:
    """Return how many payments are processing, on all chains."""
    count = yield from _COUNT.single()
    return int(count)


@operation
def append(tx: ChainTx, epoch: int, lease: str, claim: Operation[None]) -> Op[None]:
    """Record a signed transaction, with its items and its nonce.

    Raise LostLease if the epoch is not the lease's newest. `claim` claims the items in the same
    transaction, and raises ItemsUnavailable if an item is not waiting. After either error these
    bytes must never be broadcast.
    """
    yield from _require_lease(lease, epoch)
    yield from claim
    yield _APPEND(tx)
    if tx.item_ids:
        yield _ITEM.bind_many(to_item_rows(tx))
    yield from used_nonces.record_next_nonce(tx.chain_id, tx.sender, tx.nonce + 1)


@operation
def bump(tx: ChainTx, variant: TransactionVariant, epoch: int, lease: str, now_us: int) -> Op[None]:
    """Record that a transaction was signed again for a higher fee; LostLease like `append`.

    The number of a variant is unique, so that no two processes record the same next variant.
    """
    yield from _require_lease(lease, epoch)
    yield _BUMP(
        tx_id=tx.id, n=len(tx.bumps), raw=variant.raw, hash=variant.hash, created_at_us=now_us
    )


def _require_lease(lease: str, epoch: int) -> Op[None]:
    if not (yield from leases.is_current(lease, epoch)):
        raise LostLease(f"lease {lease} was taken over after epoch {epoch}")


@operation
def claim(payment_ids: Collection[str]) -> Op[None]:
    """Claim payments; raise ItemsUnavailable if one is not waiting. Part of an operation."""
    taken = set((yield from _SUBMIT.all(ids=payment_ids)))
    if missing := [payment_id for payment_id in payment_ids if payment_id not in taken]:
        raise ItemsUnavailable(f"not waiting to be settled: {', '.join(missing)}")


@operation
def filter_known_hashes(chain_id: str, hashes: Collection[str]) -> Op[set[str]]:
    """Return which of some hashes belong to recorded transactions of ours."""
    return set((yield from _FILTER_HASHES.all(chain_id=chain_id, hashes=hashes)))


@operation
def record_broadcasts(heads: Mapping[str, int]) -> Op[None]:
    """Record broadcasts of transactions, first or repeated, with the chain's head."""
    for tx_id, head in heads.items():
        yield _SENT(tx_id=tx_id, block=head)


@operation
def list_open(chain_id: str, sender: str) -> Op[list[ChainTx]]:
    """Return a key's transactions that are neither final nor replaced, by nonce."""
    return (
        yield from load_transactions((yield from _OPEN_TXS.all(chain_id=chain_id, sender=sender)))
    )


@operation
def list_at_nonce(chain_id: str, sender: str, nonce: int) -> Op[list[ChainTx]]:
    """Return all transactions ever signed for a nonce, the newest first."""
    transactions = yield from _AT_NONCE.all(chain_id=chain_id, sender=sender, nonce=nonce)
    return (yield from load_transactions(transactions))


@operation
def leave_to_buyer(payment_ids: Collection[str]) -> Op[None]:
    """Stop submitting payments whose transaction the buyer sends."""
    yield _LEAVE(ids=payment_ids)


@operation
def release(payment_ids: Collection[str], retry_at_us: int) -> Op[None]:
    """Make unsettled payments wait again, due at a time.

    A payment in an open transaction stays there: another process sent it meanwhile.
    """
    yield from _LOCK.all(ids=payment_ids)
    yield _RELEASE(ids=payment_ids, at_us=retry_at_us)


@operation
def isolate(payment_ids: Sequence[str]) -> Op[None]:
    """Record that a transaction failed as a whole, so that its payments go alone next.

    Part of an operation.
    """
    if payment_ids:
        yield _ISOLATE(ids=payment_ids)


@operation
def finalize(
    payment_outcomes: Sequence[PaymentOutcome],
    transaction_outcomes: Sequence[TransactionOutcome],
    now_us: int,
    watch_operation: Operation[None] | None = None,
) -> Op[list[Payment]]:
    """End payments and transactions on proof from the chain, and book both.

    `watch_operation` records, in the same transaction, what a reorg could still undo.

    Return the payments that it ended, or whose money it held. A payment that ended before, or was
    simulated, stays unchanged and nothing is booked twice, so that a proof can be repeated.
    """
    ended_payments: list[Payment] = []
    settled_ids: list[str] = []
    held_payments: list[Payment] = []
    to_settle = yield from _find_unsettled_statuses(payment_outcomes)
    yield from effects.put(
        [outcome for outcome in payment_outcomes if outcome.payment_id in to_settle]
    )
    for outcome in sorted(payment_outcomes, key=attrgetter("payment_id")):
        status = to_settle.get(outcome.payment_id)
        if outcome.held_money is not None:
            if status is PaymentStatus.PROCESSING:
                held_payments.append(
                    (yield from held_money.hold(outcome.held_money, outcome.postings, now_us))
                )
        elif status is PaymentStatus.SUCCEEDED:
            # a reorg had undone it, and its payment keeps its status
            yield from _post_outcome(outcome, now_us)
            settled_ids.append(outcome.payment_id)
        elif status is not None:
            ended_payment = yield from _finalize_payment(outcome, now_us)
            if ended_payment is not None:
                ended_payments.append(ended_payment)
    if settled_ids or ended_payments:
        yield _DONE(ids=[*settled_ids, *(payment.id for payment in ended_payments)])
    if ended_payments:
        yield from put_events(
            [to_event_row(payment, *_to_final_event(payment)) for payment in ended_payments]
        )
        yield from token_accounts.release(
            [payment.id for payment in ended_payments if payment.status is PaymentStatus.FAILED]
        )
    yield from finalize_transactions(transaction_outcomes, now_us)
    if watch_operation is not None:
        yield from watch_operation
    return ended_payments + held_payments


@operation
def finalize_transactions(
    transaction_outcomes: Sequence[TransactionOutcome], now_us: int
) -> Op[None]:
    """End transactions, and book their cost and gas once; part of an operation."""
    for outcome in sorted(transaction_outcomes, key=attrgetter("tx_id")):
        ended = yield from _END[outcome.state].first(
            tx_id=outcome.tx_id,
            block_number=outcome.block_number,
            block_hash=outcome.block_hash,
            final_hash=outcome.final_hash,
        )
        if ended is not None and outcome.cost_postings:
            key = journals.gas_key(outcome.tx_id)
            yield from ledger.post_again(
                key, journals.JournalKind.GAS, None, ended.hash, outcome.cost_postings, now_us
            )
        if ended is not None and outcome.gas_spending:
            yield from gas.book(outcome.tx_id, ended.chain_id, outcome.gas_spending, now_us)


def _find_unsettled_statuses(
    payment_outcomes: Sequence[PaymentOutcome],
) -> Op[dict[str, PaymentStatus]]:
    """Return the payments whose end on chain is still open, which excludes simulated payments."""
    if not payment_outcomes:
        return {}
    return dict(
        (yield from _TO_SETTLE.all(ids={outcome.payment_id for outcome in payment_outcomes}))
    )


def _finalize_payment(outcome: PaymentOutcome, now_us: int) -> Op[Payment | None]:
    ended_payment = yield from _FINALIZE.first(
        payment_id=outcome.payment_id,
        now_us=now_us,
        status=outcome.status,
        tx_id=outcome.tx_hash,
        option_unit=outcome.option_unit,
        option_value=outcome.option_value,
        settled_value=outcome.settled_value,
        failure_code=outcome.failure_code,
        failure_detail=outcome.failure_detail,
    )
    if ended_payment is None:
        return None
    yield from _post_outcome(outcome, now_us)
    return ended_payment


def _post_outcome(outcome: PaymentOutcome, now_us: int) -> Op[None]:
    if outcome.postings or outcome.status is PaymentStatus.SUCCEEDED:
        key, payment_id = journals.settle_key(outcome.payment_id), outcome.payment_id
        yield from ledger.post_again(
            key,
            journals.JournalKind.SETTLE,
            payment_id,
            outcome.tx_hash,
            outcome.postings,
            now_us,
        )


def _to_final_event(payment: Payment) -> tuple[PaymentStateEvent, dict[str, str | None]]:
    if payment.status is PaymentStatus.SUCCEEDED:
        return PaymentStateEvent.EFFECT_FINAL, {"txId": payment.tx_id}
    return PaymentStateEvent.UNSPENDABLE, {"reason": payment.failure_detail}
