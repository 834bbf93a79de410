"""Pages of journals in the order of their times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import BigInteger, Select, Text, func, select, tuple_

from florin_server.db.engine.query import Op, Statement, is_in, operation, param
from florin_server.db.tables.tables import (
    ledger_journal_table,
    ledger_transfer_table,
    merchant_table,
    payment_table,
)
from florin_server.domain.reports.period import ReportPeriod
from florin_server.domain.settlement.chain_txs import LedgerPosting
from florin_server.features.reports.store.scope import JOURNAL, MERCHANT_PREFIX, TRANSFER

JournalPosition: TypeAlias = tuple[int, str]
"""The time and the key of the last journal of a page."""


@dataclass(frozen=True, slots=True)
class ReportJournal:
    """A journal with its transfers and its merchant.

    `merchant_id` and `partner_id` are empty without a merchant, and `live` is then None.
    """

    key: str
    type: str
    at_us: int
    payment_id: str | None
    tx_hash: str | None
    note: str | None
    merchant_id: str
    partner_id: str
    live: bool | None
    postings: Sequence[LedgerPosting]


class _Journal(NamedTuple):
    key: str
    type: str
    at_us: int
    payment_id: str | None
    tx_hash: str | None
    note: str | None
    merchant_id: str | None


class _Transfer(NamedTuple):
    key: str
    posting: LedgerPosting


class _Owner(NamedTuple):
    id: str
    partner_id: str
    live: bool


def _select_page() -> Select[Any]:
    merchant_id = func.coalesce(JOURNAL.merchant_id, payment_table.c.merchant_id)
    position = tuple_(param("after_us", BigInteger), param("after_key", Text))
    return (
        select(
            JOURNAL.idem_key.label("key"),
            JOURNAL.type,
            JOURNAL.at_us,
            JOURNAL.payment_id,
            JOURNAL.tx_hash,
            JOURNAL.note,
            merchant_id.label("merchant_id"),
        )
        .join_from(
            ledger_journal_table,
            payment_table,
            payment_table.c.id == JOURNAL.payment_id,
            isouter=True,
        )
        .where(tuple_(JOURNAL.at_us, JOURNAL.idem_key) > position, JOURNAL.at_us < param("end_us"))
        .order_by(JOURNAL.at_us, JOURNAL.idem_key)
        .limit(param("most"))
    )


_PAGE = Statement(_select_page(), _Journal)
_TRANSFERS_OF = Statement(
    select(
        TRANSFER.idem_key.label("key"),
        TRANSFER.debit,
        TRANSFER.credit,
        TRANSFER.asset,
        TRANSFER.amount,
    )
    .select_from(ledger_transfer_table)
    .where(is_in(TRANSFER.idem_key, "keys"))
    .order_by(TRANSFER.idem_key, TRANSFER.n),
    _Transfer,
    posting=LedgerPosting,
)
_OWNERS = Statement(
    select(merchant_table.c.id, merchant_table.c.partner_id, merchant_table.c.live).where(
        is_in(merchant_table.c.id, "ids")
    ),
    _Owner,
)


def get_start(period: ReportPeriod) -> JournalPosition:
    """Return the position before the first journal of a period."""
    return period.start_us, ""


@operation
def read_page(period: ReportPeriod, after: JournalPosition, limit: int) -> Op[list[ReportJournal]]:
    """Return the next journals of a period, oldest first; none after the last page."""
    after_us, after_key = after
    journals = yield from _PAGE.all(
        after_us=after_us, after_key=after_key, end_us=period.end_us, most=limit
    )
    postings: dict[str, list[LedgerPosting]] = defaultdict(list)
    for key, posting in (yield from _TRANSFERS_OF.all(keys=[journal.key for journal in journals])):
        postings[key].append(posting)
    merchant_ids = [
        journal.merchant_id
        if journal.merchant_id is not None
        else _find_merchant_id(postings[journal.key])
        for journal in journals
    ]
    rows = yield from _OWNERS.all(ids=sorted({*merchant_ids} - {""}))
    owners = {owner.id: owner for owner in rows}
    return [
        ReportJournal(
            journal.key,
            journal.type,
            journal.at_us,
            journal.payment_id,
            journal.tx_hash,
            journal.note,
            merchant_id,
            owners[merchant_id].partner_id if merchant_id in owners else "",
            owners[merchant_id].live if merchant_id in owners else None,
            postings[journal.key],
        )
        for journal, merchant_id in zip(journals, merchant_ids, strict=True)
    ]


def _find_merchant_id(postings: Collection[LedgerPosting]) -> str:
    """Return the merchant whose balance changes; empty if none does."""
    accounts = (account for posting in postings for account in (posting.debit, posting.credit))
    return next(
        (
            account.removeprefix(MERCHANT_PREFIX)
            for account in accounts
            if account.startswith(MERCHANT_PREFIX)
        ),
        "",
    )
