"""Test durable nonces: one option at a time, and free again only with a new value."""

from __future__ import annotations

import pytest
from florin_server.domain.payments.payment import FreeNonce, PaymentStatus
from florin_server.money.payments.store import payments
from florin_server.money.settlement.store import durable_nonces
from florin_server.money.settlement.store.durable_nonces import NonceConflict, NonceRequest

from tests.support.store_factories import (
    CHAIN,
    EXPIRES,
    create_payment,
    make_option,
    make_resolved_build,
)

UNTIL_US = EXPIRES * 1_000_000
FIRST, SECOND = "nonce-1", "nonce-2"


async def seen(store, address: str, before: str, now: str, slot: int) -> None:
    await store.write(durable_nonces.record_advance(CHAIN, address, before, now, slot))


async def free(store, *addresses: str) -> FreeNonce | None:
    return await store.read(durable_nonces.find_free(CHAIN, addresses or (FIRST, SECOND)))


async def test_nonce_account_is_free_once_seen_on_chain(store):
    await store.write(durable_nonces.register(CHAIN, [FIRST, SECOND]))
    assert await free(store) is None
    await seen(store, SECOND, "", "b", 7)
    assert await free(store) == FreeNonce(SECOND, "b", 7)
    assert await free(store, FIRST) is None
    # registering a nonce again changes nothing
    await store.write(durable_nonces.register(CHAIN, [FIRST, SECOND]))
    assert await free(store) == FreeNonce(SECOND, "b", 7)
    assert await store.read(durable_nonces.find_free("solana:other", [SECOND])) is None


async def test_conflicting_nonce_assignment_raises_nonce_conflict(store):
    await store.write(durable_nonces.register(CHAIN, [FIRST]))
    await seen(store, FIRST, "", "a", 1)
    spare = FreeNonce(FIRST, "a", 1)
    payment, other = await create_payment(store), await create_payment(store)
    mine = make_resolved_build(payment, terms={"nonce": FIRST})
    assert await store.write(durable_nonces.assign(mine, CHAIN, spare, UNTIL_US)) == [mine]
    with pytest.raises(NonceConflict):
        await store.write(durable_nonces.assign(make_resolved_build(other), CHAIN, spare, UNTIL_US))
    assert await store.read(payments.list_resolved_builds(other.id, "opt_1")) == []
    assert await free(store) is None
    (held,) = await store.read(durable_nonces.list_accounts(CHAIN))
    assert held == durable_nonces.NonceHolding(
        FIRST, "a", 1, UNTIL_US, PaymentStatus.REQUIRES_ACTION
    )


async def test_an_option_that_was_resolved_meanwhile_takes_no_nonce(store):
    await store.write(durable_nonces.register(CHAIN, [FIRST]))
    await seen(store, FIRST, "", "a", 1)
    of = await create_payment(store)
    first = make_resolved_build(of)
    await store.write(payments.put_resolved_build(first))
    late = make_resolved_build(of, terms={"nonce": FIRST})
    with pytest.raises(NonceConflict):
        await store.write(durable_nonces.assign(late, CHAIN, FreeNonce(FIRST, "a", 1), UNTIL_US))
    assert await free(store) == FreeNonce(FIRST, "a", 1)
    assert await store.read(payments.list_resolved_builds(of.id, "opt_1")) == [first]


async def test_only_a_newer_value_frees_a_nonce(store):
    await store.write(durable_nonces.register(CHAIN, [FIRST]))
    await seen(store, FIRST, "", "a", 5)
    of = await create_payment(store)
    mine = make_resolved_build(of, terms={"nonce": FIRST})
    await store.write(durable_nonces.assign(mine, CHAIN, FreeNonce(FIRST, "a", 5), UNTIL_US))
    await seen(store, FIRST, "a", "older", 4)
    await seen(store, FIRST, "other", "b", 9)
    assert await free(store) is None
    await seen(store, FIRST, "a", "b", 9)
    assert await free(store) == FreeNonce(FIRST, "b", 9)
    # a freed nonce is not assigned with its old value
    other = await create_payment(store)
    with pytest.raises(NonceConflict):
        await store.write(
            durable_nonces.assign(
                make_resolved_build(other), CHAIN, FreeNonce(FIRST, "a", 5), UNTIL_US
            )
        )


async def test_share_of_a_payer_a_payment_and_a_partner_is_bounded(store):
    pool = [f"nonce-{number}" for number in range(4)]
    await store.write(durable_nonces.register(CHAIN, pool))
    for address in pool:
        await seen(store, address, "", f"value of {address}", 1)

    def request(of, partner="", payer="payer", option_id="opt_1") -> NonceRequest:
        return NonceRequest(of.id, option_id, payer, partner or of.partner_id)

    async def take(of, number) -> None:
        spare = FreeNonce(pool[number], f"value of {pool[number]}", 1)
        new = make_resolved_build(of, terms={"nonce": spare.address})
        share = (len(pool), request(of, payer=f"payer {number}"))
        await store.write(durable_nonces.assign(new, CHAIN, spare, UNTIL_US, share))

    async def may_take(nonce_request: NonceRequest) -> bool:
        return await store.read(durable_nonces.find_free(CHAIN, pool, nonce_request)) is not None

    first, second, third = [await create_payment(store) for _ in range(3)]
    await take(first, 0)
    assert await may_take(request(first))
    assert not await may_take(request(first, option_id="opt_2"))
    payer = make_option(first).payer
    assert not await may_take(request(second, payer=payer))
    assert await may_take(request(second))
    await take(second, 1)
    # the partner has two of four; the rest are for other partners
    assert not await may_take(request(third))
    assert await may_take(request(third, partner="par_other"))
    with pytest.raises(NonceConflict):
        await take(third, 2)
    assert await store.read(payments.list_resolved_builds(third.id, "opt_1")) == []
    await seen(store, pool[0], f"value of {pool[0]}", "newer", 9)
    assert await may_take(request(third))


async def test_release_frees_only_the_nonce_of_its_option(store):
    await store.write(durable_nonces.register(CHAIN, [FIRST, SECOND]))
    of, other = await create_payment(store), await create_payment(store)
    for address, payment in ((FIRST, of), (SECOND, other)):
        await seen(store, address, "", f"value of {address}", 1)
        mine, spare = (
            make_resolved_build(payment, terms={"nonce": address}),
            FreeNonce(address, f"value of {address}", 1),
        )
        await store.write(durable_nonces.assign(mine, CHAIN, spare, UNTIL_US))

    async def check_nonces() -> list[bool]:
        option_keys = [(each_payment.id, "opt_1") for each_payment in (of, other)] + [
            (of.id, "opt_2")
        ]
        return [
            await store.read(durable_nonces.has_nonce(CHAIN, *option_key))
            for option_key in option_keys
        ]

    assert await check_nonces() == [True, True, False]
    await store.write(durable_nonces.release(CHAIN, of.id, "opt_1"))
    assert await check_nonces() == [False, True, False]
    # no other option gets it before the chain shows a new value
    assert await free(store) is None
    held = {item.address: item for item in await store.read(durable_nonces.list_accounts(CHAIN))}
    assert (held[FIRST].held_until_us, held[SECOND].held_until_us) == (0, UNTIL_US)
