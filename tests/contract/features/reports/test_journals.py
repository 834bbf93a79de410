"""Test journals for accounting programs and the payments of a month, against the ledger."""

from __future__ import annotations

import csv
import io
from collections import Counter
from contextlib import closing
from fractions import Fraction

import pytest
from florin_server.app.exports.report import StoreReports
from florin_server.db.engine.reading import SqliteStoreReader
from florin_server.domain.reports.period import parse_period
from florin_server.domain.settlement.chain_txs import LedgerPosting
from florin_server.features.reports.service.journals import (
    DESTINATIONS,
    HELD,
    PAYERS,
    JournalFormat,
    get_account_name,
)
from florin_server.features.reports.store.scope import ReportScope
from florin_server.money.ledger.store import ledger

from tests.support.journal_parser import parse_journal
from tests.support.report_ledger import (
    ASSETS,
    COIN,
    DOLLAR,
    EURO,
    MONTHS,
    OCTOBER,
    SHOPS,
    TREASURY,
    LedgerWriter,
    find_asset,
)
from tests.support.report_ledger import (
    PAYERS as BUYERS,
)
from tests.support.store_factories import open_engine_store

TEST_MODE = ReportScope(live=False)
YEAR = parse_period("2026")


@pytest.fixture
async def writer(tmp_path):
    async with open_engine_store("sqlite", tmp_path) as store:
        ledger_writer = LedgerWriter(store, seed=5)
        await ledger_writer.add_accounts()
        await ledger_writer.book(150)
        yield ledger_writer


@pytest.fixture
def source(writer, tmp_path):
    # beside the process that writes
    with closing(SqliteStoreReader(tmp_path / "florin.db")) as reader:
        yield StoreReports(reader, find_asset, OCTOBER.end_us)


def sum_ledger(writer, shops, kind_of):
    """Return the balances of the ledger by kind of account, in whole units."""
    totals = Counter()
    for _, shop, legs in writer.booked:
        if shop not in shops:
            continue
        for leg in legs:
            scale = Fraction(1, 10 ** ASSETS[leg.asset].decimals)
            totals[kind_of(leg.debit), ASSETS[leg.asset].commodity] += leg.amount * scale
            totals[kind_of(leg.credit), ASSETS[leg.asset].commodity] -= leg.amount * scale
    return {key: total for key, total in totals.items() if total}


def get_kind(account):
    """Return an account of the ledger, or the kind of outside parties and held money."""
    kind = account.partition(":")[0]
    return kind if kind in {"held", "external"} else get_account_name(account, is_payer=False)


def merge_outside(totals):
    merged = Counter()
    kinds = {HELD: "held", PAYERS: "external", DESTINATIONS: "external"}
    for (account, commodity), total in totals.items():
        merged[kinds.get(account, account), commodity] += total
    return {key: total for key, total in merged.items() if total}


@pytest.mark.parametrize("program", list(JournalFormat))
@pytest.mark.parametrize("daily", [False, True])
def test_accounts_of_a_journal_have_the_balances_of_the_ledger(writer, source, program, daily):
    lines = list(source.list_journal_lines(TEST_MODE, YEAR, program, daily=daily))
    journal = parse_journal(lines, program)
    # gas names no merchant, and its coin is of a test chain
    shops = {"", *(shop for shop, *_ in SHOPS)}
    assert merge_outside(journal.sum_accounts()) == sum_ledger(writer, shops, get_kind)
    assert len(journal.commodities) == 3
    if daily:
        days = [(entry.day, entry.type) for entry in journal.entries]
        assert len(set(days)) == len(days)
    else:
        assert all(any("journal: " in fact for fact in e.facts) for e in journal.entries)


@pytest.mark.parametrize(
    ("scope", "shops"),
    [
        (ReportScope(live=False, partner_id="par_1", merchant_id="mer_2"), {"mer_2"}),
        (ReportScope(live=False, partner_id="par_1"), {"mer_1", "mer_2"}),
        (ReportScope(live=True), {"mer_4"}),
    ],
)
def test_a_journal_has_the_entries_of_its_scope_alone(writer, source, scope, shops):
    lines = source.list_journal_lines(scope, YEAR, JournalFormat.BEANCOUNT, daily=False)
    totals = merge_outside(parse_journal(lines, "beancount").sum_accounts())
    assert totals == sum_ledger(writer, shops, get_kind)


def test_months_together_are_the_year(source):
    program = JournalFormat.BEANCOUNT
    months = Counter()
    for month in MONTHS:
        lines = source.list_journal_lines(TEST_MODE, parse_period(month), program, daily=True)
        months.update(parse_journal(lines, program).sum_accounts())
    year = source.list_journal_lines(TEST_MODE, YEAR, program, daily=False)
    assert merge_outside(months) == merge_outside(parse_journal(year, program).sum_accounts())


@pytest.mark.parametrize("program", list(JournalFormat))
async def test_a_note_stays_in_its_line(writer, source, program):
    note = 'x"\n2026-10-02 open Assets:Stolen\\ ;\t"\u2028end'
    legs = (LedgerPosting(f"wallet:{TREASURY}", "external:operator", DOLLAR, 5),)
    await writer.store.write(
        ledger.post("operator:1", "operator", None, None, legs, OCTOBER.start_us, note)
    )
    lines = source.list_journal_lines(TEST_MODE, OCTOBER, program, daily=False)
    journal = parse_journal(lines, program)
    assert not any("Stolen" in account for account in journal.accounts)
    (entry,) = [entry for entry in journal.entries if "Stolen" in str(entry.facts)]
    assert (entry.type, len(entry.facts)) == ("operator", 2)


def test_names_of_accounting_programs_differ_by_asset_and_fit():
    names = {asset.commodity for asset in ASSETS.values()}
    assert len(names) == len(ASSETS)
    solana = find_asset("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp/token:" + "a" * 44)
    for asset in (*ASSETS.values(), solana, find_asset("eip155:1/slip44:60")):
        assert len(asset.commodity) <= 24
        assert asset.commodity[0].isalpha()


def test_payments_add_up_to_the_statement(writer, source):
    for month in MONTHS:
        period = parse_period(month)
        header, *rows = source.list_payment_rows(TEST_MODE, period)
        totals = Counter()
        for row in rows:
            cells = dict(zip(header, row, strict=True))
            totals[cells["asset_id"], "payments"] += 1 if cells["kind"] == "payment" else -1
            for column in ("paid", "fee", "net"):
                totals[cells["asset_id"], column] += Fraction(cells[f"{column}_amount"])
                assert cells[f"{column}_asset"] == ASSETS[cells["asset_id"]].symbol
        statement = source.read_statement(TEST_MODE, period)
        for section in statement.sections:
            lines = {line.key: line for line in section.lines}
            sums = [totals[section.asset.id, name] for name in ("payments", "paid", "fee")]
            assert sums == [
                lines["payments"].count,
                Fraction(section.asset.format(lines["payments"].amount)),
                -Fraction(section.asset.format(lines["fees"].amount)),
            ]


async def test_a_reversal_takes_its_payment_back(writer, source):
    month = parse_period("2026-08")
    await writer.book_one("reversed", SHOPS[0], "2026-08", month.start_us)
    header, *rows = source.list_payment_rows(TEST_MODE, month)
    kind, amount = header.index("kind"), header.index("paid_amount")
    assert [row[kind] for row in rows] == ["reversal", "payment"]
    assert sum(Fraction(row[amount]) for row in rows) == 0


def test_no_text_of_strangers_is_a_formula():
    from florin_server.features.reports.service.statement import list_csv_rows

    statement = _make_statement()
    rows = list(list_csv_rows(statement, ("mer_1", '=HYPERLINK("https://evil.example")')))
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    assert "'=HYPERLINK" in text.getvalue()
    assert {BUYERS[0], COIN, EURO}.isdisjoint(row[3] for row in rows)
    # amounts below zero are numbers
    assert any(row[6].startswith("-") for row in rows[1:])


def _make_statement():
    from florin_server.domain.reports.statement import (
        BalanceSum,
        MovementSum,
        StatementSums,
    )
    from florin_server.features.reports.service.statement import (
        StatementData,
        build_statement,
    )

    movement = MovementSum("refund", DOLLAR, "merchant", "wallet", 1, 5)
    sums = StatementSums([movement], [], [BalanceSum(DOLLAR, -5)], [], [])
    data = StatementData(sums, (), ())
    scope = ReportScope(live=False, merchant_id="mer_1")
    return build_statement(data, scope, OCTOBER, find_asset, OCTOBER.end_us)
