"""Test payment lists: pages join to one list, and no query reads the whole table."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from florin_server.accounts.store import merchants
from florin_server.db.engine import schema
from florin_server.db.engine.query import Query, list_column_names, run
from florin_server.db.engine.sqlite import SqliteConnection
from florin_server.domain.ids import generate_payment_id
from florin_server.domain.payments.payment import (
    Merchant,
    PaymentStatus,
    Refund,
    RefundStatus,
)
from florin_server.domain.settlement.chain_txs import TransactionOutcome, TxState
from florin_server.money.payments.store import list_rows, listing, payments
from florin_server.money.payments.store.listing import (
    PaymentListFilters,
    PaymentListOrder,
    PaymentTotals,
)
from florin_server.money.refunds import store as refunds
from florin_server.money.settlement.store import chain_txs, payment_outcomes
from sqlalchemy.dialects.postgresql.asyncpg import dialect as postgresql

from tests.bench import history
from tests.support.store_factories import (
    AFTER_US,
    ASSET,
    CHAIN,
    LATER_US,
    NOW_US,
    PAYER,
    U256_MAX,
    create_chain_tx,
    create_payment,
    create_processing_payment,
    make_payment,
    make_success,
)

ALL = PaymentListFilters("par_1", live=False)
NARROW: dict[str, Any] = {
    "start_us": NOW_US,
    "end_us": LATER_US,
    "statuses": (PaymentStatus.SUCCEEDED,),
    "units": (f"caip19/{ASSET}",),
    "networks": (CHAIN,),
    "reference": "order",
}
ORDERS = [PaymentListOrder(*flags) for flags in itertools.product((False, True), repeat=2)]
BY_DATE, BY_AMOUNT = PaymentListOrder(False, True), PaymentListOrder(True, True)


def every_filter() -> Iterator[PaymentListFilters]:
    for merchant_ids in (None, ("mer_1", "mer_2")):
        # none, one or two filters, and all
        for size in (0, 1, 2, len(NARROW)):
            for names in itertools.combinations(NARROW, size):
                narrow = {name: NARROW[name] for name in names}
                yield replace(ALL, merchants=merchant_ids, **narrow)


def list_queries(op: Any, rows: list[Any]) -> list[Query]:
    """Return the queries of an operation when each finds these rows."""
    queries: list[Query] = []

    def execute(query: Query) -> list[Any]:
        queries.append(query)
        return rows

    run(op, execute)
    return queries


LANES = ("partner", "merchant", "partner_payer", "merchant_payer")


def queries_of(filters: PaymentListFilters, order: PaymentListOrder) -> list[Query]:
    queries = []
    for after in (None, (5, "pay_5")):
        for few in (False, True):
            queries += list_queries(
                listing.list_positions(filters, order, 10, after, NOW_US, is_sparse=few), []
            )
    return queries


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    path = tmp_path_factory.mktemp("plans") / "florin.db"
    schema.prepare(path)
    raw = SqliteConnection(path, writes=False)

    def steps(query: Query) -> list[str]:
        compiled = query.statement.sqlite
        values = compiled.encode_params(query.params)
        return [row[3] for row in raw.command(f"EXPLAIN QUERY PLAN {compiled.sql}", values)]

    yield steps
    raw.close()


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_every_page_follows_an_index_of_its_list(plans, order):
    count = 0
    for filters in every_filter():
        for query in queries_of(filters, order):
            steps = plans(query)
            assert steps[0].startswith("SEARCH payment USING INDEX ix_payment_"), steps
            count += 1
    # every filter, for a partner and for each of two merchants
    assert count == 23 * (1 + 2) * (5 if order.by_amount else 4)


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_list_query_sorts_only_when_few_rows_match(plans, order):
    for filters in every_filter():
        for after in (None, (5, "pay_5")):
            for query in list_queries(
                listing.list_positions(filters, order, 10, after, NOW_US, is_sparse=False), []
            ):
                assert not [step for step in plans(query) if "ORDER BY" in step], plans(query)


def test_a_page_by_amount_begins_at_its_first_row_however_many_cost_the_same(plans):
    op = listing.list_positions(ALL, BY_AMOUNT, 10, (5, "pay_5"), NOW_US, is_sparse=False)
    tied, beyond = map(plans, list_queries(op, []))
    assert "<expr>=? AND id<?" in tied[0]
    assert "<expr><?" in beyond[0]


def totals_of(filters: PaymentListFilters) -> list[Query]:
    """Return the queries for totals; each answers one row."""
    queries: list[Query] = []

    def execute(query: Query) -> list[Any]:
        queries.append(query)
        columns = list_column_names(query.statement.clause)
        return query.statement.sqlite.read_rows([("0",) * len(columns)])

    run(listing.get_totals(filters, NOW_US), execute)
    return queries


def test_totals_walk_in_the_order_of_the_rows(plans):
    for filters in every_filter():
        for query in totals_of(filters):
            (search,) = [step for step in plans(query) if " payment " in step]
            assert search.startswith("SEARCH payment USING")
            assert any(f"ix_payment_{name} (" in search for name in LANES), search


@pytest.mark.parametrize("merchants", [None, ("m",)])
def test_payers_are_counted_by_index_without_reading_payments(plans, merchants):
    filters = replace(ALL, merchants=merchants)
    _, payers, _ = totals_of(filters)
    steps = plans(payers)
    assert any("USING COVERING INDEX ix_payment_" in s and "_payer" in s for s in steps), steps
    assert not [step for step in steps if "TEMP B-TREE" in step], steps


def test_rows_of_a_page_are_read_by_key(plans):
    for name in ("_FEES", "_NONCES", "_ON_THEIR_WAY", "_REFUNDS"):
        statement = getattr(list_rows, name)
        steps = plans(Query(statement, {"ids": ["a"], "chains": ["b"], "hashes": ["c"]}))
        assert not [s for s in steps if s.startswith("SCAN") and "json_each" not in s], steps
        assert name != "_ON_THEIR_WAY" or "uq_chain_tx_open" in steps[0]


def test_every_list_is_postgresql_too():
    dialect = postgresql()
    texts = set()
    for filters in every_filter():
        queries = totals_of(filters)
        for query in itertools.chain(queries, *(queries_of(filters, order) for order in ORDERS)):
            texts.add(str(query.statement.clause.compile(dialect=dialect)))
    for name in ("_FEES", "_NONCES", "_ON_THEIR_WAY", "_REFUNDS"):
        texts.add(str(getattr(list_rows, name).clause.compile(dialect=dialect)))
    # whether there is a payer at all is a separate statement
    assert len(texts) == 2 * 23 * (2 + 2 + 2 * 3 + 2 * 2) + 4 + 1
    for text in texts:
        assert not any(word in text for word in ("json_each", "instr", "exact_sum", "?")), text


async def walked(
    store, filters: PaymentListFilters, order: PaymentListOrder, size: int, *, few: bool
) -> list[str]:
    """Return all IDs of a list, page by page."""
    results: list[str] = []
    after = None
    while True:
        places = await store.read(
            listing.list_positions(filters, order, size, after, NOW_US, is_sparse=few)
        )
        results += [item for _, item in places]
        if len(places) < size:
            return results
        after = places[-1]


@pytest.mark.parametrize("few", [False, True])
async def test_amounts_of_any_length_are_in_order_and_ties_too(store, few):
    values = [10**18, 7, 7, 7, 1250, 999, 1000, U256_MAX, U256_MAX, 10**27, 10**27 - 1]
    created_payments = [make_payment(value=value) for value in values]
    for payment in created_payments:
        await store.write(payments.create(payment))
    for descending in (False, True):
        rows = sorted(created_payments, key=lambda p: (p.value, p.id), reverse=descending)
        for size in (1, 2, 3, 20):
            order = PaymentListOrder(True, descending)
            results = await walked(store, ALL, order, size, few=few)
            assert results == [row.id for row in rows]


async def test_revenue_is_exact_at_any_size(store):
    values = [1, 10**9 - 1, 10**9, 10**18, 10**27 - 1, 10**27, U256_MAX, U256_MAX]
    for value in values:
        await store.write(
            payments.create(make_payment(value=value, status=PaymentStatus.SUCCEEDED))
        )
    await store.write(
        payments.create(make_payment(value=5, status=PaymentStatus.SUCCEEDED, unit="iso4217/EUR"))
    )
    await store.write(payments.create(make_payment(value=7)))
    totals = await store.scan(listing.get_totals(ALL, NOW_US))
    assert totals == PaymentTotals(10, 0, (("iso4217/EUR", 5), ("iso4217/USD", sum(values))))


async def test_a_list_of_no_merchants_is_empty(store):
    await create_payment(store)
    no_merchants = replace(ALL, merchants=())
    assert (
        await store.read(
            listing.list_positions(no_merchants, BY_DATE, 10, None, NOW_US, is_sparse=False)
        )
        == []
    )
    assert await store.read(listing.get_totals(no_merchants, NOW_US)) == PaymentTotals(0, 0, ())


async def test_a_payment_whose_time_is_over_is_listed_as_expired_before_anybody_noted_it(store):
    payment = await create_payment(store)
    for now_us, status in (
        (AFTER_US - 1, PaymentStatus.REQUIRES_ACTION),
        (AFTER_US, PaymentStatus.EXPIRED),
    ):
        for expected_status in (PaymentStatus.REQUIRES_ACTION, PaymentStatus.EXPIRED):
            filters = replace(ALL, statuses=(expected_status,))
            places = await store.read(
                listing.list_positions(filters, BY_DATE, 10, None, now_us, is_sparse=False)
            )
            assert bool(places) is (expected_status is status)
            totals = await store.read(listing.get_totals(filters, now_us))
            assert totals.payments == len(places)
        await store.write(merchants.put_merchant(MERCHANT))
        (row,) = await store.read(list_rows.list_rows([payment.id], now_us))
        assert row.payment.status is status


MERCHANT = Merchant("mer_1", "par_1", "Shop", "s@shop.example", None, "active", False, NOW_US)


async def test_a_row_has_its_merchant_fee_transaction_and_refund(store):
    await store.write(merchants.put_merchant(MERCHANT))
    waiting, sending, paid = [await create_processing_payment(store) for _ in range(3)]
    open_tx = await create_chain_tx(store, sending, nonce=7)
    done_tx = await create_chain_tx(store, paid, nonce=8, hash="0xpaid")
    (row,) = await store.read(list_rows.list_rows([sending.id], NOW_US))
    # signed is not sent
    assert (row.tx_hash, row.nonce) == (None, None)
    await store.write(chain_txs.record_broadcasts({open_tx.id: 5}))
    end = TransactionOutcome(done_tx.id, TxState.FINAL, 6, "0xblock")
    await store.write(payment_outcomes.finalize([make_success(paid)], [end], LATER_US))
    back = Refund("rfnd_1", paid.id, "u", 5, PAYER, RefundStatus.PENDING, None, LATER_US)
    await store.write(refunds.create(back))

    ids = [sending.id, paid.id, waiting.id]
    rows = await store.read(list_rows.list_rows(ids, LATER_US))
    assert [row.payment.id for row in rows] == ids
    assert [(row.tx_hash, row.nonce) for row in rows] == [
        (open_tx.hash, 7),
        ("0xpaid", 8),
        (None, None),
    ]
    assert [list(row.refunds) for row in rows] == [[], [back], []]
    assert {row.merchant for row in rows} == {MERCHANT}
    assert {row.payment.option_unit for row in rows} == {f"caip19/{ASSET}"}


async def test_failed_payment_keeps_its_bound_amount(store):
    payment = await create_processing_payment(store)
    await create_chain_tx(store, payment)
    finding = replace(
        make_success(payment),
        status=PaymentStatus.FAILED,
        tx_hash=None,
        option_unit=None,
        option_value=None,
        settled_value=None,
        postings=(),
    )
    (ended,) = await store.write(payment_outcomes.finalize([finding], [], LATER_US))
    assert (ended.status, ended.option_unit, ended.option_value) == (
        PaymentStatus.FAILED,
        f"caip19/{ASSET}",
        50_000_000,
    )


async def test_times_are_bounds_of_ids_and_exact_to_the_microsecond(store):
    times = [NOW_US + step for step in (-1, 0, 1, 999, 1000, 1001, 60_000_000)]
    for at_us in times:
        payment = make_payment(id=generate_payment_id(at_us, os.urandom), created_at_us=at_us)
        await store.write(payments.create(payment))
    for start, end in itertools.product([*times, None], repeat=2):
        filters = replace(ALL, start_us=start, end_us=end)
        expected = [
            at for at in times if (start is None or at >= start) and (end is None or at < end)
        ]
        assert len(await walked(store, filters, BY_DATE, 3, few=False)) == len(expected)
        assert (await store.read(listing.get_totals(filters, NOW_US))).payments == len(expected)


async def test_an_asset_compares_in_any_case_and_a_network_as_it_is(store):
    unit = "caip19/solana:EtWT/token:AbCd"
    await store.write(payments.create(make_payment(unit=unit)))
    for narrow, count in (
        ({"units": (unit.lower(),)}, 1),
        ({"units": (unit.lower() + "e",)}, 0),
        ({"networks": ("solana:EtWT",)}, 1),
        ({"networks": ("solana:EtW",)}, 0),
        ({"networks": ("solana:etwt",)}, 0),
    ):
        totals = await store.read(listing.get_totals(replace(ALL, **narrow), NOW_US))
        assert totals.payments == count, narrow


def test_the_store_of_the_bench_is_as_the_tables_are(tmp_path):
    history.write(tmp_path / "florin.db", 50)
    raw = SqliteConnection(tmp_path / "florin.db", writes=False)
    try:
        ((count,),) = raw.command("SELECT count(*) FROM payment").fetchall()
        assert count == 50
    finally:
        raw.close()
