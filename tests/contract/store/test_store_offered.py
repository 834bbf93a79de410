"""What was offered is found by what its settlement event carries, on its own chain."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from alembic import command
from florin_server.domain.payments.payment import CancelledReason, Status
from florin_server.store.engine.opening import open_store
from florin_server.store.migrations import config
from florin_server.store.payments import offered, payments
from sqlalchemy import create_engine

from tests.support.store_kit import CHAIN, EXPIRES, LATER_US, NOW_US, created, option, payment

OTHER_CHAIN = "eip155:1"
NOW_S = NOW_US // 1_000_000


async def test_an_option_is_found_by_its_reference(store):
    of, other = await created(store), await created(store)
    silent = option(of, id="opt_2", reference=None)
    await store.write(payments.put_options([silent]))
    references = [f"0x{of.id}", "0xunknown"]
    ((found, what),) = await store.read(offered.by_reference(CHAIN, references))
    assert (found, what) == (of, option(of))
    assert (what.reference, what.head) == (f"0x{of.id}", 8)
    await store.write(payments.cancel(of.id, CancelledReason.BY_USER, LATER_US))
    ((found, _),) = await store.read(offered.by_reference(CHAIN, references))
    assert found.status is Status.CANCELLED
    both = await store.read(offered.by_reference(CHAIN, [*references, f"0x{other.id}"]))
    assert {one.id for one, _ in both} == {of.id, other.id}


async def test_an_option_of_another_chain_is_not_found(store):
    of = await created(store)
    assert await store.read(offered.by_reference(OTHER_CHAIN, [f"0x{of.id}"])) == []
    assert await store.read(offered.payable(OTHER_CHAIN, NOW_S, 10)) == []
    assert await store.read(offered.ended(OTHER_CHAIN, 0, 0, 10)) == []


async def test_what_may_still_be_paid_is_told_the_longest_lasting_first(store):
    first, second = await created(store), await created(store, expires_at=EXPIRES + 9)
    over = await created(store)
    await store.write(payments.cancel(over.id, CancelledReason.BY_USER, LATER_US))
    payable = [(f"0x{second.id}", 8), (f"0x{first.id}", 8)]
    assert await store.read(offered.payable(CHAIN, NOW_S, 10)) == payable
    assert await store.read(offered.payable(CHAIN, NOW_S, 1)) == payable[:1]
    assert await store.read(offered.payable(CHAIN, EXPIRES, 10)) == payable[:1]


async def test_what_ended_since_a_time_is_told_the_newest_first(store):
    made = [
        payment(id=offered.made_from(ms) + "x", expires_at=EXPIRES + ms // 1000)
        for ms in (0, 1_000, 2_000)
    ]
    for one in made:
        await store.write(payments.create(one))
        await store.write(payments.put_options([option(one, head=None)]))
    old, middle, new = [(f"0x{one.id}", None) for one in made]
    assert await store.read(offered.ended(CHAIN, 0, 0, 10)) == [new, middle, old]
    assert await store.read(offered.ended(CHAIN, 1, 0, 10)) == [new, middle]
    assert await store.read(offered.ended(CHAIN, 0, EXPIRES + 2, 10)) == [new]
    assert await store.read(offered.ended(CHAIN, 0, 0, 1)) == [new]


@pytest.fixture
def older(tmp_path):
    """A file of version 0.3 with a direct option that was fetched, one that was not, and Solana."""
    engine = create_engine(f"sqlite:///{tmp_path / 'florin.db'}")
    with engine.begin() as connection:
        command.upgrade(config(connection), "v0006")
    engine.dispose()
    rows = [
        ("fetched", CHAIN, '{"ref":"0xaa"}'),
        ("told", CHAIN, '{"ref":"0xbb"}'),
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


async def test_what_an_older_florin_offered_is_found_too(older):
    store = await open_store(older)
    try:
        known = {one.id: one for one in await store.read(payments.options("pay_1", ["a"]))}
        told = {name: (one.reference, one.head) for name, one in known.items()}
        assert told == {"fetched": ("0xaa", 40), "told": ("0xbb", None), "solana": (None, None)}
        assert [one.n for one in await store.read(payments.issued("pay_1", "fetched"))] == [1, 0]
    finally:
        await store.close()


def test_nothing_is_older_than_what_was_known_when_it_was_offered():
    offer = option(payment(), head=100)
    assert offer.first_block(3, 7) == 97
    assert replace(offer, head=2).first_block(3, 7) == 0
    assert replace(offer, head=None).first_block(3, 7) == 4
