"""Test receivers' accounts: each is opened once, within daily caps."""

from __future__ import annotations

import sqlite3

import pytest
from alembic import command
from florin_server.accounts.store import merchants
from florin_server.db.engine import schema
from florin_server.db.engine.query import Op
from florin_server.db.migrations import config
from florin_server.domain.accounts.destinations import (
    AssetAccount,
    DailyOpeningCaps,
    TokenAccountOpening,
)
from florin_server.domain.payments.payment import Merchant, PaymentStatus
from florin_server.domain.settlement.chain_txs import PaymentOutcome
from florin_server.money.settlement.store import payment_outcomes, token_accounts
from florin_server.money.settlement.store.token_accounts import AccountNotOpenable
from sqlalchemy import create_engine

from tests.support.store_factories import (
    NOW_US,
    create_processing_payment,
    make_success,
    open_engine_store,
)

DAY_US = 86_400 * 1_000_000
CAPS = DailyOpeningCaps(chain=4, partner=3, merchant=2)
ONE = "solana:one"


def place(number: int, chain: str = ONE) -> AssetAccount:
    return AssetAccount(f"{chain}/token:mint", f"{chain}:owner{number}")


def opening(
    number: int, merchant_id: str | None = "mrch_1", chain: str = ONE
) -> TokenAccountOpening:
    return TokenAccountOpening(place(number, chain), merchant_id)


def merchant(merchant_id: str, partner_id: str) -> Merchant:
    return Merchant(merchant_id, partner_id, "Shop", "a@b.example", None, "active", False, NOW_US)


def claim(*openings: TokenAccountOpening, by: str = "pay_1", at_us: int = NOW_US) -> Op[None]:
    return token_accounts.claim(openings, CAPS, by, at_us)


async def openable(store, *openings: TokenAccountOpening, at_us: int = NOW_US) -> set[AssetAccount]:
    return set(await store.read(token_accounts.filter_openable(openings, CAPS, at_us)))


async def queue(
    store, chain: str = ONE, most: int = 10, at_us: int = NOW_US
) -> list[TokenAccountOpening]:
    return await store.read(token_accounts.list_pending(chain, CAPS, most, at_us))


async def test_places_wait_in_turn_until_they_are_opened_and_never_again(store):
    for number in (2, 1, 1):
        await store.write(token_accounts.enqueue(opening(number), NOW_US - number))
    await store.write(token_accounts.enqueue(opening(3, None, "solana:ONE"), NOW_US))
    assert await queue(store) == [opening(2), opening(1)]
    assert await queue(store, most=1) == [opening(2)]
    await store.write(claim(opening(1)))
    await store.write(token_accounts.enqueue(opening(1), NOW_US))
    assert await queue(store) == [opening(2)]
    await store.write(token_accounts.dequeue([place(2)]))
    assert await queue(store) == []
    assert await queue(store, "solana:ONE") == [opening(3, None, "solana:ONE")]


async def test_token_account_is_opened_once_by_its_first_claim(store):
    assert await openable(store, opening(1), opening(2)) == {place(1), place(2)}
    await store.write(claim(opening(1)))
    assert await openable(store, opening(1), opening(2)) == {place(2)}
    # for another merchant, by another payment, on another day
    for late in (
        claim(opening(1), by="pay_2"),
        claim(opening(1, "mrch_2"), by="pay_2", at_us=NOW_US + 400 * DAY_US),
        claim(opening(2), opening(1), by="pay_2"),
    ):
        with pytest.raises(AccountNotOpenable, match="before"):
            await store.write(late)
    assert await openable(store, opening(1), opening(2)) == {place(2)}
    assert await openable(store, opening(1, chain="solana:ONE")) == {place(1, "solana:ONE")}


async def test_released_token_account_may_be_opened_again(store):
    await store.write(claim(opening(1), opening(2)))
    await store.write(claim(opening(3, "mrch_2"), by="hash"))
    assert await openable(store, opening(4)) == set()
    await store.write(token_accounts.release(["pay_1", "pay_9"]))
    assert await openable(store, opening(1), opening(3)) == {place(1)}
    await store.write(claim(opening(1), by="pay_2"))
    await store.write(token_accounts.release([]))
    assert await openable(store, opening(1)) == set()


async def test_a_merchant_and_a_chain_have_a_day_s_worth(store):
    await store.write(claim(opening(1)))
    await store.write(claim(opening(2)))
    assert await openable(store, opening(3), opening(3, "mrch_2")) == {place(3)}
    with pytest.raises(AccountNotOpenable, match="today"):
        await store.write(claim(opening(3)))
    await store.write(claim(opening(3, "mrch_2"), opening(4, "mrch_2")))
    assert await openable(store, opening(5, "mrch_3")) == set()
    with pytest.raises(AccountNotOpenable, match="today"):
        await store.write(claim(opening(5, "mrch_3")))
    # another chain, and another day
    assert await openable(store, opening(5, chain="solana:two"))
    tomorrow = NOW_US + DAY_US
    assert await openable(store, opening(5), at_us=tomorrow) == {place(5)}
    await store.write(claim(opening(5), at_us=tomorrow))


async def test_merchants_of_a_partner_share_its_daily_opening_cap(store):
    for number in range(3):
        await store.write(merchants.create(merchant(f"mrch_{number}", "prtn_one")))
    await store.write(merchants.create(merchant("mrch_other", "prtn_two")))
    await store.write(claim(opening(1, "mrch_0"), opening(2, "mrch_0")))
    await store.write(claim(opening(3, "mrch_1")))
    # neither merchant has reached its own cap
    for merchant_id in ("mrch_1", "mrch_2"):
        assert await openable(store, opening(4, merchant_id)) == set()
        with pytest.raises(AccountNotOpenable, match="today"):
            await store.write(claim(opening(4, merchant_id)))
    await store.write(token_accounts.enqueue(opening(4, "mrch_2"), NOW_US))
    assert await queue(store) == []
    assert await queue(store, at_us=NOW_US + DAY_US) == [opening(4, "mrch_2")]
    await store.write(claim(opening(4, "mrch_other")))


async def test_our_own_places_count_and_are_never_refused_for_a_cap(store):
    for number in range(4):
        await store.write(claim(opening(number, None), by=f"pay_{number}"))
    assert await openable(store, opening(9)) == set()
    assert await openable(store, opening(9, None), opening(1, None)) == {place(9)}
    # several payments can claim our own accounts at a time
    await store.write(claim(opening(1, None), by="pay_9"))
    await store.write(token_accounts.enqueue(opening(9, None), NOW_US))
    assert await queue(store) == [opening(9, None)]


async def test_opening_queue_skips_merchants_at_their_daily_cap(store):
    await store.write(claim(opening(1), opening(2)))
    await store.write(token_accounts.enqueue(opening(3), NOW_US))
    await store.write(token_accounts.enqueue(opening(4, "mrch_2"), NOW_US + 1))
    assert await queue(store) == [opening(4, "mrch_2")]
    assert await queue(store, at_us=NOW_US + DAY_US) == [opening(3), opening(4, "mrch_2")]


async def test_opening_queue_is_bounded_per_merchant(store, monkeypatch):
    for number in range(2 * token_accounts.MERCHANT_QUEUE_MAX):
        await store.write(token_accounts.enqueue(opening(number), NOW_US))
    await store.write(token_accounts.enqueue(opening(99, "mrch_2"), NOW_US))
    wide = DailyOpeningCaps(1000, 1000, 1000)
    queued = await store.read(token_accounts.list_pending(ONE, wide, 1000, NOW_US))
    assert len(queued) == token_accounts.MERCHANT_QUEUE_MAX + 1
    monkeypatch.setattr(token_accounts, "QUEUE_MAX", len(queued))
    await store.write(token_accounts.enqueue(opening(100, "mrch_3"), NOW_US))
    assert await store.read(token_accounts.list_pending(ONE, wide, 1000, NOW_US)) == queued


async def test_failed_payment_releases_its_claimed_accounts(store):
    failed, paid = await create_processing_payment(store), await create_processing_payment(store)
    await store.write(claim(opening(1), by=failed.id))
    await store.write(claim(opening(2), by=paid.id))
    dead = PaymentOutcome(failed.id, PaymentStatus.FAILED, failure_detail="lapsed")
    await store.write(payment_outcomes.finalize([dead, make_success(paid)], [], NOW_US))
    assert await openable(store, opening(1), opening(2)) == {place(1)}


async def test_openings_of_an_older_release_are_migrated(tmp_path):
    path = tmp_path / "florin.db"
    schema.prepare(path)
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        command.downgrade(config(connection), "v0006")
    rows = {
        f"account {place(1).asset} {place(1).account}": "20000",
        f"to open {ONE} {place(2).asset} {place(2).account}": "",
        f"opened {ONE}": "20000 1",
        "followed:eip155:1": "7 8",
    }
    with sqlite3.connect(path) as raw:
        raw.executemany("INSERT INTO installation VALUES (?, ?)", rows.items())
    raw.close()
    async with open_engine_store("sqlite", tmp_path) as store:
        at_us = 20_000 * DAY_US
        asset_accounts = await openable(store, opening(1), opening(2), opening(3), at_us=at_us)
        assert asset_accounts == {place(2), place(3)}
        assert await queue(store, at_us=at_us) == [opening(2, None)]
    with sqlite3.connect(path) as raw:
        names = raw.execute("SELECT name FROM installation ORDER BY name").fetchall()
        # the second row is for the end of the upgrade
        assert names == [("followed:eip155:1",), ("older_releases",)]
    raw.close()
    with engine.begin() as connection:
        command.downgrade(config(connection), "v0006")
    engine.dispose()
    with sqlite3.connect(path) as raw:
        stored = dict(raw.execute("SELECT name, value FROM installation").fetchall())
    raw.close()
    rows.pop(f"opened {ONE}")
    assert stored == rows
