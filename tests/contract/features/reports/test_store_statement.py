"""Test statements: every line is exact, and they add up to the balances of the ledger."""

from __future__ import annotations

import pytest
from florin_server.domain.reports.period import parse_period
from florin_server.domain.reports.statement import build_statements
from florin_server.features.reports.service.statement import build_statement, read_statement
from florin_server.features.reports.store.scope import ReportScope

from tests.support.report_ledger import (
    COIN,
    DOLLAR,
    EURO,
    LIVE_SHOP,
    MONTHS,
    OCTOBER,
    SHOPS,
    LedgerWriter,
    find_asset,
)
from tests.support.store_factories import execute_beside

LINES = (
    *("payments", "received", "fees", "settled_directly", "other_received", "refunds", "refunded"),
    *("returns", "returned", "payouts", "paid_out", "held_in", "held_out"),
)
SCOPES = {
    "merchant": (ReportScope(live=False, partner_id="par_1", merchant_id="mer_1"), {"mer_1"}),
    "partner": (ReportScope(live=False, partner_id="par_1"), {"mer_1", "mer_2"}),
    "all test": (ReportScope(live=False), {shop for shop, *_ in SHOPS}),
    "all live": (ReportScope(live=True), {LIVE_SHOP[0]}),
    "stranger": (ReportScope(live=False, partner_id="par_9"), set()),
}


@pytest.mark.parametrize("earlier_release", [False, True])
async def test_each_line_is_exact_in_every_scope(store, tmp_path, earlier_release):
    writer = LedgerWriter(store, seed=11)
    await writer.add_accounts()
    await writer.book(160)
    if earlier_release:
        # part of them, as while both releases run
        sql = "UPDATE ledger_journal SET merchant_id = NULL WHERE at_us % 3 <> 0"
        await execute_beside(store, tmp_path, sql)
    seen = 0
    for scope, shops in SCOPES.values():
        for month in MONTHS:
            period = parse_period(month)
            data = await store.scan(read_statement(scope, period))
            result = build_statements(data.sums)
            assert result.differences == ()
            for asset in (DOLLAR, EURO):
                expected = {
                    line: sum(writer.totals[shop, month, asset, line] for shop in shops)
                    for line in LINES
                }
                sums = result.assets.get(asset)
                actual = {line: getattr(sums, line, 0) for line in LINES}
                assert actual == expected
                for name, at_us in (("opening", period.start_us), ("closing", period.end_us)):
                    for prefix, member in (("merchant:", name), ("held:", f"held_{name}")):
                        balance = sum(
                            writer.get_balance(shop, asset, at_us, prefix) for shop in shops
                        )
                        assert getattr(sums, member, 0) == balance, (month, asset, member)
                seen += sum(map(bool, expected.values()))
            requested = sum(
                amount
                for (shop, when, _, line), amount in writer.totals.items()
                if line == "requested" and when == month and shop in shops
            )
            assert sum(part.value for part in data.requested) == requested
    assert seen > 100


async def test_a_refund_is_booked_in_the_month_of_the_refund(store):
    writer = LedgerWriter(store, seed=1)
    await writer.add_accounts()
    shop, late_us = SHOPS[0], OCTOBER.end_us
    await writer.book_one("settle", shop, "2026-10", OCTOBER.end_us - 1)
    await writer.book_one("refund", shop, "2026-11", late_us)
    scope = SCOPES["merchant"][0]
    october, november = [
        build_statements((await store.scan(read_statement(scope, parse_period(month)))).sums).assets
        for month in ("2026-10", "2026-11")
    ]
    assert sum(sums.payments for sums in october.values()) == 1
    assert sum(sums.refunds for sums in october.values()) == 0
    assert sum(sums.payments for sums in november.values()) == 0
    assert sum(sums.refunds for sums in november.values()) == 1
    assert sum(sums.opening for sums in november.values()) == sum(
        sums.closing for sums in october.values()
    )


async def test_a_month_begins_at_midnight_of_its_zone(store):
    writer = LedgerWriter(store, seed=1)
    await writer.add_accounts()
    berlin = parse_period("2026-10", "Europe/Berlin")
    assert berlin.start_us < OCTOBER.start_us
    await writer.book_one("settle", SHOPS[0], "2026-10", berlin.start_us)
    for period, payments in ((berlin, 1), (OCTOBER, 0)):
        data = await store.scan(read_statement(SCOPES["merchant"][0], period))
        assert sum(part.payments for part in data.requested) == payments


async def test_a_difference_from_the_ledger_is_reported(store, tmp_path):
    writer = LedgerWriter(store, seed=1)
    await writer.add_accounts()
    await writer.book_one("settle", SHOPS[0], "2026-10", OCTOBER.start_us)
    # a transfer that no line of a statement explains
    await execute_beside(store, tmp_path, "UPDATE ledger_journal SET type = 'planted'")
    data = await store.scan(read_statement(SCOPES["merchant"][0], OCTOBER))
    assert "but the ledger has" in build_statements(data.sums).differences[0]


async def test_costs_are_in_the_statement_of_all_merchants_alone(store):
    writer = LedgerWriter(store, seed=3)
    await writer.add_accounts()
    for _ in range(3):
        await writer.book_one("gas", SHOPS[0], "2026-10", OCTOBER.start_us)
    spent = sum(leg.amount for *_, legs in writer.booked for leg in legs)
    spent_by_scope = {}
    for name, (scope, _) in SCOPES.items():
        data = await store.scan(read_statement(scope, OCTOBER))
        statement = build_statement(data, scope, OCTOBER, find_asset, OCTOBER.end_us)
        spent_by_scope[name] = -sum(cost.amount for cost in statement.costs)
        assert {cost.asset.id for cost in statement.costs} <= {COIN}
    # the coin's chain is a test chain
    assert spent_by_scope == {**dict.fromkeys(SCOPES, 0), "all test": spent}
