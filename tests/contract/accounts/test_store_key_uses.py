"""Test the last uses of API keys: noted in memory, stored rarely, and the latest wins."""

from __future__ import annotations

from florin_server.accounts.service import key_uses as service
from florin_server.accounts.service.key_uses import WRITE_INTERVAL_US, KeyUses
from florin_server.accounts.store import key_uses, keys
from florin_server.domain.accounts.account import ApiKey
from florin_server.domain.accounts.credentials import ApiKeyKind

from tests.support.store_factories import NOW_US, execute_beside

SECOND = 1_000_000


async def put_key(store, key_id: str, partner_id: str) -> None:
    digest = key_id.encode()
    kind = ApiKeyKind.PARTNER
    await store.write(
        keys.put_key(ApiKey(key_id, kind, False, partner_id, digest, "abcd", frozenset(), None, 1))
    )


async def test_latest_use_of_all_processes_is_kept(store):
    await put_key(store, "one", "prtn_a")
    await put_key(store, "two", "prtn_b")
    await store.write(key_uses.record_uses({"one": NOW_US + 5, "two": NOW_US}))
    await store.write(key_uses.record_uses({"one": NOW_US + 3}))
    assert await store.read(key_uses.list_uses(None)) == {"one": NOW_US + 5, "two": NOW_US}
    assert await store.read(key_uses.list_uses("prtn_b")) == {"two": NOW_US}


async def test_key_in_constant_use_is_written_once_in_five_minutes(store, tmp_path, monkeypatch):
    await put_key(store, "one", "prtn_a")
    uses, writes = KeyUses(), []
    monkeypatch.setattr(
        service.key_uses,
        "record_uses",
        lambda due: writes.append(dict(due)) or key_uses_record(due),
    )
    for second in range(0, 901, 60):
        now_us = NOW_US + second * SECOND
        uses.note("one", now_us)
        await uses.flush(store, now_us)
    assert [due["one"] - NOW_US for due in writes] == [
        count * WRITE_INTERVAL_US for count in range(4)
    ]
    # a process that ends stores the rest, and one without new uses writes nothing
    uses.note("one", NOW_US + 901 * SECOND)
    await uses.flush(store, NOW_US + 902 * SECOND, is_last=True)
    await uses.flush(store, NOW_US + 9999 * SECOND)
    assert len(writes) == 5
    rows = await execute_beside(store, tmp_path, "SELECT * FROM api_key_use")
    assert [tuple(row) for row in rows] == [("one", NOW_US + 901 * SECOND)]


key_uses_record = key_uses.record_uses


async def test_uses_in_memory_are_bounded_and_merged_with_stored_ones(store, monkeypatch):
    monkeypatch.setattr(service, "KEYS_MAX", 3)
    uses = KeyUses()
    for number in range(10):
        uses.note(f"key{number}", NOW_US + number)
    assert uses.merge({"key0": NOW_US - 5, "other": 7}) == {
        "key0": NOW_US,
        "key1": NOW_US + 1,
        "key2": NOW_US + 2,
        "other": 7,
    }
    await uses.flush(store, NOW_US + 60 * SECOND)
    assert uses.merge({}) == {}
    uses.note("key9", NOW_US)
    assert uses.merge({}) == {"key9": NOW_US}
