"""The export of book entries, journal by journal."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from sqlalchemy import Select, select

from florin_server.db.engine.query import Op, Statement, is_in, operation, param
from florin_server.db.tables.tables import ledger_journal_table, ledger_transfer_table
from florin_server.domain.exports.roots import ExportPage, ExportRoot
from florin_server.features.exports.store.roots import ExportSource
from florin_server.features.exports.store.scan import select_last, select_range


def _select_postings() -> Select[Any]:
    return (
        select(
            ledger_journal_table.c.idem_key,
            ledger_transfer_table.c.n,
            ledger_journal_table.c.type,
            ledger_journal_table.c.at_us,
            ledger_journal_table.c.payment_id,
            ledger_journal_table.c.tx_hash,
            ledger_transfer_table.c.debit,
            ledger_transfer_table.c.credit,
            ledger_transfer_table.c.asset,
            ledger_transfer_table.c.amount,
            ledger_journal_table.c.note,
        )
        .join_from(
            ledger_journal_table,
            ledger_transfer_table,
            ledger_transfer_table.c.idem_key == ledger_journal_table.c.idem_key,
        )
        .order_by(ledger_journal_table.c.idem_key, ledger_transfer_table.c.n)
    )


_LAST = select_last(ledger_journal_table.c.idem_key)


class _Posting(NamedTuple):
    idem_key: str
    n: int
    type: str
    at_us: int
    payment_id: str | None
    tx_hash: str | None
    debit: str
    credit: str
    asset: str
    amount: int
    note: str | None


_RANGE = Statement(
    select_range(_select_postings(), ledger_journal_table.c.idem_key).where(
        ledger_journal_table.c.at_us > param("since_us")
    ),
    _Posting,
)
_FIND = Statement(_select_postings().where(is_in(ledger_journal_table.c.idem_key, "ids")), _Posting)


@operation
def read_page(after: str, since_us: int, limit: int) -> Op[ExportPage]:
    """Return a page of journals in key order, which has no meaning."""
    last, count = yield from _LAST.single(after=after, limit=limit)
    rows = yield from _RANGE.all(after=after, last=last or after, since_us=since_us)
    return ExportPage(_to_roots(rows), last if count == limit else None)


@operation
def read_roots(ids: Collection[str]) -> Op[list[ExportRoot]]:
    """Return the journals with the given keys."""
    return _to_roots((yield from _FIND.all(ids=ids)))


def _to_roots(rows: list[_Posting]) -> list[ExportRoot]:
    """Group rows by journal. Journals never change; a journal without postings has no rows."""
    roots: dict[str, ExportRoot] = {}
    for row in rows:
        root = roots.setdefault(row.idem_key, ExportRoot(row.idem_key, row.at_us, closed=True))
        root.rows.append(("ledger", row))
    return list(roots.values())


LEDGER = ExportSource("ledger", ("ledger",), read_page, read_roots)
