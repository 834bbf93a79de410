"""Test how the operator lists and revokes leases."""

from __future__ import annotations

import pytest
from florin_server.domain.settlement.lease import LEASE_S, Lease, name_holder
from florin_server.money.settlement.store import chain_txs, settlement_items
from florin_server.operations.store import leases

from tests.support.store_factories import LATER_US, create_processing_payment, make_chain_tx

S = 1_000_000
TTL_US = LEASE_S * S


async def take(store, owner: str, now_us: int = LATER_US, name: str = "relayer:a") -> int | None:
    return await store.write(leases.acquire(name, owner, now_us, TTL_US, steal=False))


async def test_leases_are_listed_by_name_with_holder_and_last_renewal(store):
    await take(store, "two", name="relayer:b")
    epoch = await take(store, "one")
    renewed_us = LATER_US + 8 * S
    assert await store.write(leases.renew("relayer:a", "one", epoch, renewed_us, TTL_US))
    first, second = await store.read(leases.list_leases())
    assert first == Lease("relayer:a", "one", renewed_us + TTL_US, 1)
    assert first.renewed_at_us == renewed_us
    assert (second.name, second.holder) == ("relayer:b", "two")


async def test_revoked_lease_fences_off_its_holder_before_another_takes_it(store):
    """Two processes can never record transactions at the same time."""
    of = await create_processing_payment(store)
    epoch = await take(store, "one")
    revoked = await store.write(leases.revoke("relayer:a", "one"))
    assert revoked == Lease("relayer:a", "", 0, epoch + 1)
    assert revoked.renewed_at_us == 0
    assert not await store.write(leases.renew("relayer:a", "one", epoch, LATER_US, TTL_US))
    sent = make_chain_tx(of)
    with pytest.raises(chain_txs.LostLease):
        await store.write(
            chain_txs.append(sent, epoch, "relayer:a", settlement_items.claim([of.id]))
        )
    assert await store.read(chain_txs.list_open(sent.chain_id, sent.sender)) == []
    # at once, and the former holder waits
    taken = await take(store, "two")
    assert taken == epoch + 2
    assert await take(store, "one") is None
    await store.write(chain_txs.append(sent, taken, "relayer:a", settlement_items.claim([of.id])))


@pytest.mark.parametrize("holder", ["", "one", "unknown"])
async def test_lease_of_another_holder_is_not_revoked(store, holder):
    await take(store, "one", LATER_US - 2 * TTL_US)
    epoch = await take(store, "two")
    assert await store.write(leases.revoke("relayer:a", holder)) is None
    assert await store.write(leases.revoke("relayer:b", "two")) is None
    assert await store.write(leases.renew("relayer:a", "two", epoch, LATER_US, TTL_US))


def test_holder_is_named_after_its_machine():
    assert name_holder("host-1", b"\x01\xff") == "host-1:01ff"
    assert len(name_holder("h" * 300, bytes(8))) == 63 + 17
