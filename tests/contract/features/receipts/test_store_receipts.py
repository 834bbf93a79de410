"""Test that a payment's end stores where it was paid, and that receipt keys follow each other."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from florin_server.domain.cipher import Ciphertext
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.domain.receipts.effect import PaymentEffect
from florin_server.domain.receipts.keys import ReceiptKey
from florin_server.domain.settlement.chain_txs import ReorgWatcher, WatchedTransaction
from florin_server.features.receipts import store as receipt_keys
from florin_server.money.payments.store import effects
from florin_server.money.settlement.store import payment_outcomes, reorg

from tests.support.store_factories import (
    CHAIN,
    LATER_US,
    NOW_US,
    create_payment,
    create_processing_payment,
    make_success,
)

BLOCK = WatchedTransaction("0xpaid", 7, "0xblock")


def paid(of, at=BLOCK, position=3):
    return replace(make_success(of), watched_transaction=at, position=position)


def key(n: int, name: str) -> ReceiptKey:
    return ReceiptKey(n, name, b"public", Ciphertext("id", b"nonce", b"secret"), NOW_US)


async def test_it_is_written_with_the_end_and_taken_back_by_a_reorganisation(store):
    payment, other = await create_processing_payment(store), await create_processing_payment(store)
    watch = reorg.watch(CHAIN, ReorgWatcher.SETTLER, [BLOCK])
    work = payment_outcomes.finalize(
        [paid(payment), paid(other, position=None)], [], LATER_US, watch
    )
    assert len(await store.write(work)) == 2
    effect = await store.read(effects.find(payment.id))
    assert effect == PaymentEffect(payment.id, "0xpaid", 7, "0xblock", 3)
    assert (await store.read(effects.find(other.id))).position is None

    ended = await store.scan(reorg.find_affected(CHAIN, ["0xpaid"], []))
    await store.write(reorg.undo_settlements(CHAIN, ["0xpaid"], ended, LATER_US))
    assert await store.read(effects.find(payment.id)) is None

    # it is paid again, in another block, and its end stays unchanged
    again = WatchedTransaction("0xagain", 9, "0xother")
    await store.write(payment_outcomes.finalize([paid(payment, again, 0)], [], LATER_US))
    effect = await store.read(effects.find(payment.id))
    assert effect == PaymentEffect(payment.id, "0xagain", 9, "0xother", 0)


async def test_payment_that_ended_differently_has_no_effect_recorded(store):
    payment = await create_payment(store)
    assert await store.write(payment_outcomes.finalize([paid(payment)], [], LATER_US)) == []
    assert await store.read(effects.find(payment.id)) is None
    done = await create_processing_payment(store)
    await store.write(payment_outcomes.finalize([paid(done)], [], LATER_US))
    # the same proof again, and another one that comes too late
    late = WatchedTransaction("0xlate", 8, "0xlater")
    await store.write(payment_outcomes.finalize([paid(done), paid(done, late)], [], LATER_US))
    assert (await store.read(effects.find(done.id))).tx_hash == "0xpaid"
    failed = await create_processing_payment(store)
    lapsed = replace(make_success(failed), status=PaymentStatus.FAILED, tx_hash=None)
    await store.write(payment_outcomes.finalize([lapsed], [], LATER_US))
    assert await store.read(effects.find(failed.id)) is None


async def test_first_of_several_receipt_keys_with_the_same_number_stays(store):
    created = await asyncio.gather(
        *(store.write(receipt_keys.put(key(0, name))) for name in "abcd")
    )
    stored = await store.read(receipt_keys.list_keys())
    assert len(stored) == 1
    # the late process gets the stored key
    assert all(item == stored for item in created)
    now = await store.write(receipt_keys.put(key(1, "next")))
    assert [item.n for item in now] == [0, 1]
    assert now == await store.read(receipt_keys.list_keys())


async def test_a_key_is_revoked_once(store):
    await store.write(receipt_keys.put(key(0, "a")))
    (first,) = await store.write(receipt_keys.revoke("a", NOW_US))
    (second,) = await store.write(receipt_keys.revoke("a", LATER_US))
    assert first.revoked_at_us == second.revoked_at_us == NOW_US
