"""Test that an offer is found by the contents of its settlement event, on its own chain."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from alembic import command
from florin_server.db.migrations import config
from florin_server.domain.payments.payment import CancellationReason, PaymentStatus
from florin_server.money.open_store import open_store
from florin_server.money.payments.store import offered_options, payments
from sqlalchemy import create_engine

from tests.support.store_factories import (
    CHAIN,
    EXPIRES,
    LATER_US,
    NOW_US,
    create_payment,
    make_option,
    make_payment,
)

OTHER_CHAIN = "eip155:1"
NOW_S = NOW_US // 1_000_000


async def test_option_is_listed_by_its_reference(store):
    of, other = await create_payment(store), await create_payment(store)
    silent = make_option(of, id="opt_2", reference=None)
    await store.write(payments.put_options([silent]))
    references = [f"0x{of.id}", "0xunknown"]
    ((result, what),) = await store.read(offered_options.list_by_reference(CHAIN, references))
    assert (result, what) == (of, make_option(of))
    assert (what.reference, what.head) == (f"0x{of.id}", 8)
    await store.write(payments.cancel(of.id, CancellationReason.BY_USER, LATER_US))
    ((result, _),) = await store.read(offered_options.list_by_reference(CHAIN, references))
    assert result.status is PaymentStatus.CANCELLED
    both = await store.read(
        offered_options.list_by_reference(CHAIN, [*references, f"0x{other.id}"])
    )
    assert {item.id for item, _ in both} == {of.id, other.id}


async def test_option_of_another_chain_is_not_listed(store):
    of = await create_payment(store)
    assert await store.read(offered_options.list_by_reference(OTHER_CHAIN, [f"0x{of.id}"])) == []
    assert await store.read(offered_options.list_payable_references(OTHER_CHAIN, NOW_S, 10)) == []
    assert await store.read(offered_options.list_ended_references(OTHER_CHAIN, 0, 0, 10)) == []


async def test_payable_references_are_listed_longest_lasting_first(store):
    first, second = await create_payment(store), await create_payment(store, expires_at=EXPIRES + 9)
    over = await create_payment(store)
    await store.write(payments.cancel(over.id, CancellationReason.BY_USER, LATER_US))
    payable = [(f"0x{second.id}", 8), (f"0x{first.id}", 8)]
    assert await store.read(offered_options.list_payable_references(CHAIN, NOW_S, 10)) == payable
    assert await store.read(offered_options.list_payable_references(CHAIN, NOW_S, 1)) == payable[:1]
    assert (
        await store.read(offered_options.list_payable_references(CHAIN, EXPIRES, 10)) == payable[:1]
    )


async def test_ended_references_are_listed_newest_first(store):
    created_payments = [
        make_payment(
            id=offered_options.get_payment_id_floor(ms) + "x", expires_at=EXPIRES + ms // 1000
        )
        for ms in (0, 1_000, 2_000)
    ]
    for payment in created_payments:
        await store.write(payments.create(payment))
        await store.write(payments.put_options([make_option(payment, head=None)]))
    old, middle, new = [(f"0x{each_payment.id}", None) for each_payment in created_payments]
    assert await store.read(offered_options.list_ended_references(CHAIN, 0, 0, 10)) == [
        new,
        middle,
        old,
    ]
    assert await store.read(offered_options.list_ended_references(CHAIN, 1, 0, 10)) == [new, middle]
    assert await store.read(offered_options.list_ended_references(CHAIN, 0, EXPIRES + 2, 10)) == [
        new
    ]
    assert await store.read(offered_options.list_ended_references(CHAIN, 0, 0, 1)) == [new]


@pytest.fixture
def older(tmp_path):
    """Create a version 0.3 store with fetched and unfetched direct options, and Solana."""
    engine = create_engine(f"sqlite:///{tmp_path / 'florin.db'}")
    with engine.begin() as connection:
        command.upgrade(config(connection), "v0006")
    engine.dispose()
    rows = [
        ("fetched", CHAIN, '{"ref":"0xaa"}'),
        ("unfetched", CHAIN, '{"ref":"0xbb"}'),
        ("solana", "solana:abc", '{"ref":"a memo"}'),
    ]
    with closing(sqlite3.connect(tmp_path / "florin.db")) as raw:
        for name, chain, terms in rows:
            raw.execute(
                "INSERT INTO payment_option VALUES ('pay_1', ?, 'a', 'a', ?, 'x', '1', 1, NULL, "
                "'direct', '[]', ?, 0, '0', '0', 0)",
                (name, chain, terms),
            )
        for n, head in ((0, 40), (1, 50)):
            raw.execute(
                "INSERT INTO issued VALUES ('pay_1', 'fetched', ?, '[]', '{}', ?, 0, NULL, '0xaa')",
                (n, head),
            )
        raw.commit()
    return tmp_path / "florin.db"


async def test_options_offered_by_an_older_release_are_read(older):
    store = await open_store(older)
    try:
        options = {
            option.id: option for option in await store.read(payments.list_options("pay_1", ["a"]))
        }
        result = {name: (option.reference, option.head) for name, option in options.items()}
        assert result == {
            "fetched": ("0xaa", 40),
            "unfetched": ("0xbb", None),
            "solana": (None, None),
        }
        assert [
            resolved_build.n
            for resolved_build in await store.read(
                payments.list_resolved_builds("pay_1", "fetched")
            )
        ] == [1, 0]
    finally:
        await store.close()


def test_first_block_is_not_below_the_head_at_offer_time():
    offer = make_option(make_payment(), head=100)
    assert offer.first_block(3, 7) == 97
    assert replace(offer, head=2).first_block(3, 7) == 0
    assert replace(offer, head=None).first_block(3, 7) == 4
