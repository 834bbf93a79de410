"""What was booked, journal by journal."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Select, select

from florin_server.domain.exports.roots import Page, Root
from florin_server.store.engine.query import Op, Row, Statement, any_of, operation, param
from florin_server.store.exports.roots import Source
from florin_server.store.exports.scan import last_of, range_of
from florin_server.store.tables.tables import ledger_journal, ledger_transfer


def _postings() -> Select[Row]:
    return (
        select(
            ledger_journal.c.idem_key,
            ledger_transfer.c.n,
            ledger_journal.c.type,
            ledger_journal.c.at_us,
            ledger_journal.c.payment_id,
            ledger_journal.c.tx_hash,
            ledger_transfer.c.debit,
            ledger_transfer.c.credit,
            ledger_transfer.c.asset,
            ledger_transfer.c.amount,
            ledger_journal.c.note,
        )
        .join_from(
            ledger_journal,
            ledger_transfer,
            ledger_transfer.c.idem_key == ledger_journal.c.idem_key,
        )
        .order_by(ledger_journal.c.idem_key, ledger_transfer.c.n)
    )


_LAST = last_of(ledger_journal.c.idem_key)
_RANGE = Statement(
    range_of(_postings(), ledger_journal.c.idem_key).where(
        ledger_journal.c.at_us > param("since_us")
    )
)
_SOME = Statement(_postings().where(any_of(ledger_journal.c.idem_key, "ids")))


@operation
def pages(after: str, since_us: int, limit: int) -> Op[Page]:
    """Journals in the order of their keys, which tells nothing."""
    ((last, count),) = yield _LAST(after=after, limit=limit)
    rows = yield _RANGE(after=after, last=last or after, since_us=since_us)
    return Page(_roots(rows), last if count == limit else None)


@operation
def some(ids: Collection[str]) -> Op[list[Root]]:
    """Some journals."""
    return _roots((yield _SOME(ids=ids)))


def _roots(rows: list[Row]) -> list[Root]:
    """Journals never change; those without postings tell nothing."""
    roots: dict[str, Root] = {}
    for row in rows:
        root = roots.setdefault(row[0], Root(row[0], row[3], closed=True))
        root.rows.append(("ledger", row))
    return list(roots.values())


LEDGER = Source("ledger", ("ledger",), pages, some)
