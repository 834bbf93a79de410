"""Test stored transfers of x402: one for each signature, one bound to a payment, and budgets."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from florin_server.db.engine.query import Command, Op, operation, param
from florin_server.db.tables.tables import payment_table
from florin_server.domain.x402.messages import InvalidReason
from florin_server.domain.x402.settlement import FacilitationState
from florin_server.money.payments.store import watched_addresses
from florin_server.money.settlement.store.chain_txs import ItemsUnavailable
from florin_server.money.x402 import store as facilitations
from florin_server.money.x402.store import (
    HOUR_US,
    FacilitationBudget,
    FacilitationBudgetExhausted,
    PaymentBound,
)
from florin_server.rails.facilitation import FacilitatedTransfer
from sqlalchemy import update

from tests.support.store_factories import create_payment

CHAIN = "eip155:1"
NOW_US = 1_800_000_000_000_000 - 1_800_000_000_000_000 % HOUR_US
LIMITS = {
    FacilitationBudget.CHAIN: 1_000,
    FacilitationBudget.KEY: 500,
    FacilitationBudget.PAYER: 250,
}


def make_transfer(number: int = 1, payer: str = "payer", gas: int = 100) -> FacilitatedTransfer:
    return FacilitatedTransfer(
        key=f"key-{number}",
        chain_id=CHAIN,
        asset=f"{CHAIN}/erc20:0x1",
        payer=f"{CHAIN}:{payer}",
        pay_to=f"{CHAIN}:shop",
        value=2**200,
        content={"call": "0x12"},
        gas=gas,
        expires_at=1_900_000_000,
        head=7,
    )


async def add(store, transfer, key="a", *, now_us=NOW_US, payment_id=None):
    work = facilitations.add_facilitation(transfer, key, LIMITS, now_us, payment_id=payment_id)
    return await store.write(work)


async def used(store, key="a", payer="payer", now_us=NOW_US):
    account = f"{CHAIN}:{payer}"
    gas = await store.read(facilitations.get_used_gas(CHAIN, key, account, now_us))
    return tuple(gas[budget] for budget in FacilitationBudget)


async def end(store, facilitation, *, paid_by=None, reason=None, gas_used=0):
    return await store.write(
        facilitations.end_facilitation(
            facilitation, NOW_US + 5, paid_by=paid_by, reason=reason, gas_used=gas_used
        )
    )


_SET_TRANSACTION = Command(
    update(payment_table)
    .where(payment_table.c.id == param("payment"))
    .values(tx_id=param("tx_hash"))
)


@operation
def set_transaction(payment_id: str, tx_hash: str) -> Op[None]:
    """Let a payment be paid by a transaction."""
    yield _SET_TRANSACTION(payment=payment_id, tx_hash=tx_hash)


async def test_transfer_is_stored_as_it_is_and_once(store):
    transfer = make_transfer()
    first = await add(store, transfer)
    assert first.transfer == transfer
    assert (first.state, first.tx_hash, first.reason) == (FacilitationState.WAITING, None, None)
    again = await add(store, replace(transfer, gas=7), "b")
    assert again == first
    assert await used(store) == (100, 100, 100)
    assert await used(store, "b", "other") == (100, 0, 0)
    assert await store.read(facilitations.list_open(CHAIN, 10)) == [first]


async def test_simultaneous_calls_take_the_gas_of_one(store):
    results = await asyncio.gather(*(add(store, make_transfer()) for _ in range(8)))
    assert len(set(map(repr, results))) == 1
    assert await used(store) == (100, 100, 100)


async def test_transfer_is_claimed_once_and_found_by_its_transaction(store):
    stored = await add(store, make_transfer())
    await store.write(facilitations.claim(stored.key, "0xaa"))
    with pytest.raises(ItemsUnavailable):
        await store.write(facilitations.claim(stored.key, "0xbb"))
    sent = await store.read(facilitations.find_by_transaction(CHAIN, "0xaa"))
    assert sent == stored._replace(state=FacilitationState.SENT, tx_hash="0xaa")
    await store.write(facilitations.release(stored.key))
    assert await store.read(facilitations.find_facilitation(stored.key)) == stored


async def test_ended_transfer_returns_the_gas_that_it_did_not_use(store):
    stored = await add(store, make_transfer())
    await store.write(facilitations.claim(stored.key, "0xaa"))
    sent = await store.read(facilitations.find_facilitation(stored.key))
    assert not await end(store, stored, paid_by="0xaa", gas_used=60)
    assert await end(store, sent, paid_by="0xbb", gas_used=60)
    assert not await end(store, sent, paid_by="0xcc", gas_used=60)
    ended = await store.read(facilitations.find_facilitation(stored.key))
    assert (ended.state, ended.tx_hash) == (FacilitationState.SUCCEEDED, "0xbb")
    assert await used(store) == (60, 60, 60)
    assert await store.read(facilitations.list_open(CHAIN, 10)) == []


async def test_exhausted_budget_stores_nothing(store):
    await add(store, make_transfer(1))
    await add(store, make_transfer(2))
    with pytest.raises(FacilitationBudgetExhausted) as refused:
        await add(store, make_transfer(3))
    assert refused.value.budget is FacilitationBudget.PAYER
    assert await store.read(facilitations.find_facilitation("key-3")) is None
    for number in range(4, 7):
        await add(store, make_transfer(number, f"payer{number}"))
    with pytest.raises(FacilitationBudgetExhausted) as refused:
        await add(store, make_transfer(7, "new"))
    assert refused.value.budget is FacilitationBudget.KEY
    for number in range(8, 13):
        await add(store, make_transfer(number, f"payer{number}"), "b")
    with pytest.raises(FacilitationBudgetExhausted) as refused:
        await add(store, make_transfer(13, "new"), "c")
    assert refused.value.budget is FacilitationBudget.CHAIN
    assert await used(store, "c", "new") == (1_000, 0, 0)
    # another hour has budgets of its own
    assert await add(store, make_transfer(13, "new"), "c", now_us=NOW_US + HOUR_US)


async def test_settled_transfer_is_listed_until_it_is_what_paid_a_watched_payment(store):
    for number, watched_chain in ((1, CHAIN), (2, "eip155:2"), (3, CHAIN)):
        payment_id = (await create_payment(store)).id
        await store.write(
            watched_addresses.watch(watched_chain, payment_id, "address", 2_000_000_000, NOW_US)
        )
        await add(store, make_transfer(number, f"payer{number}"), "", payment_id=payment_id)
    assert await store.read(facilitations.list_settled(CHAIN)) == []
    for number in (1, 2):
        await store.write(facilitations.claim(f"key-{number}", f"0xa{number}"))
        sent = await store.read(facilitations.find_facilitation(f"key-{number}"))
        assert await end(store, sent, paid_by=sent.tx_hash, gas_used=60)
    (settled,) = await store.read(facilitations.list_settled(CHAIN))
    assert settled.tx_hash == "0xa1"
    assert await store.read(facilitations.list_settled("eip155:2")) == []
    await store.write(set_transaction(settled.payment_id, "0xbb"))
    assert await store.read(facilitations.list_settled(CHAIN)) == [settled]
    await store.write(set_transaction(settled.payment_id, "0xa1"))
    assert await store.read(facilitations.list_settled(CHAIN)) == []


async def test_address_is_watched_until_an_hour_after_its_payments_transfer_has_ended(store):
    now_s = NOW_US // 1_000_000

    async def is_watched(at_s: int) -> bool:
        await store.write(watched_addresses.forget_ended(CHAIN, at_s))
        return bool(await store.read(watched_addresses.list_watched(CHAIN, 0, 10)))

    async def watch(until_s: int) -> None:
        work = watched_addresses.watch(CHAIN, payment_id, "address", until_s, NOW_US)
        await store.write(work)

    payment_id = (await create_payment(store)).id
    await watch(now_s - 7_200)
    assert not await is_watched(now_s)
    stored = await add(store, make_transfer(), "", payment_id=payment_id)
    await watch(now_s - 7_200)
    assert await is_watched(now_s)
    assert await end(store, stored, paid_by="0xaa", gas_used=60)
    assert await is_watched(now_s + 3_600)
    assert not await is_watched(now_s + 3_601)
    failed = await add(store, make_transfer(2), "", payment_id=(await create_payment(store)).id)
    await watch(now_s - 7_200)
    assert await end(store, failed, reason=InvalidReason.TRANSACTION_FAILED)
    assert not await is_watched(now_s + 3_601)


async def test_payment_has_one_transfer_until_it_fails(store):
    first = await add(store, make_transfer(1), "", payment_id="pay_1")
    assert await store.read(facilitations.find_bound("pay_1")) == first
    with pytest.raises(PaymentBound):
        await add(store, make_transfer(2), "", payment_id="pay_1")
    assert await add(store, make_transfer(1), "", payment_id="pay_1") == first
    assert await add(store, make_transfer(3), "", payment_id="pay_2")
    await store.write(facilitations.claim(first.key, "0xaa"))
    sent = await store.read(facilitations.find_facilitation(first.key))
    assert await end(store, sent, reason=InvalidReason.TRANSACTION_FAILED, gas_used=60)
    assert await store.read(facilitations.find_bound("pay_1")) is None
    assert await store.read(facilitations.count_failed("pay_1")) == 1
    second = await add(store, make_transfer(2, gas=10), "", payment_id="pay_1")
    assert await store.read(facilitations.find_bound("pay_1")) == second
    failed = await store.read(facilitations.find_facilitation(first.key))
    assert failed.reason is InvalidReason.TRANSACTION_FAILED
    # payments use no budget of keys
    assert await used(store) == (0, 0, 0)
