"""Durable nonces go to one option at a time, and are free again only with another value."""

from __future__ import annotations

import pytest
from florin_server.domain.payments.payment import FreeNonce, Status
from florin_server.store.payments import payments
from florin_server.store.settlement import durable_nonces
from florin_server.store.settlement.durable_nonces import NonceRequest, Raced

from tests.support.store_kit import CHAIN, EXPIRES, created, issued, option

UNTIL_US = EXPIRES * 1_000_000
FIRST, SECOND = "nonce-1", "nonce-2"


async def seen(store, address: str, before: str, now: str, slot: int) -> None:
    await store.write(durable_nonces.seen(CHAIN, address, before, now, slot))


async def free(store, *addresses: str) -> FreeNonce | None:
    return await store.read(durable_nonces.free(CHAIN, addresses or (FIRST, SECOND)))


async def test_an_account_is_given_out_once_it_was_seen_on_chain(store):
    await store.write(durable_nonces.expect(CHAIN, [FIRST, SECOND]))
    assert await free(store) is None
    await seen(store, SECOND, "", "b", 7)
    assert await free(store) == FreeNonce(SECOND, "b", 7)
    assert await free(store, FIRST) is None
    # what is written down again stays as it is
    await store.write(durable_nonces.expect(CHAIN, [FIRST, SECOND]))
    assert await free(store) == FreeNonce(SECOND, "b", 7)
    assert await store.read(durable_nonces.free("solana:other", [SECOND])) is None


async def test_of_two_that_take_a_nonce_one_has_it(store):
    await store.write(durable_nonces.expect(CHAIN, [FIRST]))
    await seen(store, FIRST, "", "a", 1)
    spare = FreeNonce(FIRST, "a", 1)
    one, other = await created(store), await created(store)
    mine = issued(one, terms={"nonce": FIRST})
    assert await store.write(durable_nonces.issue(mine, CHAIN, spare, UNTIL_US)) == [mine]
    with pytest.raises(Raced):
        await store.write(durable_nonces.issue(issued(other), CHAIN, spare, UNTIL_US))
    assert await store.read(payments.issued(other.id, "opt_1")) == []
    assert await free(store) is None
    (held,) = await store.read(durable_nonces.every(CHAIN))
    assert held == durable_nonces.TakenNonce(FIRST, "a", 1, UNTIL_US, Status.REQUIRES_ACTION)


async def test_an_option_that_was_resolved_meanwhile_takes_no_nonce(store):
    await store.write(durable_nonces.expect(CHAIN, [FIRST]))
    await seen(store, FIRST, "", "a", 1)
    of = await created(store)
    first = issued(of)
    await store.write(payments.put_issued(first))
    late = issued(of, terms={"nonce": FIRST})
    with pytest.raises(Raced):
        await store.write(durable_nonces.issue(late, CHAIN, FreeNonce(FIRST, "a", 1), UNTIL_US))
    assert await free(store) == FreeNonce(FIRST, "a", 1)
    assert await store.read(payments.issued(of.id, "opt_1")) == [first]


async def test_only_a_newer_value_frees_a_nonce(store):
    await store.write(durable_nonces.expect(CHAIN, [FIRST]))
    await seen(store, FIRST, "", "a", 5)
    of = await created(store)
    mine = issued(of, terms={"nonce": FIRST})
    await store.write(durable_nonces.issue(mine, CHAIN, FreeNonce(FIRST, "a", 5), UNTIL_US))
    await seen(store, FIRST, "a", "older", 4)
    await seen(store, FIRST, "other", "b", 9)
    assert await free(store) is None
    await seen(store, FIRST, "a", "b", 9)
    assert await free(store) == FreeNonce(FIRST, "b", 9)
    # what was freed is not taken with its old value
    other = await created(store)
    with pytest.raises(Raced):
        await store.write(
            durable_nonces.issue(issued(other), CHAIN, FreeNonce(FIRST, "a", 5), UNTIL_US)
        )


async def test_share_of_a_payer_a_payment_and_a_partner_is_bounded(store):
    pool = [f"nonce-{number}" for number in range(4)]
    await store.write(durable_nonces.expect(CHAIN, pool))
    for address in pool:
        await seen(store, address, "", f"value of {address}", 1)

    def request(of, partner="", payer="somebody", option_id="opt_1") -> NonceRequest:
        return NonceRequest(of.id, option_id, payer, partner or of.partner_id)

    async def take(of, number) -> None:
        spare = FreeNonce(pool[number], f"value of {pool[number]}", 1)
        new = issued(of, terms={"nonce": spare.address})
        share = (len(pool), request(of, payer=f"payer {number}"))
        await store.write(durable_nonces.issue(new, CHAIN, spare, UNTIL_US, share))

    async def may_take(wanted: NonceRequest) -> bool:
        return await store.read(durable_nonces.free(CHAIN, pool, wanted)) is not None

    first, second, third = [await created(store) for _ in range(3)]
    await take(first, 0)
    assert await may_take(request(first))
    assert not await may_take(request(first, option_id="opt_2"))
    payer = option(first).payer
    assert not await may_take(request(second, payer=payer))
    assert await may_take(request(second))
    await take(second, 1)
    # two of four are the partner's: the others are left for the others
    assert not await may_take(request(third))
    assert await may_take(request(third, partner="par_other"))
    with pytest.raises(Raced):
        await take(third, 2)
    assert await store.read(payments.issued(third.id, "opt_1")) == []
    await seen(store, pool[0], f"value of {pool[0]}", "newer", 9)
    assert await may_take(request(third))


async def test_released_nonce_is_kept_no_more_and_no_other_options(store):
    await store.write(durable_nonces.expect(CHAIN, [FIRST, SECOND]))
    of, other = await created(store), await created(store)
    for address, one in ((FIRST, of), (SECOND, other)):
        await seen(store, address, "", f"value of {address}", 1)
        mine, spare = (
            issued(one, terms={"nonce": address}),
            FreeNonce(address, f"value of {address}", 1),
        )
        await store.write(durable_nonces.issue(mine, CHAIN, spare, UNTIL_US))

    async def kept() -> list[bool]:
        ids = [(one.id, "opt_1") for one in (of, other)] + [(of.id, "opt_2")]
        return [await store.read(durable_nonces.is_kept(CHAIN, *each)) for each in ids]

    assert await kept() == [True, True, False]
    await store.write(durable_nonces.release(CHAIN, of.id, "opt_1"))
    assert await kept() == [False, True, False]
    # it is nobody else's before the chain shows another value
    assert await free(store) is None
    held = {one.address: one for one in await store.read(durable_nonces.every(CHAIN))}
    assert (held[FIRST].held_until_us, held[SECOND].held_until_us) == (0, UNTIL_US)
