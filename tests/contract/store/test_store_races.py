"""Of many who want one payment exactly one gets it, and an idempotency key is used once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random

import pytest
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments.payment import CancelledReason, Payment
from florin_server.store.payments import idempotency, payments
from florin_server.store.payments.idempotency import Replay

from tests.support.store_kit import (
    AFTER_US,
    LATER_US,
    NOW_US,
    claim,
    confirmation,
    create_once,
    created,
    option,
    payment,
)


async def test_of_many_who_end_a_payment_exactly_one_wins(store):
    for _ in range(5):
        of = await created(store)
        contents = [confirmation(of, digest=bytes([n]) * 32) for n in range(20)]
        ops = [
            *(payments.accept(c, option(of), 1, (None, None), LATER_US) for c in contents[:10]),
            *(payments.cancel(of.id, CancelledReason.BY_USER, LATER_US) for _ in range(10)),
            *(payments.refuse(c, "no", None, LATER_US) for c in contents[10:]),
            *(payments.expire_due(AFTER_US, 10) for _ in range(10)),
        ]
        Random(of.id).shuffle(ops)
        outcomes = await asyncio.gather(*map(store.write, ops))
        winners = [found for found in outcomes if found]
        assert len(winners) == 1
        won = winners[0][0] if isinstance(winners[0], list) else winners[0]
        assert won.version == 1
        assert await store.reader.payment(of.id) == won
        assert [one.status for one in await store.read(payments.events(of.id))][1:] == [won.status]


async def test_a_bound_content_is_the_winners(store):
    of = await created(store)
    contents = [confirmation(of, digest=bytes([n]) * 32) for n in range(10)]
    outcomes = await asyncio.gather(
        *(store.write(payments.accept(c, option(of), 1, (None, None), LATER_US)) for c in contents)
    )
    (winner,) = [c for c, won in zip(contents, outcomes, strict=True) if won]
    assert await store.read(payments.confirmation(of.id)) == winner


async def test_the_same_request_again_gets_the_first_answer(store):
    first, second = payment(), payment()
    assert await store.write(create_once(first, claim())) == first
    again = await store.write(create_once(second, claim(), b"another"))
    assert again == Replay(b'{"paymentId":"x"}')
    assert await store.reader.payment(second.id) is None


async def test_another_request_with_a_used_key_is_a_conflict(store):
    await store.write(create_once(payment(), claim()))
    other = payment()
    with pytest.raises(FlorinError) as refused:
        await store.write(create_once(other, claim(fingerprint=b"\x03" * 32)))
    assert refused.value.code is Code.IDEMPOTENCY_CONFLICT
    assert refused.value.details == {"reason": "different_body"}
    assert await store.reader.payment(other.id) is None


async def test_keys_of_different_scopes_do_not_meet(store):
    for scope in ("par_1/mer_1/test", "par_1/mer_1/live", "par_2/mer_1/test"):
        made = payment()
        assert await store.write(create_once(made, claim(scope=scope))) == made


async def test_requests_that_race_for_a_key_make_one_payment(store):
    made = [payment() for _ in range(64)]
    outcomes = await asyncio.gather(
        *(store.write(create_once(one, claim(), one.id.encode())) for one in made)
    )
    (stored,) = [found for found in outcomes if isinstance(found, Payment)]
    replays = [found for found in outcomes if isinstance(found, Replay)]
    assert len(replays) == 63
    assert {found.body for found in replays} == {stored.id.encode()}
    assert len(await store.read(payments.get([one.id for one in made]))) == 1


async def test_a_request_that_failed_leaves_its_key_unused(store):
    taken = await created(store)
    with pytest.raises(Exception, match="(?i)unique"):
        await store.write(create_once(taken, claim()))
    made = payment()
    assert await store.write(create_once(made, claim())) == made


async def test_a_key_is_free_again_when_its_time_is_over(store):
    short = claim(ttl_us=1_000_000)
    await store.write(create_once(payment(), short))
    late = replace(short, now_us=NOW_US + 1_000_000, fingerprint=b"\x04" * 32)
    made = payment()
    assert await store.write(create_once(made, late)) == made
    early = replace(late, now_us=late.now_us + 999_999)
    assert isinstance(await store.write(create_once(payment(), early)), Replay)


async def test_lapsed_keys_are_forgotten_in_batches_and_others_stay(store):
    for n in range(5):
        await store.write(create_once(payment(), claim(f"short-{n}", ttl_us=1_000_000)))
    await store.write(create_once(payment(), claim("for ever", ttl_us=None)))
    late_us = NOW_US + 1_000_000
    assert await store.write(idempotency.forget_lapsed(late_us - 1, 10)) == 0
    assert await store.write(idempotency.forget_lapsed(late_us, 3)) == 3
    assert await store.write(idempotency.forget_lapsed(late_us, 3)) == 2
    assert await store.write(idempotency.forget_lapsed(late_us, 3)) == 0
    kept = await store.write(create_once(payment(), claim("for ever")))
    assert isinstance(kept, Replay)
