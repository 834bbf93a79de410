"""Test that the books balance after every booking, and that the check notices damage."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from florin_server.db.engine.query import Command, StoreError, operation
from florin_server.db.tables.tables import ledger_transfer_table
from florin_server.domain.ledger.accounts import LedgerAccountKind
from florin_server.domain.payouts.payout import Payout, PayoutKind, PayoutStatus
from florin_server.domain.settlement.chain_txs import LedgerPosting
from florin_server.money.ledger.store import books, ledger
from florin_server.money.payouts.store import payouts
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import insert

from tests.support.store_factories import (
    ASSET,
    CHAIN,
    COIN,
    ENGINES,
    NOW_US,
    PAYER,
    U256_MAX,
    execute_beside,
    open_engine_store,
)

ACCOUNTS = ("wallet:w", "external:a", "external:b", "expense:gas", "income:fee")
POSTINGS = st.builds(
    LedgerPosting,
    st.sampled_from(ACCOUNTS),
    st.sampled_from(ACCOUNTS),
    st.sampled_from([ASSET, COIN]),
    st.integers(1, U256_MAX),
).filter(lambda posting: posting.debit != posting.credit)
JOURNALS = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.lists(POSTINGS, min_size=1, max_size=4)), max_size=12
)


def book(key, *postings):
    return ledger.post(key, "test", None, None, postings, NOW_US)


async def is_not_booked(store, key):
    with pytest.raises(
        ledger.JournalNotBooked, match=f"{key} cannot be reversed, as it is not booked"
    ):
        await store.write(ledger.reverse(key, NOW_US))
    assert not await store.write(ledger.reverse(key, NOW_US, missing_ok=True))


async def test_reversed_journal_is_booked_the_opposite_way(store):
    postings = (
        LedgerPosting("external:a", "external:b", ASSET, 5),
        LedgerPosting("wallet:w", "income:fee", COIN, 7),
    )
    await is_not_booked(store, "a")
    await store.write(book("a", *postings))
    for _ in range(2):
        assert await store.read(ledger.get_balance("external:a", ASSET)) == 5
        assert await store.write(ledger.reverse("a", NOW_US))
        # once for each booking
        await is_not_booked(store, "a")
        assert await store.read(ledger.get_balance("external:a", ASSET)) == 0
        assert await store.read(ledger.get_balance("income:fee", COIN)) == 0
        again = ledger.post_again("a", "test", None, None, postings, NOW_US)
        await store.write(again)
    assert await store.read(ledger.get_balance("income:fee", COIN)) == -7
    assert await store.read(ledger.check()) == []


async def books_balance(engine, journals):
    model, booked = Counter(), set()
    with tempfile.TemporaryDirectory() as folder:
        async with open_engine_store(engine, Path(folder)) as store:
            for key, postings in journals:
                assert await store.write(book(key, *postings)) is (key not in booked)
                if key in booked:
                    continue
                booked.add(key)
                for posting in postings:
                    model[posting.debit, posting.asset] += posting.amount
                    model[posting.credit, posting.asset] -= posting.amount
            for asset in (ASSET, COIN):
                held = [
                    await store.read(ledger.get_balance(account, asset)) for account in ACCOUNTS
                ]
                assert held == [model[account, asset] for account in ACCOUNTS]
                assert sum(held) == 0
            assert await store.read(ledger.check()) == []


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=20, deadline=None)
@given(journals=JOURNALS)
def test_books_balance_and_are_booked_once(engine, journals):
    asyncio.run(books_balance(engine, journals))


async def list_pages(store, limit, kind=None):
    pages, after = [], None
    while True:
        page = await store.read(books.list_balances(kind, after, limit))
        pages.append(page.balances)
        after = page.last
        if after is None:
            return pages


@pytest.mark.parametrize("kind", [None, LedgerAccountKind.EXTERNAL])
@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_pages_of_balances_have_every_balance_once_in_order(store, limit, kind):
    await store.write(
        book(
            "a",
            LedgerPosting("wallet:w", "external:a", ASSET, 5),
            LedgerPosting("wallet:w", "external:b", COIN, 7),
            LedgerPosting("external:c", "external:d", ASSET, 3),
            LedgerPosting("external:d", "external:c", ASSET, 3),
            LedgerPosting("expense:gas", "wallet:w", COIN, 2),
            LedgerPosting("external:b", "merchant:m", ASSET, 1),
        )
    )
    expected = [
        ("expense:gas", COIN, 2),
        ("external:a", ASSET, -5),
        ("external:b", COIN, -7),
        ("external:b", ASSET, 1),
        ("merchant:m", ASSET, -1),
        ("wallet:w", COIN, 5),
        ("wallet:w", ASSET, 5),
    ]
    pages = await list_pages(store, limit, kind)
    assert all(len(page) <= limit for page in pages)
    assert [balance for page in pages for balance in page] == sorted(
        balance for balance in expected if kind is None or balance[0].startswith(kind)
    )


async def test_page_of_balances_is_bounded_with_zero_balances_too(store):
    even = [
        LedgerPosting(*sides, ASSET, 1)
        for number in range(5)
        for sides in ((f"external:{number}", "wallet:w"), ("wallet:w", f"external:{number}"))
    ]
    await store.write(book("a", *even))
    assert await list_pages(store, 2) == [[], [], []]


async def test_amounts_of_256_bits_add_up_exactly(store):
    most = LedgerPosting("wallet:w", "external:a", ASSET, U256_MAX)
    for n in range(3):
        await store.write(book(f"k{n}", most))
    assert await store.read(ledger.get_balance("wallet:w", ASSET)) == 3 * U256_MAX
    assert await store.read(ledger.get_balance("external:a", ASSET)) == -3 * U256_MAX
    assert await store.read(ledger.get_balance("wallet:w", COIN)) == 0


@pytest.mark.parametrize(
    "posting",
    [
        LedgerPosting("wallet:w", "wallet:w", ASSET, 1),
        LedgerPosting("wallet:w", "external:a", ASSET, 0),
        LedgerPosting("wallet:w", "external:a", ASSET, -1),
        LedgerPosting("wallet:w", "external:a", ASSET, U256_MAX + 1),
        LedgerPosting("purse:w", "external:a", ASSET, 1),
    ],
)
async def test_a_posting_that_is_no_transfer_is_refused_with_its_whole_journal(store, posting):
    good = LedgerPosting("wallet:w", "external:a", ASSET, 7)
    with pytest.raises(ValueError, match=r"\w+"):
        await store.write(book("k", good, posting))
    assert await store.read(ledger.get_balance("wallet:w", ASSET)) == 0
    assert await store.write(book("k", good))


JOURNAL_ROWS = (
    "SELECT idem_key, type, payment_id, tx_hash, at_us, note FROM ledger_journal ORDER BY idem_key"
)


async def test_journal_keeps_its_subject_when_booked_again(store, tmp_path):
    posting, later = LedgerPosting("wallet:w", "external:a", ASSET, 5), NOW_US + 1
    await store.write(ledger.post("a", "fee", "pay_1", "0x1", [posting], NOW_US, "by hand"))
    await store.write(ledger.reverse("a", later))
    await store.write(ledger.post_reversed_again("a", later))
    await store.write(ledger.reverse("a", later))
    again = ledger.post_again("a", "fee", "pay_1", "0x2", [posting], later, "once more")
    await store.write(again)
    assert await execute_beside(store, tmp_path, JOURNAL_ROWS) == [
        ("a", "fee", "pay_1", "0x1", NOW_US, "by hand"),
        ("a#2", "fee", "pay_1", "0x1", later, None),
        ("a#3", "fee", "pay_1", "0x2", later, "once more"),
        ("reverse:a", "reverse_fee", "pay_1", "0x1", later, None),
        ("reverse:a#2", "reverse_fee", "pay_1", "0x1", later, None),
    ]


async def test_journal_that_spans_pages_is_checked_as_a_whole(store, tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "_PAGE", 1)
    await store.write(
        book("a", *(LedgerPosting("wallet:w", "external:a", ASSET, n) for n in (1, 2, 3)))
    )
    assert await store.read(ledger.check()) == []
    await execute_beside(
        store, tmp_path, "UPDATE ledger_transfer SET debit = 'purse:w' WHERE n = 2"
    )
    result = await store.read(ledger.check())
    assert result == ["transfer 2 of a: unknown kind of account: purse:w"]


async def test_a_journal_needs_a_posting(store):
    with pytest.raises(ValueError, match="nothing to book"):
        await store.write(book("k"))


async def test_journals_of_several_pages_are_checked(store, monkeypatch):
    monkeypatch.setattr(ledger, "_PAGE", 3)
    for n in range(10):
        legs = [
            LedgerPosting("wallet:w", f"external:{leg}", ASSET, n + 1) for leg in range(n % 4 + 1)
        ]
        await store.write(book(f"k{n}", *legs))
    assert await store.read(ledger.check()) == []


@pytest.mark.parametrize(
    ("damage", "expected_problem"),
    [
        ("DELETE FROM ledger_transfer WHERE idem_key='k1'", "journal k1 has no transfers"),
        ("DELETE FROM ledger_journal WHERE idem_key='k1'", "transfers of k1 have no journal"),
        ("UPDATE ledger_transfer SET debit='x:y' WHERE idem_key='k1'", "unknown kind"),
        ("UPDATE ledger_transfer SET debit='merchant:m' WHERE idem_key='k1'", "owes us 5"),
    ],
)
async def test_damage_is_noticed(store, tmp_path, damage, expected_problem):
    for n in range(3):
        await store.write(book(f"k{n}", LedgerPosting("wallet:w", "external:a", ASSET, 5)))
    await execute_beside(store, tmp_path, damage)
    (problem,) = await store.read(ledger.check())
    assert expected_problem in problem


async def test_balance_owed_to_a_merchant_is_not_damage(store):
    await store.write(book("in", LedgerPosting("wallet:w", "merchant:m", ASSET, 10)))
    assert await store.read(ledger.get_balance("merchant:m", ASSET)) == -10
    await store.write(book("out", LedgerPosting("merchant:m", "external:a", ASSET, 10)))
    assert await store.read(ledger.check()) == []
    await store.write(book("too much", LedgerPosting("merchant:m", "external:a", ASSET, 1)))
    assert await store.read(ledger.check()) == [f"merchant:m owes us 1 of {ASSET}"]


async def test_of_held_money_no_more_leaves_than_came(store):
    came = LedgerPosting("wallet:w", "held:a", ASSET, 10)
    await store.write(book("held:pay_1", came))
    back = LedgerPosting("held:a", "wallet:w", ASSET, 10)
    await store.write(book("return:p", back))
    assert await store.read(ledger.check()) == []
    # its arrival was undone, and the money arrived later after all
    assert await store.write(ledger.reverse("held:pay_1", NOW_US))
    assert await store.read(ledger.get_balance("held:a", ASSET)) == 10
    assert await store.read(ledger.check()) == []
    await store.write(ledger.post_reversed_again("held:pay_1", NOW_US))
    assert await store.read(ledger.get_balance("held:a", ASSET)) == 0
    await store.write(book("return:q", replace(back, amount=11)))
    (problem,) = await store.read(ledger.check())
    assert problem == f"held:a owes us 11 of {ASSET}, of which reorganizations explain 10"


async def test_a_merchant_owes_no_more_than_was_refunded_for_it(store):
    await store.write(book("in", LedgerPosting("wallet:w", "merchant:m", ASSET, 10)))
    await store.write(book("refund:r", LedgerPosting("merchant:m", "wallet:w", ASSET, 15)))
    assert await store.read(ledger.check()) == []
    # any other payout was owed before
    await store.write(book("payout:p", LedgerPosting("merchant:m", "wallet:w", ASSET, 10)))
    assert await store.read(ledger.check()) == []
    await store.write(book("payout:q", LedgerPosting("merchant:m", "wallet:w", ASSET, 1)))
    await store.write(book("refund:other", LedgerPosting("merchant:n", "wallet:w", ASSET, 15)))
    await store.write(book("refund:coin", LedgerPosting("merchant:m", "wallet:w", COIN, 15)))
    (problem,) = await store.read(ledger.check())
    assert problem == f"merchant:m owes us 16 of {ASSET}, of which refunds and fees explain 15"
    # a fee that it owes is explained
    await store.write(book("settle:f", LedgerPosting("merchant:m", "income:fee", ASSET, 4)))
    (problem,) = await store.read(ledger.check())
    assert problem == f"merchant:m owes us 20 of {ASSET}, of which refunds and fees explain 19"


async def test_a_payout_that_is_done_is_in_the_books(store):
    paid = Payout("pout_1", PayoutKind.BALANCE, "m", None, False, CHAIN, ASSET, 5, PAYER, NOW_US)
    await store.write(payouts.add(paid))
    assert await store.read(payouts.check()) == []
    await store.write(payouts.add(replace(paid, id="pout_2", status=PayoutStatus.DONE)))
    assert await store.read(payouts.check()) == ["payout pout_2 is done but not booked"]
    await store.write(book("payout:pout_2", LedgerPosting("merchant:m", "wallet:w", ASSET, 5)))
    assert await store.read(payouts.check()) == []


async def test_transfer_table_refuses_the_same_account_on_both_sides(store, tmp_path):
    await store.write(book("k", LedgerPosting("wallet:w", "external:a", ASSET, 5)))
    with pytest.raises(Exception, match="two_accounts"):
        await execute_beside(store, tmp_path, "UPDATE ledger_transfer SET debit=credit")
    with pytest.raises(StoreError, match="two_accounts"):
        await store.write(raw_transfer())


@operation
def raw_transfer():
    yield Command(insert(ledger_transfer_table))(
        idem_key="k", n=1, debit="wallet:w", credit="wallet:w", asset=ASSET, amount=1
    )
