"""Test the search of payments: everything at hand finds its payments, by index, of one partner."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from florin_server.db.engine.query import Command, Op, Query, insert, operation, run
from florin_server.db.engine.sqlite import SqliteConnection
from florin_server.db.tables.tables import (
    chain_tx_bump_table,
    held_money_table,
    payment_settled_table,
    payment_table,
    refund_table,
)
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.money.payments.store import payments, search
from florin_server.money.payments.store.search import SearchTerms
from sqlalchemy import Table

from tests.bench import history
from tests.support import postgres
from tests.support.store_factories import (
    ASSET,
    CHAIN,
    NOW_US,
    PAYER,
    create_chain_tx,
    create_processing_payment,
    make_payment,
    open_engine_store,
)

COUNT = 100_000
HASH = "0x" + "ab" * 32
LIMIT = 20
# in the order of the queries; the list of a transaction's items follows the key of the table
INDEXES = (
    *("ix_payment_partner_reference", "ix_payment_partner_payer", "ix_payment_partner_value"),
    *("ix_payment_tx_id", "ix_confirm_outputs", "ix_refund_tx_id", "ix_payment_settled_tx_id"),
    *("ix_held_money_chain_id_tx_hash", "uq_chain_tx_chain_id_hash", "ix_chain_tx_bump_hash"),
)


def make_terms(text: str, **changes: Any) -> SearchTerms:
    output = json.dumps([json.dumps(text)])
    return SearchTerms(text, text, text, output, (CHAIN,), **changes)


def list_queries(terms: SearchTerms) -> list[Query]:
    """Return all queries of a search; a transaction of ours is found."""
    queries: list[Query] = []

    def execute(query: Query) -> list[Any]:
        queries.append(query)
        return ["tx_1"] if "FROM chain_tx_bump" in query.statement.sqlite.sql else []

    run(search.find_ids(history.PARTNER, terms, live=False, limit=LIMIT), execute)
    return queries


EVERY_TERM = make_terms("order-500", payers=(PAYER,), values={1250: ("iso4217/USD",)})


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    path = tmp_path_factory.mktemp("search") / "florin.db"
    history.write(path, COUNT)
    raw = SqliteConnection(path, writes=True)
    # the planner knows then that all payments are of one partner
    raw.command("ANALYZE")
    yield raw
    raw.close()


@pytest.mark.slow
def test_every_query_follows_an_index_among_100_000_payments(filled):
    used = []
    queries = list_queries(EVERY_TERM)
    for query in queries:
        compiled = query.statement.sqlite
        rows = filled.command(
            f"EXPLAIN QUERY PLAN {compiled.sql}", compiled.encode_params(query.params)
        )
        steps = [step for *_, step in rows]
        # the only list that is walked is one of at most 10,000 ids, from an index
        scans = [step for step in steps if step.startswith("SCAN")]
        assert all(step.startswith(("SCAN anon", "SCAN json_each")) for step in scans), steps
        used.append(" ".join(steps))
    assert len(queries) == len(INDEXES) + 3
    for name in INDEXES:
        assert any(f"{name} (" in steps for steps in used), name


@pytest.mark.skipif(not postgres.is_available(), reason="needs PostgreSQL")
async def test_every_query_follows_an_index_on_postgresql(tmp_path):
    names = [column.name for column in payment_table.c]
    chosen = {
        "id": "'pay_n' || lpad(n::text, 26, '0')",
        "reference_id": "'order-' || n",
        "payer": "'payer' || n",
        "tx_id": "'0x' || n",
        "value": "n",
    }
    copied = ", ".join(chosen.get(name, f'payment."{name}"') for name in names)
    async with open_engine_store("postgres", tmp_path) as store:
        await store.write(payments.create(make_payment(partner_id=history.PARTNER)))
        dsn = postgres.get_database(tmp_path).dsn
        await postgres.run_commands(
            dsn,
            f"INSERT INTO payment SELECT {copied} FROM payment, generate_series(1000, {COUNT}) n",
            "ANALYZE payment",
        )
        used = []
        for query in list_queries(EVERY_TERM):
            compiled = query.statement.postgres
            # other tables are empty, and would be read as a whole
            plan = await postgres.explain(dsn, compiled.sql, *compiled.encode_params(query.params))
            assert "Seq Scan" not in plan, plan
            used.append(plan)
    await postgres.drop_database(tmp_path)
    for name in INDEXES:
        assert any(name in plan for plan in used), name


@operation
def put(table: Table, **values: Any) -> Op[None]:
    empty = {column.name: None for column in table.c}
    yield Command(insert(table))(**{**empty, **values})


async def find(store, terms: SearchTerms, partner: str = "par_1", live: bool = False) -> list[str]:
    return await store.read(search.find_ids(partner, terms, live=live, limit=LIMIT))


async def test_each_transaction_of_a_payment_finds_it_and_no_other_partner(store):
    """Confirmation, settlement and its variants, refund, payout and held money."""
    kinds: dict[str, str] = {}

    async def add(kind: str, **changes: Any) -> str:
        payment = await create_processing_payment(store, **changes)
        kinds[kind] = payment.id
        return payment.id

    hashes = {kind: f"0x{number:064x}" for number, kind in enumerate("abcdefg", 0xABC000)}
    await add("a", outputs=(json.dumps(hashes["a"].upper().replace("X", "x")),))
    settled = await create_processing_payment(store)
    kinds["b"] = kinds["c"] = settled.id
    tx = await create_chain_tx(store, settled, hash=hashes["b"])
    await store.write(
        put(chain_tx_bump_table, tx_id=tx.id, n=0, raw=b"", hash=hashes["c"], created_at_us=NOW_US)
    )
    refunded = await add("d")
    await store.write(
        put(
            refund_table, id="rfnd_1", payment_id=refunded, unit="u", value=1, status="succeeded",
            tx_id=hashes["d"], created_at_us=NOW_US, version=1, ordinal=1, payment_value=1,
        )
    )  # fmt: skip
    paid_out = await add("e")
    await store.write(
        put(
            payment_settled_table, payment_id=paid_out, at_us=NOW_US, tx_id=hashes["e"], unit="u",
            value=1, after_refunds=0, partner_id="par_1", live=False,
        )
    )  # fmt: skip
    held = await add("f")
    await store.write(
        put(
            held_money_table, id="held_1", payment_id=held, chain_id=CHAIN, asset=ASSET,
            payer=PAYER, value=1, held=1, fee=0, tx_hash=hashes["f"], event="1", late=False,
            why="", since_us=NOW_US, state="held", even_if_blocked=False,
        )
    )  # fmt: skip
    ended = make_payment(status=PaymentStatus.FAILED, tx_id=hashes["g"])
    await store.write(payments.create(ended))
    kinds["g"] = ended.id
    for kind, tx_hash in hashes.items():
        terms = make_terms(tx_hash)
        assert await find(store, terms) == [kinds[kind]], kind
        assert await find(store, terms, "par_2") == [], kind
        assert await find(store, terms, live=True) == [], kind
        assert await find(store, replace(terms, tx_hash="")) == [], kind


async def test_references_are_found_among_all_payments_the_newest_first(store):
    same = [make_payment(reference_id="order-1") for _ in range(LIMIT + 5)]
    foreign = [
        make_payment(reference_id="order-1", partner_id="par_2"),
        make_payment(reference_id="order-1", live=True),
        make_payment(reference_id="order-10"),
    ]
    for payment in (*same, *foreign):
        await store.write(payments.create(payment))
    newest = [payment.id for payment in reversed(same)][:LIMIT]
    assert await find(store, make_terms("order-1")) == newest
    assert await find(store, make_terms("order-1"), "par_2") == [foreign[0].id]
    assert await find(store, make_terms("order-1"), live=True) == [foreign[1].id]
    assert await find(store, make_terms("order")) == []


async def test_signatures_are_no_part_of_the_index_of_transactions(store):
    signature = "0x" + "ab" * 65
    await create_processing_payment(store, outputs=(json.dumps(signature),))
    assert await find(store, make_terms(signature)) == []
