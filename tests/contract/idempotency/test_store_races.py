"""Test that one of many racing callers gets a payment, and an idempotency key is used once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random

import pytest
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import CancellationReason, Payment
from florin_server.idempotency.store import responses as idempotency
from florin_server.idempotency.store.responses import StoredResponse
from florin_server.money.payments.store import payments

from tests.support.store_factories import (
    AFTER_US,
    LATER_US,
    NOW_US,
    create_once,
    create_payment,
    make_claim,
    make_confirmation,
    make_option,
    make_payment,
)


async def test_concurrent_changes_of_a_payment_have_a_single_winner(store):
    for _ in range(5):
        of = await create_payment(store)
        contents = [make_confirmation(of, digest=bytes([n]) * 32) for n in range(20)]
        ops = [
            *(
                payments.accept(c, make_option(of), 1, (None, None), LATER_US)
                for c in contents[:10]
            ),
            *(payments.cancel(of.id, CancellationReason.BY_USER, LATER_US) for _ in range(10)),
            *(payments.refuse(c, "no", None, LATER_US) for c in contents[10:]),
            *(payments.expire_due(AFTER_US, 10) for _ in range(10)),
        ]
        Random(of.id).shuffle(ops)
        outcomes = await asyncio.gather(*map(store.write, ops))
        winners = [outcome for outcome in outcomes if outcome]
        assert len(winners) == 1
        won = winners[0][0] if isinstance(winners[0], list) else winners[0]
        assert won.version == 1
        assert await store.payments.find(of.id) == won
        assert [item.status for item in await store.read(payments.list_events(of.id))][1:] == [
            won.status
        ]


async def test_a_bound_content_is_the_winners(store):
    of = await create_payment(store)
    contents = [make_confirmation(of, digest=bytes([n]) * 32) for n in range(10)]
    outcomes = await asyncio.gather(
        *(
            store.write(payments.accept(c, make_option(of), 1, (None, None), LATER_US))
            for c in contents
        )
    )
    (winner,) = [c for c, won in zip(contents, outcomes, strict=True) if won]
    assert await store.read(payments.find_confirmation(of.id)) == winner


async def test_the_same_request_again_gets_the_first_answer(store):
    first, second = make_payment(), make_payment()
    assert await store.write(create_once(first, make_claim())) == first
    again = await store.write(create_once(second, make_claim(), b"another"))
    assert again == StoredResponse(b'{"paymentId":"x"}')
    assert await store.payments.find(second.id) is None


async def test_another_request_with_a_used_key_is_a_conflict(store):
    await store.write(create_once(make_payment(), make_claim()))
    other = make_payment()
    with pytest.raises(ApiError) as refused:
        await store.write(create_once(other, make_claim(fingerprint=b"\x03" * 32)))
    assert refused.value.code is ErrorCode.IDEMPOTENCY_CONFLICT
    assert refused.value.details == {"reason": "different_body"}
    assert await store.payments.find(other.id) is None


async def test_keys_of_different_scopes_do_not_meet(store):
    for scope in ("par_1/mer_1/test", "par_1/mer_1/live", "par_2/mer_1/test"):
        payment = make_payment()
        assert await store.write(create_once(payment, make_claim(scope=scope))) == payment


async def test_concurrent_requests_with_the_same_key_create_a_single_payment(store):
    created_payments = [make_payment() for _ in range(64)]
    outcomes = await asyncio.gather(
        *(
            store.write(create_once(payment, make_claim(), payment.id.encode()))
            for payment in created_payments
        )
    )
    (stored,) = [outcome for outcome in outcomes if isinstance(outcome, Payment)]
    replays = [outcome for outcome in outcomes if isinstance(outcome, StoredResponse)]
    assert len(replays) == 63
    assert {stored_response.body for stored_response in replays} == {stored.id.encode()}
    assert (
        len(await store.read(payments.find_many([payment.id for payment in created_payments]))) == 1
    )


async def test_a_request_that_failed_leaves_its_key_unused(store):
    taken = await create_payment(store)
    with pytest.raises(Exception, match="(?i)unique"):
        await store.write(create_once(taken, make_claim()))
    payment = make_payment()
    assert await store.write(create_once(payment, make_claim())) == payment


async def test_a_key_is_free_again_when_its_time_is_over(store):
    short = make_claim(ttl_us=1_000_000)
    await store.write(create_once(make_payment(), short))
    late = replace(short, now_us=NOW_US + 1_000_000, fingerprint=b"\x04" * 32)
    payment = make_payment()
    assert await store.write(create_once(payment, late)) == payment
    early = replace(late, now_us=late.now_us + 999_999)
    assert isinstance(await store.write(create_once(make_payment(), early)), StoredResponse)


async def test_expired_idempotency_keys_are_deleted_in_batches(store):
    for n in range(5):
        await store.write(create_once(make_payment(), make_claim(f"short-{n}", ttl_us=1_000_000)))
    await store.write(create_once(make_payment(), make_claim("for ever", ttl_us=None)))
    late_us = NOW_US + 1_000_000
    assert await store.write(idempotency.forget_lapsed(late_us - 1, 10)) == 0
    assert await store.write(idempotency.forget_lapsed(late_us, 3)) == 3
    assert await store.write(idempotency.forget_lapsed(late_us, 3)) == 2
    assert await store.write(idempotency.forget_lapsed(late_us, 3)) == 0
    stored = await store.write(create_once(make_payment(), make_claim("for ever")))
    assert isinstance(stored, StoredResponse)
