"""Test blocklists: replaced as a whole, or not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.accounts.store import keys
from florin_server.compliance.screening import store as blocklists
from florin_server.db.engine.query import operation
from florin_server.domain.accounts.account import ApiKey
from florin_server.domain.accounts.credentials import ApiKeyKind
from florin_server.domain.screening.blocklist import ScreeningList

from tests.support.store_factories import LATER_US, NOW_US

FIRST = ScreeningList("sdn", "ab" * 32, NOW_US, LATER_US, 2)
OTHER = ScreeningList("own", "cd" * 32, None, LATER_US, 1)
A, B, C = (("eip155", "0x" + pair * 20) for pair in ("a1", "b2", "c3"))
S = ("solana", "9" * 44)


async def put(store, new: ScreeningList, *accounts: tuple[str, str]) -> None:
    await store.write(blocklists.replace(new, accounts))


async def test_blocklist_is_replaced_by_a_newer_list_of_its_name(store):
    assert await store.read(blocklists.list_blocklists()) == []
    assert await store.read(blocklists.find("sdn")) is None
    await put(store, FIRST, A, S)
    await put(store, OTHER, A)
    assert await store.read(blocklists.list_blocklists()) == [OTHER, FIRST]
    assert await store.read(blocklists.list_accounts()) == [A, S]
    newer = replace(FIRST, digest="ef" * 32, published_at_us=None, imported_at_us=1, count=1)
    await put(store, newer, B)
    assert await store.read(blocklists.find("sdn")) == newer
    assert await store.read(blocklists.list_blocklists()) == [OTHER, newer]
    assert await store.scan(blocklists.list_accounts()) == [A, B]


async def test_an_address_says_which_lists_it_is_on(store):
    await put(store, FIRST, A, S)
    await put(store, OTHER, A)
    assert await store.read(blocklists.list_matches(*A)) == ["own", "sdn"]
    assert await store.read(blocklists.list_matches(*S)) == ["sdn"]
    assert await store.read(blocklists.list_matches("solana", A[1])) == []
    assert await store.read(blocklists.list_matches(*C)) == []


async def test_failed_blocklist_replacement_keeps_the_previous_list(store):
    await put(store, FIRST, A, S)

    @operation
    def broken():
        yield from blocklists.replace(replace(FIRST, count=1), [B])
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        await store.write(broken())
    assert await store.read(blocklists.list_blocklists()) == [FIRST]
    assert await store.read(blocklists.list_accounts()) == [A, S]


async def test_a_list_is_removed_with_its_addresses(store):
    await put(store, FIRST, A, S)
    await put(store, OTHER, A)
    assert await store.write(blocklists.remove("sdn"))
    assert not await store.write(blocklists.remove("sdn"))
    assert await store.read(blocklists.list_blocklists()) == [OTHER]
    assert await store.read(blocklists.list_accounts()) == [A]


async def test_an_empty_list_is_a_list(store):
    await put(store, replace(FIRST, count=0))
    assert (await store.read(blocklists.find("sdn"))).count == 0


async def test_only_a_valid_live_key_counts_as_live(store):
    key = ApiKey(
        "k1", ApiKeyKind.WALLET, False, None, b"1", "last", frozenset(), None, NOW_US, None
    )
    await store.write(keys.put_key(key))
    await store.write(keys.put_key(replace(key, key_id="k2", live=True, hash=b"2")))
    assert await store.read(keys.has_live_key())
    await store.write(keys.revoke_key("k2", LATER_US))
    assert not await store.read(keys.has_live_key())
