"""Test that the store changes states according to the state tables, and in no other way."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from florin_server.db.engine.query import SQLITE, CoreStatement
from florin_server.db.tables.payouts import OWED_PREDICATE, UNPAID_PREDICATE
from florin_server.db.tables.settlement import OPEN_TX_PREDICATE
from florin_server.domain.payments import state as payments
from florin_server.domain.payments.payment import RefundStatus
from florin_server.domain.payouts.payout import PayoutStatus
from florin_server.domain.payouts.state import (
    EVENT_DESCRIPTIONS,
    PAYOUT_TRANSITIONS,
    REFUND_TRANSITIONS,
    PayoutEvent,
)
from florin_server.domain.settlement import state as transactions
from florin_server.domain.settlement.chain_txs import TxState
from florin_server.domain.settlement.state import TRANSACTION_TRANSITIONS, TxEvent
from florin_server.domain.transitions import TransitionTable
from sqlalchemy import Update

from tests.support.server_modules import import_parts

# the column of each table that has a state
COLUMNS = {"chain_tx": "state", "payout": "status", "refund": "status"}
TABLES: dict[str, TransitionTable[Any, Any]] = {
    "chain_tx": TRANSACTION_TRANSITIONS,
    "payout": PAYOUT_TRANSITIONS,
    "refund": REFUND_TRANSITIONS,
}


def statements() -> Iterator[CoreStatement]:
    """Yield every statement in the stores of the nouns, alone or by event."""
    for module in import_parts("store"):
        for value in vars(module).values():
            held = value.values() if isinstance(value, dict) else [value]
            yield from (item for item in held if isinstance(item, CoreStatement))


def moves() -> Iterator[tuple[str, frozenset[str], str | None]]:
    """Yield each move: table, states before, state after, or None if a parameter sets it."""
    for clause in {id(statement): statement.clause for statement in statements()}.values():
        if isinstance(clause, Update) and clause.table.name in COLUMNS:
            column = COLUMNS[clause.table.name]
            # SQLAlchemy has no public access to the values that are set
            for to, value in clause._values.items():  # noqa: SLF001
                if str(getattr(to, "name", to)) == column:
                    # values can read the state too, but do not decide on it
                    params = clause.whereclause.compile(dialect=SQLITE).params
                    before = [
                        param for name, param in params.items() if name.startswith(f"{column}_")
                    ]
                    yield clause.table.name, frozenset(before), value.value


def test_the_store_moves_states_by_the_tables_and_in_no_other_way():
    expected = set()
    for name, moved in TABLES.items():
        for row in moved.rows.values():
            # a refund that succeeded does not change
            before = {item: to for item, to in row.items() if item is not RefundStatus.SUCCEEDED}
            (after,) = set(before.values())
            expected.add((name, frozenset(before), after))
    assert set(moves()) == expected


def test_the_words_of_the_indexes_are_the_open_states():
    def among(column: str, states: Any) -> str:
        return f"{column} IN ({', '.join(repr(str(state)) for state in states)})"

    assert among("state", TRANSACTION_TRANSITIONS.list_sources(TxEvent.FINAL)) == OPEN_TX_PREDICATE
    assert among("status", [PayoutStatus.WAITING, PayoutStatus.SUBMITTED]) == OWED_PREDICATE
    assert among("status", [RefundStatus.PENDING, RefundStatus.PROCESSING]) == UNPAID_PREDICATE


def test_a_refund_is_where_its_payout_is():
    """A refund follows every state change of its payout, from the start on."""
    refund_statuses = {
        PayoutStatus.WAITING: RefundStatus.PENDING,
        PayoutStatus.SUBMITTED: RefundStatus.PROCESSING,
        PayoutStatus.DONE: RefundStatus.SUCCEEDED,
        PayoutStatus.REFUSED: RefundStatus.FAILED,
    }
    seen, new = set(), {(PayoutStatus.WAITING, RefundStatus.PENDING)}
    while new:
        seen |= new
        new = {
            (
                PAYOUT_TRANSITIONS.get_next_state(payout, event),
                REFUND_TRANSITIONS.get_next_state(refund, event),
            )
            for (payout, refund), event in itertools.product(seen, PayoutEvent)
            # the operator cannot refuse a payout reported as paid
            if payout in PAYOUT_TRANSITIONS.rows[event] and refund in REFUND_TRANSITIONS.rows[event]
        } - seen
    assert all(
        refund in {refund_statuses[payout], RefundStatus.SUCCEEDED} for payout, refund in seen
    )
    assert {payout for payout, _ in seen} == set(PayoutStatus)
    assert {refund for _, refund in seen} == set(RefundStatus)


def test_every_event_and_state_has_a_description():
    assert list(payments.EVENT_DESCRIPTIONS) == list(payments.PaymentStateEvent)
    assert list(transactions.EVENT_DESCRIPTIONS) == list(TxEvent)
    assert list(transactions.STATE_DESCRIPTIONS) == list(TxState)
    assert list(EVENT_DESCRIPTIONS) == list(PayoutEvent)


def test_transition_outside_its_table_is_refused():
    assert TRANSACTION_TRANSITIONS.get_next_state(TxState.SIGNED, TxEvent.SENT) is TxState.SENT
    with pytest.raises(ValueError, match="sent cannot happen to what is final"):
        TRANSACTION_TRANSITIONS.get_next_state(TxState.FINAL, TxEvent.SENT)
    with pytest.raises(ValueError, match="claimed leads to 2 states"):
        REFUND_TRANSITIONS.get_target(PayoutEvent.CLAIMED)
