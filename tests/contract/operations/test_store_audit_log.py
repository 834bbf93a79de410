"""Test the audit log: entries in the transaction of the change, pages, and deletion."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.db.engine.query import Op, operation
from florin_server.domain.audit import (
    CHANGES_MAX,
    VALUE_MAX,
    Actor,
    ActorKind,
    AuditAction,
    AuditChange,
    AuditChannel,
    AuditObject,
    FieldChange,
    build_entry,
    list_changes,
)
from florin_server.operations.service.audit_log import AuditStamp, record
from florin_server.operations.store import audit_log, executors
from florin_server.operations.store.audit_log import AuditQuery

from tests.support.store_factories import NOW_US, execute_beside

ACTOR = Actor(ActorKind.KEY, AuditChannel.API, "keyA", "192.0.2.7", "req_1")
CHANGE = AuditChange(AuditAction.KEY_REVOKED, AuditObject.KEY, "keyB", "prtn_a", live=False)


async def add(store, number: int, actor: Actor = ACTOR, **changes) -> None:
    stamp = AuditStamp(NOW_US + number, f"aud_{number:04}", actor)
    await store.write(record(stamp, replace(CHANGE, **changes)))


async def read(store, query: AuditQuery, limit: int = 50) -> list[str]:
    """Return the ids of all pages, in order."""
    ids, position = [], None
    while True:
        page = await store.read(audit_log.list_page(query, position, limit))
        assert len(page.entries) <= limit
        ids += [entry.id for entry in page.entries]
        if (position := page.next_position) is None:
            return ids


@operation
def _fail(stamp: AuditStamp) -> Op[None]:
    yield from executors.pause("eip155:1:0xaa", NOW_US)
    yield from record(stamp, CHANGE)
    raise ValueError("the change is refused")


async def test_entry_is_kept_only_with_its_change(store):
    with pytest.raises(ValueError, match="refused"):
        await store.write(_fail(AuditStamp(NOW_US, "aud_1", ACTOR)))
    assert await store.read(executors.list_pauses()) == {}
    assert await read(store, AuditQuery()) == []


async def test_entry_is_read_as_it_was_written(store):
    changes = list_changes({"name": "old", "scopes": frozenset({"read"})}, {"name": "new"})
    await add(store, 1, changes=changes, count=3)
    (entry,) = (await store.read(audit_log.list_page(AuditQuery(), None, 10))).entries
    stamped = build_entry(NOW_US + 1, "aud_0001", ACTOR, replace(CHANGE, changes=changes, count=3))
    assert entry == stamped
    assert entry.changes == (FieldChange("name", "old", "new"), FieldChange("scopes", "read", ""))


def test_texts_of_entries_are_bounded_and_cannot_control_a_terminal():
    many = tuple(FieldChange("url", "\x1b[2J", "y" * 5000) for _ in range(100))
    entry = build_entry(1, "aud_1", ACTOR, replace(CHANGE, object_id="x" * 5000, changes=many))
    assert len(entry.object_id) == VALUE_MAX
    assert len(entry.changes) == CHANGES_MAX
    assert entry.changes[0].before == " [2J"
    assert len(entry.changes[0].after) == VALUE_MAX


async def test_partner_reads_entries_of_its_own_mode_only(store):
    await add(store, 1)
    await add(store, 2, live=True)
    await add(store, 3, partner_id="prtn_b")
    await add(store, 4, partner_id=None, live=None)
    assert await read(store, AuditQuery("prtn_a", live=False)) == ["aud_0001"]
    assert await read(store, AuditQuery("prtn_a", live=True)) == ["aud_0002"]
    # the object of another partner's entry has the same id
    assert await read(store, AuditQuery("prtn_b", object_id="keyB")) == ["aud_0003"]
    assert len(await read(store, AuditQuery())) == 4


async def test_filters_let_through_what_matches(store):
    await add(store, 1)
    await add(store, 2, action=AuditAction.KEY_CREATED)
    await add(store, 3, action=AuditAction.PARTNER_CREATED, object_id="prtn_a")
    await add(store, 4, Actor(ActorKind.OPERATOR, AuditChannel.CLI))
    assert await read(store, AuditQuery(action="key")) == ["aud_0004", "aud_0002", "aud_0001"]
    assert await read(store, AuditQuery(action="key.created")) == ["aud_0002"]
    assert await read(store, AuditQuery(actor="operator")) == ["aud_0004"]
    assert await read(store, AuditQuery(actor="keyA", object_id="prtn_a")) == ["aud_0003"]
    since = AuditQuery(from_us=NOW_US + 2, until_us=NOW_US + 4)
    assert await read(store, since) == ["aud_0003", "aud_0002"]


async def test_pages_follow_each_other_also_where_few_entries_match(store, monkeypatch):
    monkeypatch.setattr(audit_log, "_BATCH_SIZE", 3)
    monkeypatch.setattr(audit_log, "_BATCHES_MAX", 2)
    for number in range(1, 21):
        rare = AuditAction.KEY_CREATED if number in {1, 20} else AuditAction.KEY_REVOKED
        await add(store, number, action=rare)
    everything = [f"aud_{number:04}" for number in range(20, 0, -1)]
    for limit in (1, 2, 3, 7, 50):
        assert await read(store, AuditQuery(), limit) == everything
        assert await read(store, AuditQuery(action="key.created"), limit) == [
            "aud_0020",
            "aud_0001",
        ]
    # a page reads six entries here, and says where to continue
    page = await store.read(audit_log.list_page(AuditQuery(action="partner"), None, 50))
    assert (page.entries, page.next_position) == ([], (NOW_US + 15, "aud_0015"))


async def test_entries_of_one_moment_are_all_listed(store):
    for number in range(5):
        stamp = AuditStamp(NOW_US, f"aud_{number}", ACTOR)
        await store.write(record(stamp, CHANGE))
    assert await read(store, AuditQuery(), 2) == [f"aud_{number}" for number in range(4, -1, -1)]


async def test_old_entries_are_deleted_in_batches_and_others_stay(store, tmp_path):
    for number in range(1, 6):
        await add(store, number)
    assert await store.write(audit_log.forget(NOW_US + 4, 2)) == 2
    assert await store.write(audit_log.forget(NOW_US + 4, 2)) == 1
    assert await store.write(audit_log.forget(NOW_US + 4, 2)) == 0
    rows = await execute_beside(store, tmp_path, "SELECT id FROM audit_entry ORDER BY id")
    assert [row[0] for row in rows] == ["aud_0004", "aud_0005"]
