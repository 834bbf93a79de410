"""Where payments are paid is written with their end; keys of receipts come one after the other."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from florin_server.domain.payments.payment import Status
from florin_server.domain.receipts.effect import PaymentEffect
from florin_server.domain.receipts.keys import ReceiptKey
from florin_server.domain.sealed import Sealed
from florin_server.domain.settlement.chain_txs import Watched, Watcher
from florin_server.store.receipts import effects, receipt_keys
from florin_server.store.settlement import chain_txs, reorg

from tests.support.store_kit import CHAIN, LATER_US, NOW_US, accepted, created, success

BLOCK = Watched("0xpaid", 7, "0xblock")


def paid(of, at=BLOCK, position=3):
    return replace(success(of), at=at, position=position)


def key(n: int, name: str) -> ReceiptKey:
    return ReceiptKey(n, name, b"public", Sealed("id", b"nonce", b"secret"), NOW_US)


async def test_it_is_written_with_the_end_and_taken_back_by_a_reorganisation(store):
    one, other = await accepted(store), await accepted(store)
    watch = reorg.watch(CHAIN, Watcher.SETTLER, [BLOCK])
    work = chain_txs.conclude([paid(one), paid(other, position=None)], [], LATER_US, watch)
    assert len(await store.write(work)) == 2
    effect = await store.read(effects.get(one.id))
    assert effect == PaymentEffect(one.id, "0xpaid", 7, "0xblock", 3)
    assert (await store.read(effects.get(other.id))).position is None

    ended = await store.survey(reorg.ended_by(CHAIN, ["0xpaid"], []))
    await store.write(reorg.undo_settled(CHAIN, ["0xpaid"], ended, LATER_US))
    assert await store.read(effects.get(one.id)) is None

    # it is paid again, elsewhere, and stays as it ended
    again = Watched("0xagain", 9, "0xother")
    await store.write(chain_txs.conclude([paid(one, again, 0)], [], LATER_US))
    effect = await store.read(effects.get(one.id))
    assert effect == PaymentEffect(one.id, "0xagain", 9, "0xother", 0)


async def test_what_had_ended_otherwise_is_paid_nowhere(store):
    made = await created(store)
    assert await store.write(chain_txs.conclude([paid(made)], [], LATER_US)) == []
    assert await store.read(effects.get(made.id)) is None
    done = await accepted(store)
    await store.write(chain_txs.conclude([paid(done)], [], LATER_US))
    # the same proof once more, and another one that comes too late
    late = Watched("0xlate", 8, "0xlater")
    await store.write(chain_txs.conclude([paid(done), paid(done, late)], [], LATER_US))
    assert (await store.read(effects.get(done.id))).tx_hash == "0xpaid"
    failed = await accepted(store)
    lapsed = replace(success(failed), status=Status.FAILED, tx_id=None)
    await store.write(chain_txs.conclude([lapsed], [], LATER_US))
    assert await store.read(effects.get(failed.id)) is None


async def test_of_two_keys_of_one_number_the_first_stays(store):
    made = await asyncio.gather(*(store.write(receipt_keys.put(key(0, name))) for name in "abcd"))
    kept = await store.read(receipt_keys.all_())
    assert len(kept) == 1
    # whoever came later is told the one that stays
    assert all(one == kept for one in made)
    now = await store.write(receipt_keys.put(key(1, "next")))
    assert [one.n for one in now] == [0, 1]
    assert now == await store.read(receipt_keys.all_())


async def test_a_key_is_revoked_once(store):
    await store.write(receipt_keys.put(key(0, "a")))
    (first,) = await store.write(receipt_keys.revoke("a", NOW_US))
    (second,) = await store.write(receipt_keys.revoke("a", LATER_US))
    assert first.revoked_at_us == second.revoked_at_us == NOW_US
