"""What is stored of payments and payouts, as a judge reads it from the file."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

Rows = list[tuple[Any, ...]]


class Select(Protocol):
    """Reads rows from where the service keeps them."""

    def __call__(self, query: str, /, *values: Any) -> Rows:
        """The rows of a query; values stand for its question marks."""


_SELECT = """
    SELECT p.id, p.status, p.tx_id, o.payer, o.chain_id, o.asset, o.value, o.fee, o.terms
    FROM payment p
"""
_ROWS = f"{_SELECT} LEFT JOIN payment_option o ON o.payment_id = p.id AND o.id = p.option_id"
_OFFERED = f"""
    {_SELECT} JOIN payment_option o ON o.payment_id = p.id WHERE o.chain_id LIKE 'eip155:%'
"""
_REFUNDS = """
    SELECT payment_id, status, value, unit, account, tx_id FROM refund
"""
_RETURNS = """
    SELECT payment_id, status, value, 'caip19/' || asset, account, tx_id FROM payout
    WHERE kind = 'return'
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A stored payment with the option that it is bound to, or with one that was offered."""

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
    def paid(self) -> bool:
        """True if it succeeded."""
        return self.status == "succeeded"

    @property
    def ref(self) -> str:
        """What settlement events name it by."""
        return str(self.terms["ref"])


@dataclass(frozen=True, slots=True)
class Refund:
    """Money that went back."""

    payment_id: str
    status: str
    value: int
    asset: str
    account: str
    tx_id: str | None


class Facts:
    """Everything of one run."""

    def __init__(self, select: Select) -> None:
        self.rows = [_row(values) for values in select(_ROWS)]
        self.offered = {row.ref: row for row in map(_row, select(_OFFERED))}
        self.refunds = [_refund(values) for values in select(_REFUNDS)]
        self.held: dict[str, str] = dict(select("SELECT payment_id, state FROM held_money"))
        self.returns = [_refund(values) for values in select(_RETURNS)]


def selecting(database: Path) -> Select:
    """Reads from the file of a store, whoever has it open."""

    def select(query: str, *values: Any) -> Rows:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            return connection.execute(query, values).fetchall()

    return select


def _row(values: tuple[Any, ...]) -> Row:
    payment_id, status, tx_id, payer, chain_id, asset, value, fee, terms = values
    return Row(
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


def _refund(values: tuple[Any, ...]) -> Refund:
    payment_id, status, value, unit, account, tx_id = values
    asset = unit.removeprefix("caip19/")
    return Refund(payment_id, status, int(value), asset, account or "", tx_id)
