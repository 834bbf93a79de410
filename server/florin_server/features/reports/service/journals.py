"""Journals of the ledger as hledger and Beancount read them.

Each transaction balances in each commodity. The accounts of payers, and of merchants' own
destinations, become one account each, and so does held money: a ledger of a shop has no account for
each buyer.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Final, Protocol, TypeAlias

from florin_server.domain.caip import parse_account
from florin_server.domain.ledger import accounts
from florin_server.domain.ledger.accounts import LedgerAccountKind
from florin_server.domain.reports.assets import FindReportAsset, ReportAsset
from florin_server.domain.reports.period import ReportPeriod
from florin_server.domain.reports.statement import split_reversal
from florin_server.domain.text import escape_unsafe
from florin_server.features.reports.store.journals import ReportJournal

HELD: Final = "Liabilities:Held"
PAYERS: Final = "Equity:Outside:Payers"
DESTINATIONS: Final = "Equity:Outside:Destinations"
_NAMES: Final[Mapping[str, str]] = {
    accounts.FEE: "Income:Fees",
    accounts.GAS: "Expenses:Network-Fees",
    accounts.RENT: "Expenses:Account-Rent",
    accounts.OPENING: "Equity:Opening-Balances",
    accounts.OPERATOR: "Equity:Operator",
}
_NOT_ACCOUNT: Final = re.compile(r"[^A-Za-z0-9]")

# minor units by account and asset (CAIP-19); debits are above zero
_Amounts: TypeAlias = dict[tuple[str, str], int]


class JournalFormat(StrEnum):
    """The programs that read the file."""

    HLEDGER = "hledger"
    BEANCOUNT = "beancount"


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A transaction: a journal, or all of one type on a day (without key, ids and note)."""

    day: date
    type: str
    amounts: Mapping[tuple[str, str], int]
    key: str = ""
    payment_id: str = ""
    tx_hash: str = ""
    note: str = ""


class _Writer(Protocol):
    """The syntax of a program."""

    def begin(self) -> Iterator[str]: ...

    def declare_asset(self, asset: ReportAsset) -> Iterator[str]: ...

    def declare_account(self, name: str) -> Iterator[str]: ...

    def write(self, entry: JournalEntry, find_asset: FindReportAsset) -> Iterator[str]: ...


def render_journal(
    format_: JournalFormat,
    journals: Iterable[ReportJournal],
    period: ReportPeriod,
    find_asset: FindReportAsset,
    *,
    daily: bool,
) -> Iterator[str]:
    """Yield the lines of the file; journals come in the order of their times.

    With `daily` each day has one transaction for each type of journal. Only the names of accounts
    and assets that were declared stay in memory, and the sums of a day.
    """
    writer: _Writer = (
        _HledgerWriter(period) if format_ is JournalFormat.HLEDGER else _BeancountWriter(period)
    )
    declared: set[str] = set()
    yield from writer.begin()
    entries = _list_daily(journals, period) if daily else _list_single(journals, period)
    for entry in entries:
        for account, asset_id in entry.amounts:
            if asset_id not in declared:
                declared.add(asset_id)
                yield from writer.declare_asset(find_asset(asset_id))
            if account not in declared:
                declared.add(account)
                yield from writer.declare_account(account)
        yield from writer.write(entry, find_asset)


def get_account_name(account: str, *, is_payer: bool) -> str:
    """Return the name of an account of the ledger in accounting programs.

    `is_payer` decides between the two accounts of outside parties.
    """
    if account in _NAMES:
        return _NAMES[account]
    kind, _, name = account.partition(":")
    if kind == LedgerAccountKind.MERCHANT:
        return f"Liabilities:Merchants:{_to_component(name)}"
    if kind == LedgerAccountKind.WALLET:
        parsed = parse_account(name)
        chain = f"{parsed.chain.namespace.capitalize()}-{parsed.chain.reference}"
        return f"Assets:Wallets:{_NOT_ACCOUNT.sub('-', chain)}:{_to_component(parsed.address)}"
    if kind in {LedgerAccountKind.HELD, LedgerAccountKind.STRAY}:
        return HELD
    return PAYERS if is_payer else DESTINATIONS


def _to_component(name: str) -> str:
    """Return a name as a part of an account's name, which begins with a capital or a digit."""
    text = _NOT_ACCOUNT.sub("-", name)
    return text if text[:1].isdecimal() else f"X-{text}"


def _sum_amounts(journal: ReportJournal) -> _Amounts:
    """Return what each account receives or gives; accounts without a change are left out."""
    _, sign = split_reversal(journal.type)
    totals: _Amounts = defaultdict(int)
    for posting in journal.postings:
        for account, amount, is_credit in (
            (posting.debit, posting.amount, False),
            (posting.credit, -posting.amount, True),
        ):
            # payers give, unless a reversal gives back
            name = get_account_name(account, is_payer=is_credit is (sign > 0))
            totals[name, posting.asset] += amount
    return {key: total for key, total in totals.items() if total}


def _list_single(journals: Iterable[ReportJournal], period: ReportPeriod) -> Iterator[JournalEntry]:
    for journal in journals:
        if amounts := _sum_amounts(journal):
            yield JournalEntry(
                period.to_day(journal.at_us),
                journal.type,
                amounts,
                journal.key,
                journal.payment_id or "",
                journal.tx_hash or "",
                journal.note or "",
            )


def _list_daily(journals: Iterable[ReportJournal], period: ReportPeriod) -> Iterator[JournalEntry]:
    day, totals = period.first_day, dict[str, _Amounts]()
    for journal in journals:
        if (at := period.to_day(journal.at_us)) != day:
            yield from _list_day(day, totals)
            day, totals = at, {}
        sums = totals.setdefault(journal.type, defaultdict(int))
        for key, amount in _sum_amounts(journal).items():
            sums[key] += amount
    yield from _list_day(day, totals)


def _list_day(day: date, totals: Mapping[str, _Amounts]) -> Iterator[JournalEntry]:
    for journal_type in sorted(totals):
        amounts = {key: total for key, total in totals[journal_type].items() if total}
        if amounts:
            yield JournalEntry(day, journal_type, amounts)


def _list_facts(entry: JournalEntry) -> Iterator[tuple[str, str]]:
    """Yield the facts of an entry that identify it, without empty ones."""
    facts = (("journal", entry.key), ("transaction", entry.tx_hash), ("note", entry.note))
    for name, text in facts:
        if text:
            # notes are texts of the operator
            yield name, " ".join(escape_unsafe(text).split())


class _HledgerWriter:
    """The syntax of hledger's journals."""

    def __init__(self, period: ReportPeriod) -> None:
        self._period = period

    def begin(self) -> Iterator[str]:
        yield f"; Florin's ledger, {self._period.name}, days in {self._period.zone}"
        yield "decimal-mark ."
        yield ""

    def declare_asset(self, asset: ReportAsset) -> Iterator[str]:
        yield f'commodity 1.{"0" * asset.decimals} "{asset.commodity}"'
        yield f"    ; {_clean(asset.name)}, {asset.id}"
        yield ""

    def declare_account(self, name: str) -> Iterator[str]:
        yield f"account {name}"
        yield ""

    def write(self, entry: JournalEntry, find_asset: FindReportAsset) -> Iterator[str]:
        yield f"{entry.day.isoformat()} * {entry.type}" + (
            f" | {entry.payment_id}" if entry.payment_id else ""
        )
        for name, text in _list_facts(entry):
            yield f"    ; {name}: {text}"
        for (account, asset_id), amount in entry.amounts.items():
            asset = find_asset(asset_id)
            yield f'    {account}  {asset.format(amount)} "{asset.commodity}"'
        yield ""


class _BeancountWriter:
    """The syntax of Beancount."""

    def __init__(self, period: ReportPeriod) -> None:
        self._period = period

    def begin(self) -> Iterator[str]:
        yield f"; Florin's ledger, {self._period.name}, days in {self._period.zone}"
        yield ""

    def declare_asset(self, asset: ReportAsset) -> Iterator[str]:
        yield f"{self._period.first_day.isoformat()} commodity {asset.commodity}"
        yield f"  name: {_quote(asset.name)}"
        yield f"  asset: {_quote(asset.id)}"
        yield ""

    def declare_account(self, name: str) -> Iterator[str]:
        yield f"{self._period.first_day.isoformat()} open {name}"
        yield ""

    def write(self, entry: JournalEntry, find_asset: FindReportAsset) -> Iterator[str]:
        yield f"{entry.day.isoformat()} * {_quote(entry.type)} {_quote(entry.payment_id)}"
        for name, text in _list_facts(entry):
            yield f"  {name}: {_quote(text)}"
        for (account, asset_id), amount in entry.amounts.items():
            asset = find_asset(asset_id)
            yield f"  {account}  {asset.format(amount)} {asset.commodity}"
        yield ""


def _clean(text: str) -> str:
    return " ".join(escape_unsafe(text).split())


def _quote(text: str) -> str:
    escaped = _clean(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
