"""The state tables are what the store goes by, and nothing else moves a state."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
from collections.abc import Iterator
from typing import Any

import florin_server.store
import pytest
from florin_server.domain.payments import state as payments
from florin_server.domain.payments.payment import RefundStatus
from florin_server.domain.payouts.payout import PayoutStatus
from florin_server.domain.payouts.state import EVENTS, PAYOUT, REFUND, PayoutEvent
from florin_server.domain.settlement import state as transactions
from florin_server.domain.settlement.chain_txs import TxState
from florin_server.domain.settlement.state import TRANSACTION, TxEvent
from florin_server.domain.transitions import Transitions
from florin_server.store.engine.query import SQLITE, Statement
from florin_server.store.tables.payouts import OWED, UNPAID
from florin_server.store.tables.settlement import OPEN
from sqlalchemy import Update

# the column of each table that holds a state
COLUMNS = {"chain_tx": "state", "payout": "status", "refund": "status"}
TABLES: dict[str, Transitions[Any, Any]] = {
    "chain_tx": TRANSACTION,
    "payout": PAYOUT,
    "refund": REFUND,
}


def statements() -> Iterator[Statement]:
    """Every statement that a module of the store holds, alone or by event."""
    for found in pkgutil.walk_packages(florin_server.store.__path__, "florin_server.store."):
        if ".migrations" in found.name:
            continue
        for value in vars(importlib.import_module(found.name)).values():
            held = value.values() if isinstance(value, dict) else [value]
            yield from (one for one in held if isinstance(one, Statement))


def moves() -> Iterator[tuple[str, frozenset[str], str | None]]:
    """What statements move: table, states before, state after; None for one that comes by name."""
    for clause in {id(one): one.clause for one in statements()}.values():
        if isinstance(clause, Update) and clause.table.name in COLUMNS:
            column = COLUMNS[clause.table.name]
            # what is set, SQLAlchemy tells nobody
            for to, value in clause._values.items():  # noqa: SLF001
                if str(getattr(to, "name", to)) == column:
                    # values may ask about the state too, but do not decide on it
                    params = clause.whereclause.compile(dialect=SQLITE).params
                    before = [one for name, one in params.items() if name.startswith(f"{column}_")]
                    yield clause.table.name, frozenset(before), value.value


def test_the_store_moves_states_by_the_tables_and_in_no_other_way():
    wanted = set()
    for name, moved in TABLES.items():
        for row in moved.rows.values():
            # a refund that succeeded is not touched
            before = {one: to for one, to in row.items() if one is not RefundStatus.SUCCEEDED}
            (after,) = set(before.values())
            wanted.add((name, frozenset(before), after))
    assert set(moves()) == wanted


def test_the_words_of_the_indexes_are_the_open_states():
    def among(column: str, states: Any) -> str:
        return f"{column} IN ({', '.join(repr(str(one)) for one in states)})"

    assert among("state", TRANSACTION.sources(TxEvent.FINAL)) == OPEN
    assert among("status", [PayoutStatus.WAITING, PayoutStatus.SUBMITTED]) == OWED
    assert among("status", [RefundStatus.PENDING, RefundStatus.PROCESSING]) == UNPAID


def test_a_refund_is_where_its_payout_is():
    """Whatever happens to a payout from its beginning on, the refund that it pays goes along."""
    told = {
        PayoutStatus.WAITING: RefundStatus.PENDING,
        PayoutStatus.SUBMITTED: RefundStatus.PROCESSING,
        PayoutStatus.DONE: RefundStatus.SUCCEEDED,
        PayoutStatus.REFUSED: RefundStatus.FAILED,
    }
    seen, new = set(), {(PayoutStatus.WAITING, RefundStatus.PENDING)}
    while new:
        seen |= new
        new = {
            (PAYOUT.after(payout, event), REFUND.after(refund, event))
            for (payout, refund), event in itertools.product(seen, PayoutEvent)
            # the operator may not refuse what was told as paid
            if payout in PAYOUT.rows[event] and refund in REFUND.rows[event]
        } - seen
    assert all(refund in {told[payout], RefundStatus.SUCCEEDED} for payout, refund in seen)
    assert {payout for payout, _ in seen} == set(PayoutStatus)
    assert {refund for _, refund in seen} == set(RefundStatus)


def test_events_and_states_are_told():
    assert list(payments.EVENTS) == list(payments.Event)
    assert list(transactions.EVENTS) == list(TxEvent)
    assert list(transactions.STATES) == list(TxState)
    assert list(EVENTS) == list(PayoutEvent)


def test_what_is_not_in_a_table_is_refused():
    assert TRANSACTION.after(TxState.SIGNED, TxEvent.SENT) is TxState.SENT
    with pytest.raises(ValueError, match="sent cannot happen to what is final"):
        TRANSACTION.after(TxState.FINAL, TxEvent.SENT)
    with pytest.raises(ValueError, match="claimed leads to 2 states"):
        REFUND.target(PayoutEvent.CLAIMED)
