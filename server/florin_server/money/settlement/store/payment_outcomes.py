"""Proven ends of payments: each with its event, its booking and the end of its transaction."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from sqlalchemy import func, select, text, update

from florin_server.db.engine.columns import U256
from florin_server.db.engine.query import (
    Command,
    Op,
    Operation,
    Statement,
    is_in,
    operation,
    param,
)
from florin_server.db.tables.payments import UNSETTLED_PREDICATE, ConfirmationState
from florin_server.db.tables.tables import confirmation_table, payment_table
from florin_server.domain.ledger import journals
from florin_server.domain.payments.payment import Payment, PaymentStatus
from florin_server.domain.payments.state import PaymentStateEvent
from florin_server.domain.settlement.chain_txs import PaymentOutcome, TransactionOutcome
from florin_server.money.ledger.store import ledger
from florin_server.money.payments.store import effects
from florin_server.money.payments.store.payments import put_events, to_event_row
from florin_server.money.payouts.store import held_money
from florin_server.money.settlement.store import chain_txs, token_accounts
from florin_server.money.settlement.store.settlement_items import NOT_HELD


class _PaymentState(NamedTuple):
    id: str
    status: PaymentStatus


_DONE = Command(
    update(confirmation_table)
    .where(is_in(confirmation_table.c.payment_id, "ids"))
    .values(state=ConfirmationState.DONE)
)
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
    yield from chain_txs.finalize_transactions(transaction_outcomes, now_us)
    if watch_operation is not None:
        yield from watch_operation
    return ended_payments + held_payments


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
