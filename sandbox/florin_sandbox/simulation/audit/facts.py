"""Read the stored payments and payouts for an audit, directly from the database file."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

StoredRows = list[tuple[Any, ...]]


class SelectRows(Protocol):
    """Reads rows from the store."""

    def __call__(self, query: str, /, *values: Any) -> StoredRows:
        """Return the rows of a query; `values` replace its question marks."""


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
_SELECT_RETURNS = """
    SELECT payment_id, status, value, 'caip19/' || asset, account, tx_id FROM payout
    WHERE kind = 'return'
"""


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


class StoredFacts:
    """All stored facts of one run."""

    def __init__(self, select: SelectRows) -> None:
        self.payments = [_to_payment(values) for values in select(_SELECT_PAYMENTS)]
        self.offered_payments = {row.ref: row for row in map(_to_payment, select(_SELECT_OFFERED))}
        self.refunds = [_to_refund(values) for values in select(_SELECT_REFUNDS)]
        self.held_states: dict[str, str] = dict(select("SELECT payment_id, state FROM held_money"))
        self.returned_payouts = [_to_refund(values) for values in select(_SELECT_RETURNS)]


def create_selector(database: Path) -> SelectRows:
    """Return a reader of a store's file; the service can have the file open."""

    def select(query: str, *values: Any) -> StoredRows:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            return connection.execute(query, values).fetchall()

    return select


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
