"""Read the stored payments and payouts for an audit, directly from the database file."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from florin_server.db.engine.query import Operation, run
from florin_server.db.engine.sqlite import SqliteConnection

T = TypeVar("T")
StoredRows = list[tuple[Any, ...]]


class SelectRows(Protocol):
    """Reads rows from the store."""

    def __call__(self, query: str, /, *values: Any) -> StoredRows:
        """Return the rows of a query, whose parameters are `values`."""


class AuditedStore(Protocol):
    """Access to the committed data of a store that a service can have open."""

    def select(self, query: str, /, *values: Any) -> StoredRows:
        """Return the rows of a query, whose parameters are `values`."""

    def read(self, operation: Operation[T], /) -> T:
        """Return the result of an operation."""


class SqliteAuditedStore:
    """The file of a store on SQLite."""

    def __init__(self, database: Path) -> None:
        self._database = database

    def select(self, query: str, /, *values: Any) -> StoredRows:
        """Return the rows of a query, whose parameters are `values`."""
        place = f"file:{self._database}?mode=ro"
        with closing(sqlite3.connect(place, uri=True)) as connection:
            return connection.execute(query, values).fetchall()

    def read(self, operation: Operation[T], /) -> T:
        """Return the result of an operation."""
        with closing(SqliteConnection(self._database, writes=False, waits=True)) as connection:
            return run(operation, connection.query)


_SELECT = """
    SELECT p.id, p.status, p.tx_id, o.payer, o.chain_id, o.asset, o.value, o.fee, o.terms
    FROM payment p
"""
_SELECT_PAYMENTS = (
    f"{_SELECT} LEFT JOIN payment_option o ON o.payment_id = p.id AND o.id = p.option_id"
)
_SELECT_OFFERED = f"""
    {_SELECT} JOIN payment_option o ON o.payment_id = p.id WHERE o.chain_id LIKE 'eip155:%'
"""
_SELECT_REFUNDS = """
    SELECT payment_id, status, value, unit, account, tx_id FROM refund
"""
# the event of money that was no part of a payment names an asset, those of payments do not
_SELECT_RETURNS = """
    SELECT p.payment_id, p.status, p.value, 'caip19/' || p.asset, p.account, p.tx_id FROM payout p
    LEFT JOIN held_money h ON h.id = p.held_id
    WHERE p.kind = 'return' AND (h.id IS NULL OR h.event NOT LIKE '%/%')
"""
_SELECT_STRAY_RETURNS = """
    SELECT p.held_id, p.payment_id, p.status, p.value, 'caip19/' || p.asset, p.account, p.tx_id
    FROM payout p JOIN held_money h ON h.id = p.held_id
    WHERE p.kind = 'return' AND h.event LIKE '%/%'
"""
_SELECT_STRAYS = """
    SELECT id, payment_id, asset, payer, held, tx_hash, event, state, address, why FROM held_money
    WHERE event LIKE '%/%'
"""
_SELECT_HELD = "SELECT payment_id, state FROM held_money WHERE event NOT LIKE '%/%'"


@dataclass(frozen=True, slots=True)
class StoredPayment:
    """A stored payment with its chosen option, or with an offered one."""

    id: str
    status: str
    tx_id: str | None
    payer: str
    chain_id: str
    asset: str
    value: int
    fee: int
    terms: dict[str, Any]

    @property
    def is_paid(self) -> bool:
        """Return True if the payment succeeded."""
        return self.status == "succeeded"

    @property
    def ref(self) -> str:
        """Return the reference in its settlement events."""
        return str(self.terms["ref"])


@dataclass(frozen=True, slots=True)
class StoredRefund:
    """A stored refund, or a returned payment."""

    payment_id: str
    status: str
    value: int
    asset: str
    account: str
    tx_id: str | None


@dataclass(frozen=True, slots=True)
class StrayMoney:
    """Stored money of one sender (CAIP-10) that was no part of its payment, and went home.

    `address` is the payment's, bare; `owed_address` is the same (CAIP-10) unless the sender is
    blocked.
    """

    id: str
    payment_id: str
    asset: str
    payer: str
    value: int
    tx_hash: str
    address: str
    state: str
    owed_address: str | None
    why: str


class StoredFacts:
    """All stored facts of one run."""

    def __init__(self, select: SelectRows) -> None:
        self.payments = [_to_payment(values) for values in select(_SELECT_PAYMENTS)]
        self.offered_payments = {row.ref: row for row in map(_to_payment, select(_SELECT_OFFERED))}
        self.refunds = [_to_refund(values) for values in select(_SELECT_REFUNDS)]
        self.held_states: dict[str, str] = dict(select(_SELECT_HELD))
        self.returned_payouts = [_to_refund(values) for values in select(_SELECT_RETURNS)]
        self.strays = [_to_stray(values) for values in select(_SELECT_STRAYS)]
        # by the id of the money that they return
        self.stray_returns = [
            (str(held_id), _to_refund(tuple(values)))
            for held_id, *values in select(_SELECT_STRAY_RETURNS)
        ]


def _to_stray(values: tuple[Any, ...]) -> StrayMoney:
    money_id, payment_id, asset, payer, held, tx_hash, event, state, owed, why = values
    address = event.split(":")[1]
    return StrayMoney(
        money_id, payment_id, asset, payer, int(held), tx_hash, address, state, owed, why
    )


def _to_payment(values: tuple[Any, ...]) -> StoredPayment:
    payment_id, status, tx_id, payer, chain_id, asset, value, fee, terms = values
    return StoredPayment(
        id=payment_id,
        status=status,
        tx_id=tx_id,
        payer=payer or "",
        chain_id=chain_id or "",
        asset=asset or "",
        value=int(value or 0),
        fee=int(fee or 0),
        terms=json.loads(terms or "{}"),
    )


def _to_refund(values: tuple[Any, ...]) -> StoredRefund:
    payment_id, status, value, unit, account, tx_id = values
    asset = unit.removeprefix("caip19/")
    return StoredRefund(payment_id, status, int(value), asset, account or "", tx_id)
