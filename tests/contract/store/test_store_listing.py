"""Lists of payments: every page is the next part of the same list, and none reads it all."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from florin_server.domain.ids import payment_id
from florin_server.domain.payments.payment import Merchant, Refund, RefundStatus, Status
from florin_server.domain.settlement.chain_txs import TxEnd, TxState
from florin_server.store.accounts import merchants
from florin_server.store.engine import schema
from florin_server.store.engine.query import Query, run
from florin_server.store.engine.sqlite import Connection
from florin_server.store.payments import listed, listing, payments
from florin_server.store.payments.listing import Filters, Order, Totals
from florin_server.store.payouts import refunds
from florin_server.store.settlement import chain_txs
from sqlalchemy.dialects.postgresql.asyncpg import dialect as postgresql

from tests.bench import history
from tests.support.store_kit import (
    AFTER_US,
    ASSET,
    CHAIN,
    LATER_US,
    NOW_US,
    PAYER,
    U256_MAX,
    accepted,
    created,
    payment,
    submitted,
    success,
)

ALL = Filters("par_1", live=False)
NARROW: dict[str, Any] = {
    "start_us": NOW_US,
    "end_us": LATER_US,
    "statuses": (Status.SUCCEEDED,),
    "units": (f"caip19/{ASSET}",),
    "networks": (CHAIN,),
    "reference": "order",
}
ORDERS = [Order(*flags) for flags in itertools.product((False, True), repeat=2)]
BY_DATE, BY_AMOUNT = Order(False, True), Order(True, True)


def every_filter() -> Iterator[Filters]:
    for merchant_ids in (None, ("mer_1", "mer_2")):
        # none, one or two of them, all
        for size in (0, 1, 2, len(NARROW)):
            for names in itertools.combinations(NARROW, size):
                narrow = {name: NARROW[name] for name in names}
                yield replace(ALL, merchants=merchant_ids, **narrow)


def asked(op: Any, rows: list[Any]) -> list[Query]:
    """The queries of an operation when each finds these rows."""
    found: list[Query] = []

    def execute(query: Query) -> list[Any]:
        found.append(query)
        return rows

    run(op, execute)
    return found


LANES = ("partner", "merchant", "partner_payer", "merchant_payer")


def queries_of(filters: Filters, order: Order) -> list[Query]:
    found = []
    for after in (None, (5, "pay_5")):
        for few in (False, True):
            found += asked(listing.page(filters, order, 10, after, NOW_US, few=few), [])
    return found


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    path = tmp_path_factory.mktemp("plans") / "florin.db"
    schema.prepare(path)
    raw = Connection(path, writes=False)

    def steps(query: Query) -> list[str]:
        compiled = query.statement.sqlite
        values = compiled.values(query.params)
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
def test_nothing_is_sorted_unless_few_are_known_to_pass(plans, order):
    for filters in every_filter():
        for after in (None, (5, "pay_5")):
            for query in asked(listing.page(filters, order, 10, after, NOW_US, few=False), []):
                assert not [step for step in plans(query) if "ORDER BY" in step], plans(query)


def test_a_page_by_amount_begins_at_its_first_row_however_many_cost_the_same(plans):
    op = listing.page(ALL, BY_AMOUNT, 10, (5, "pay_5"), NOW_US, few=False)
    tied, beyond = map(plans, asked(op, []))
    assert "<expr>=? AND id<?" in tied[0]
    assert "<expr><?" in beyond[0]


def totals_of(filters: Filters) -> list[Query]:
    """What is asked for totals; each statement answers one row."""
    found: list[Query] = []

    def execute(query: Query) -> list[Any]:
        found.append(query)
        return [(0,) * len(query.statement.clause.exported_columns)]

    run(listing.totals(filters, NOW_US), execute)
    return found


def test_totals_walk_in_the_order_of_the_rows(plans):
    for filters in every_filter():
        for query in totals_of(filters):
            (search,) = [step for step in plans(query) if " payment " in step]
            assert search.startswith("SEARCH payment USING")
            assert any(f"ix_payment_{name} (" in search for name in LANES), search


@pytest.mark.parametrize("merchants", [None, ("m",)])
def test_who_pays_at_all_is_counted_without_a_look_at_payments(plans, merchants):
    filters = replace(ALL, merchants=merchants)
    _, payers, _ = totals_of(filters)
    steps = plans(payers)
    assert any("USING COVERING INDEX ix_payment_" in s and "_payer" in s for s in steps), steps
    assert not [step for step in steps if "TEMP B-TREE" in step], steps


def test_what_belongs_to_a_page_is_found_by_keys(plans):
    for name in ("_FEES", "_NONCES", "_ON_THEIR_WAY", "_REFUNDS"):
        statement = getattr(listed, name)
        steps = plans(statement(ids=["a"], chains=["b"], hashes=["c"]))
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
        texts.add(str(getattr(listed, name).clause.compile(dialect=dialect)))
    # who pays at all is asked in a statement of its own
    assert len(texts) == 2 * 23 * (2 + 2 + 2 * 3 + 2 * 2) + 4 + 1
    for text in texts:
        assert not any(word in text for word in ("json_each", "instr", "exact_sum", "?")), text


async def walked(store, filters: Filters, order: Order, size: int, *, few: bool) -> list[str]:
    """All ids of a list, page by page."""
    found: list[str] = []
    after = None
    while True:
        places = await store.read(listing.page(filters, order, size, after, NOW_US, few=few))
        found += [one for _, one in places]
        if len(places) < size:
            return found
        after = places[-1]


@pytest.mark.parametrize("few", [False, True])
async def test_amounts_of_any_length_are_in_order_and_ties_too(store, few):
    values = [10**18, 7, 7, 7, 1250, 999, 1000, U256_MAX, U256_MAX, 10**27, 10**27 - 1]
    made = [payment(value=value) for value in values]
    for one in made:
        await store.write(payments.create(one))
    for descending in (False, True):
        rows = sorted(made, key=lambda p: (p.value, p.id), reverse=descending)
        for size in (1, 2, 3, 20):
            order = Order(True, descending)
            found = await walked(store, ALL, order, size, few=few)
            assert found == [one.id for one in rows]


async def test_revenue_is_exact_at_any_size(store):
    values = [1, 10**9 - 1, 10**9, 10**18, 10**27 - 1, 10**27, U256_MAX, U256_MAX]
    for value in values:
        await store.write(payments.create(payment(value=value, status=Status.SUCCEEDED)))
    await store.write(
        payments.create(payment(value=5, status=Status.SUCCEEDED, unit="iso4217/EUR"))
    )
    await store.write(payments.create(payment(value=7)))
    totals = await store.survey(listing.totals(ALL, NOW_US))
    assert totals == Totals(10, 0, (("iso4217/EUR", 5), ("iso4217/USD", sum(values))))


async def test_a_list_of_no_merchants_is_empty(store):
    await created(store)
    nobody = replace(ALL, merchants=())
    assert await store.read(listing.page(nobody, BY_DATE, 10, None, NOW_US, few=False)) == []
    assert await store.read(listing.totals(nobody, NOW_US)) == Totals(0, 0, ())


async def test_a_payment_whose_time_is_over_is_listed_as_expired_before_anybody_noted_it(store):
    made = await created(store)
    for now_us, status in ((AFTER_US - 1, Status.REQUIRES_ACTION), (AFTER_US, Status.EXPIRED)):
        for wanted in (Status.REQUIRES_ACTION, Status.EXPIRED):
            filters = replace(ALL, statuses=(wanted,))
            places = await store.read(listing.page(filters, BY_DATE, 10, None, now_us, few=False))
            assert bool(places) is (wanted is status)
            totals = await store.read(listing.totals(filters, now_us))
            assert totals.payments == len(places)
        await store.write(merchants.put_merchant(MERCHANT))
        (row,) = await store.read(listed.listed([made.id], now_us))
        assert row.payment.status is status


MERCHANT = Merchant("mer_1", "par_1", "Shop", "s@shop.example", None, "active", False, NOW_US)


async def test_a_row_has_its_merchant_fee_transaction_and_refund(store):
    await store.write(merchants.put_merchant(MERCHANT))
    waiting, sending, paid = [await accepted(store) for _ in range(3)]
    open_tx = await submitted(store, sending, nonce=7)
    done_tx = await submitted(store, paid, nonce=8, hash="0xpaid")
    (row,) = await store.read(listed.listed([sending.id], NOW_US))
    # signed is not sent
    assert (row.tx_hash, row.nonce) == (None, None)
    await store.write(chain_txs.sent({open_tx.id: 5}))
    end = TxEnd(done_tx.id, TxState.FINAL, 6, "0xblock")
    await store.write(chain_txs.conclude([success(paid)], [end], LATER_US))
    back = Refund("rfnd_1", paid.id, "u", 5, PAYER, RefundStatus.PENDING, None, LATER_US)
    await store.write(refunds.create(back))

    ids = [sending.id, paid.id, waiting.id]
    rows = await store.read(listed.listed(ids, LATER_US))
    assert [row.payment.id for row in rows] == ids
    assert [(row.tx_hash, row.nonce) for row in rows] == [
        (open_tx.hash, 7),
        ("0xpaid", 8),
        (None, None),
    ]
    assert [list(row.refunds) for row in rows] == [[], [back], []]
    assert {row.merchant for row in rows} == {MERCHANT}
    assert {row.payment.option_unit for row in rows} == {f"caip19/{ASSET}"}


async def test_a_payment_keeps_what_was_to_be_paid_when_it_fails(store):
    made = await accepted(store)
    await submitted(store, made)
    finding = replace(
        success(made),
        status=Status.FAILED,
        tx_id=None,
        option_unit=None,
        option_value=None,
        settled_value=None,
        postings=(),
    )
    (ended,) = await store.write(chain_txs.conclude([finding], [], LATER_US))
    assert (ended.status, ended.option_unit, ended.option_value) == (
        Status.FAILED,
        f"caip19/{ASSET}",
        50_000_000,
    )


async def test_times_are_bounds_of_ids_and_exact_to_the_microsecond(store):
    times = [NOW_US + step for step in (-1, 0, 1, 999, 1000, 1001, 60_000_000)]
    for at_us in times:
        made = payment(id=payment_id(at_us, os.urandom), created_at_us=at_us)
        await store.write(payments.create(made))
    for start, end in itertools.product([*times, None], repeat=2):
        filters = replace(ALL, start_us=start, end_us=end)
        expected = [
            at for at in times if (start is None or at >= start) and (end is None or at < end)
        ]
        assert len(await walked(store, filters, BY_DATE, 3, few=False)) == len(expected)
        assert (await store.read(listing.totals(filters, NOW_US))).payments == len(expected)


async def test_an_asset_compares_in_any_case_and_a_network_as_it_is(store):
    unit = "caip19/solana:EtWT/token:AbCd"
    await store.write(payments.create(payment(unit=unit)))
    for narrow, count in (
        ({"units": (unit.lower(),)}, 1),
        ({"units": (unit.lower() + "e",)}, 0),
        ({"networks": ("solana:EtWT",)}, 1),
        ({"networks": ("solana:EtW",)}, 0),
        ({"networks": ("solana:etwt",)}, 0),
    ):
        totals = await store.read(listing.totals(replace(ALL, **narrow), NOW_US))
        assert totals.payments == count, narrow


def test_the_store_of_the_bench_is_as_the_tables_are(tmp_path):
    history.write(tmp_path / "florin.db", 50)
    raw = Connection(tmp_path / "florin.db", writes=False)
    try:
        ((count,),) = raw.command("SELECT count(*) FROM payment").fetchall()
        assert count == 50
    finally:
        raw.close()
