"""Test the archive of old payments: what leaves the store, what stays, and what can be read."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import orjson
import pytest
from florin_server.db.engine.query import operation
from florin_server.domain.archive import ArchiveError, get_archive_month
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.months import get_month
from florin_server.domain.payments.note import PaymentNote
from florin_server.domain.payments.payment import Refund, RefundStatus
from florin_server.domain.reports.period import parse_period
from florin_server.domain.reports.statement import RequestedSum
from florin_server.domain.settlement.chain_txs import LedgerPosting
from florin_server.features.reports.store.scope import ReportScope
from florin_server.features.reports.store.statement import read_requested
from florin_server.money.archive.service import (
    archiving,
    parquet,
    partitions,
    restoring,
    writing,
)
from florin_server.money.archive.store import closed, files, rows
from florin_server.money.archive.store.rows import ARCHIVED_TABLES
from florin_server.money.ledger.store import ledger
from florin_server.money.payments.store import history, notes, payments
from florin_server.money.refunds import store as refunds

from tests.support import postgres
from tests.support.archives import (
    create_cancelled_payment,
    create_dated_payment,
    create_succeeded_payment,
    make_harness,
)
from tests.support.partitions import begin_months, get_database_month
from tests.support.store_factories import (
    ASSET,
    ENGINES,
    LATER_US,
    NOW_US,
    PAYER,
    create_processing_payment,
    execute_beside,
    make_confirmation,
    make_option,
    open_engine_store,
)
from tests.support.until import wait_until
from tests.support.webhook_rows import add_merchant


def without_wallet(payment):
    return replace(payment, provider_name=None, provider_icon=None)


async def count_rows(store, tmp_path, payment_id: str) -> dict[str, int]:
    """Return the number of rows of a payment by archived table."""
    counts = {}
    for table in ARCHIVED_TABLES:
        sql = (
            f"SELECT count(*) FROM {table.table.name} WHERE {table.id_column.name} = '{payment_id}'"
        )
        counts[table.name] = (await execute_beside(store, tmp_path, sql))[0][0]
    return counts


async def test_a_month_leaves_the_store_and_is_read_by_id(store, tmp_path):
    paid = await create_succeeded_payment(store)
    cancelled = await create_cancelled_payment(store)
    changes = await store.read(payments.list_events(paid.id))
    await store.write(notes.add(PaymentNote("note_1", paid.id, "keyA", "called", NOW_US), 50))
    harness = make_harness(store, tmp_path / "archive")
    (file,) = await harness.write_all()
    assert (file.payments, file.month) == (2, get_archive_month(NOW_US).name)
    # nothing is deleted before the file is registered
    assert await store.payments.find(paid.id) == paid
    assert await harness.remove_all() == 2
    for payment in (paid, cancelled):
        assert set((await count_rows(store, tmp_path, payment.id)).values()) == {0}
        archived = await harness.archive.find(payment.id)
        assert archived.payment == without_wallet(payment)
    assert await store.read(notes.list_notes(paid.id)) == []
    archived = await harness.archive.find(paid.id)
    assert archived.changes == changes
    assert archived.option == make_option(paid)
    assert archived.confirmation == make_confirmation(paid)
    assert (archived.effect.block_number, archived.effect.position) == (7, 3)
    # the ledger stays
    assert await store.read(ledger.check()) == []
    assert await store.read(ledger.filter_booked([f"settle:{paid.id}"]))
    assert await harness.archive.find("pay_unknown") is None


async def test_statements_count_archived_payments(store, tmp_path):
    posting = LedgerPosting("external:buyer", "merchant:mer_1", ASSET, 50_000_000)
    paid = await create_succeeded_payment(store, postings=(posting,))
    # the scope of all merchants of a mode reads the merchant's mode
    await add_merchant(store)
    period = parse_period("2027")

    async def read() -> list[list[RequestedSum]]:
        scopes = (
            ReportScope(live=False),
            ReportScope(live=False, partner_id="par_1"),
            ReportScope(live=False, partner_id="par_1", merchant_id="mer_1"),
        )
        return [await store.read(read_requested(scope, period)) for scope in scopes]

    before = await read()
    assert before == [[RequestedSum(paid.unit, 1, paid.value)]] * 3
    harness = make_harness(store, tmp_path / "archive")
    await harness.write_all()
    assert await read() == before
    await harness.remove_all()
    assert await read() == before


async def test_a_payment_that_moved_no_money_is_archived_without_an_account(store, tmp_path):
    cancelled = await create_cancelled_payment(store)
    harness = make_harness(store, tmp_path / "archive")
    (file,) = await harness.write_all()
    content = (tmp_path / "archive" / file.name).read_bytes()
    await harness.remove_all()
    archived = await harness.archive.find(cancelled.id)
    assert (archived.option, archived.confirmation, archived.payment.payer) == (None,) * 3
    assert PAYER.encode() not in content


async def create_unsettled(store):
    """Succeeded, but the treasury still has the merchant's money."""
    paid = await create_succeeded_payment(store)
    return paid, f"DELETE FROM payment_settled WHERE payment_id = '{paid.id}'"


def make_refund(payment, status: RefundStatus) -> Refund:
    return Refund("rfnd_1", payment.id, f"caip19/{ASSET}", 5, PAYER, status, None, NOW_US)


async def create_refunding(store):
    paid = await create_succeeded_payment(store)
    await store.write(refunds.create(make_refund(paid, RefundStatus.PENDING)))
    return paid, None


async def create_with_late_money(store):
    cancelled = await create_cancelled_payment(store)
    posted = ledger.post(
        f"late:{cancelled.id}:log:1",
        "late",
        cancelled.id,
        "0xlate",
        [LedgerPosting("external:buyer", "external:shop", ASSET, 5)],
        LATER_US,
    )
    await store.write(posted)
    return cancelled, None


async def create_watched(store):
    paid = await create_succeeded_payment(store)
    return paid, f"INSERT INTO watched_tx VALUES ('eip155:1', '{paid.tx_id}', 'settler', 1, '0x')"


async def create_with_address(store):
    cancelled = await create_cancelled_payment(store)
    values = f"'eip155:1', '0xad', '{cancelled.id}', 'opt_1', 'mer_1', 'a', NULL, 1, 1, 1"
    return cancelled, f"INSERT INTO deposit_address VALUES ({values})"


async def create_undelivered(store):
    cancelled = await create_cancelled_payment(store)
    values = f"'we_1', '{cancelled.id}', 0, 1, 0, 0, 5, false, 0, -1, ''"
    return cancelled, f"INSERT INTO webhook_delivery VALUES ({values})"


async def create_quarantined(store):
    """An event that the operator can still send."""
    cancelled = await create_cancelled_payment(store)
    values = f"'we_1', '{cancelled.id}', 0, 1, 0, 0, NULL, false, 0, -1, ''"
    columns = "id, kind, chain_id, subject, step, reason, state, attempts, first_at_us, last_at_us"
    item = f"'q_1', 'delivery', '', 'we_1/{cancelled.id}', 'send', 'x', 'set_aside', 1, 0, 0"
    return cancelled, (
        f"INSERT INTO webhook_delivery VALUES ({values})",
        f"INSERT INTO quarantined_item ({columns}) VALUES ({item})",
    )


async def create_unconfirmed(store):
    return await create_dated_payment(store), None


async def create_processing(store):
    return await create_processing_payment(store, await create_dated_payment(store)), None


@pytest.mark.parametrize(
    "create",
    [
        create_unsettled,
        create_refunding,
        create_with_late_money,
        create_watched,
        create_with_address,
        create_undelivered,
        create_quarantined,
        create_unconfirmed,
        create_processing,
    ],
)
async def test_a_payment_stays_while_something_can_happen_to_it(store, tmp_path, create):
    open_payment, sql = await create(store)
    for statement in [sql] if isinstance(sql, str) else sql or ():
        await execute_beside(store, tmp_path, statement)
    ended = await create_cancelled_payment(store)
    harness = make_harness(store, tmp_path / "archive")
    await harness.write_all()
    assert await harness.remove_all() == 1
    assert await store.payments.find(open_payment.id) is not None
    assert await store.payments.find(ended.id) is None


async def test_a_payment_that_changes_after_it_was_read_stays(store, tmp_path):
    changed, refunded = [await create_succeeded_payment(store) for _ in range(2)]
    harness = make_harness(store, tmp_path / "archive")
    await harness.write_all()
    await execute_beside(
        store, tmp_path, f"UPDATE payment SET version = version + 1 WHERE id = '{changed.id}'"
    )
    await store.write(refunds.create(make_refund(refunded, RefundStatus.PENDING)))
    assert await harness.remove_all() == 0
    for payment in (changed, refunded):
        assert (await count_rows(store, tmp_path, payment.id))["events"]
        assert await harness.archive.find(payment.id) is None
    # the next pass has the new version
    (file,) = await harness.write_all()
    assert file.payments == 1
    assert await harness.remove_all() == 1
    assert (await harness.archive.find(changed.id)).payment.version == changed.version + 1


async def test_files_hold_one_month_and_the_current_months_stay(store, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "PAGE", 2)
    monkeypatch.setattr(writing, "FILE_MAX", 4)
    day_us = 86_400_000_000
    for days in (0, 0, 0, 0, 0, 31, 31, 95):
        created_us = NOW_US + days * day_us
        await create_cancelled_payment(store, created_at_us=created_us)
    harness = make_harness(store, tmp_path / "archive")
    written = await harness.write_all()
    months = [get_archive_month(NOW_US + days * day_us).name for days in (0, 0, 31)]
    assert [(file.month, file.payments) for file in written] == list(
        zip(months, (4, 1, 2), strict=True)
    )
    assert await harness.remove_all() == 7
    assert len(await store.read(closed.list_ids("", "pay_z", 10))) == 1


@pytest.mark.parametrize("damage", ["content", "missing", "manifest", "digest"])
async def test_an_altered_archive_deletes_nothing(store, tmp_path, damage):
    paid = await create_succeeded_payment(store)
    harness = make_harness(store, tmp_path / "archive")
    (file,) = await harness.write_all()
    path = tmp_path / "archive" / file.name
    manifest = path.parent / "manifest.json"
    if damage == "content":
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(bytes(content))
    elif damage == "missing":
        path.unlink()
    elif damage == "manifest":
        manifest.unlink()
    else:
        text = orjson.loads(manifest.read_bytes())
        text["files"][path.name]["sha256"] = "00" * 32
        manifest.write_bytes(orjson.dumps(text))
    with pytest.raises(ArchiveError, match="manifest.json|parquet"):
        await harness.remove_all()
    assert await store.payments.find(paid.id) == paid


@pytest.mark.parametrize("damage", ["file", "page"])
async def test_an_unreadable_file_is_named_and_nothing_is_invented(store, tmp_path, damage):
    paid = await create_succeeded_payment(store)
    harness = make_harness(store, tmp_path / "archive")
    (file,) = await harness.write_all()
    await harness.remove_all()
    path = tmp_path / "archive" / file.name
    content = path.read_bytes()
    # the first page of the first column begins behind the magic number
    path.write_bytes(b"not parquet" if damage == "file" else content[:40] + b"\0" + content[41:])
    with pytest.raises(ApiError) as refused:
        await harness.archive.find(paid.id)
    assert refused.value.code is ErrorCode.INTERNAL_ERROR
    assert refused.value.retry_after_s == 60
    assert file.name in harness.archive.read_problem
    # a process without the folder does not call it unknown either
    elsewhere = make_harness(store, tmp_path / "archive")
    elsewhere.archive.folder = None
    with pytest.raises(ApiError) as refused:
        await elsewhere.archive.find(paid.id)
    assert refused.value.retry_after_s == 60


async def test_readers_of_the_archive_are_few_and_do_not_pile_up(store, tmp_path, monkeypatch):
    paid = [await create_succeeded_payment(store) for _ in range(40)]
    harness = make_harness(store, tmp_path / "archive")
    await harness.write_all()
    await harness.remove_all()
    going_on, running, most = asyncio.Event(), 0, 0
    real = harness.archive._read_file  # noqa: SLF001

    async def read(key):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await going_on.wait()
        running -= 1
        return await real(key)

    monkeypatch.setattr(harness.archive, "_read_file", read)
    keys = [await harness.archive.find_key(payment.id) for payment in paid]
    reads = [asyncio.create_task(harness.archive.read(key)) for key in keys]
    await wait_until(lambda: sum(task.done() for task in reads), 8)
    assert all(task.exception().retry_after_s == 1 for task in reads if task.done())
    going_on.set()
    results = await asyncio.gather(*reads, return_exceptions=True)
    assert sum(not isinstance(result, ApiError) for result in results) == 32
    assert most == 2


async def test_a_restored_payment_is_as_before_and_is_archived_again(store, tmp_path):
    paid = await create_succeeded_payment(store)
    before = {table.name: await store.read(read_rows(table, paid.id)) for table in ARCHIVED_TABLES}
    harness = make_harness(store, tmp_path / "archive")
    await harness.write_all()
    await harness.remove_all()
    await restoring.restore_payment(harness, paid.id)
    assert await store.payments.find(paid.id) == without_wallet(paid)
    after = {table.name: await store.read(read_rows(table, paid.id)) for table in ARCHIVED_TABLES}
    assert after == before
    assert await store.read(history.check()) == []
    assert await harness.archive.find(paid.id) is None
    with pytest.raises(ApiError) as refused:
        await restoring.restore_payment(harness, paid.id)
    assert refused.value.code is ErrorCode.PAYMENT_NOT_FOUND
    assert len(await harness.write_all()) == 1
    assert await harness.remove_all() == 1
    assert (await harness.archive.find(paid.id)).payment == without_wallet(paid)


def read_rows(table, payment_id: str):
    @operation
    def read():
        return (yield from table.select_rows.all(ids=[payment_id]))

    return read()


async def test_a_file_says_what_it_contains(store, tmp_path):
    paid = await create_succeeded_payment(store)
    harness = make_harness(store, tmp_path / "archive")
    (file,) = await harness.write_all()
    path = tmp_path / "archive" / file.name
    assert path.stat().st_mode & 0o777 == 0o600
    entries = harness.archive.folder.read_manifest(file.folder)
    assert entries[path.name]["rows"] == {
        "payment": 1,
        "events": 3,
        "options": 1,
        "builds": 1,
        "confirmations": 1,
        "effects": 1,
    }
    (versions,) = parquet.iterate_versions(path)
    assert versions == [(paid.id, paid.version)]
    assert await store.read(files.list_files(0, 10)) == [file]


@pytest.fixture
async def partitioned(tmp_path):
    """Open a store whose payments are in partitions by month."""
    if postgres.POSTGRES not in ENGINES:
        pytest.skip("PostgreSQL is not selected")
    database = postgres.get_database(tmp_path)
    now_month = await get_database_month(database)
    await begin_months(database, min(get_month(NOW_US), now_month))
    async with open_engine_store(postgres.POSTGRES, tmp_path) as store:
        yield store
    await postgres.drop_database(tmp_path)


async def test_the_partition_of_a_month_is_emptied_at_once(partitioned, tmp_path, monkeypatch):
    paid = [await create_succeeded_payment(partitioned) for _ in range(3)]
    unended = await create_dated_payment(partitioned)
    await partitioned.write(notes.add(PaymentNote("note_1", paid[0].id, "keyA", "hi", NOW_US), 50))
    harness = make_harness(partitioned, tmp_path / "archive")
    await harness.write_all()
    # it changed after it was read
    await partitioned.write(refunds.create(make_refund(paid[2], RefundStatus.PENDING)))
    deleted = []
    real = rows.delete_payments
    monkeypatch.setattr(rows, "delete_payments", lambda ids: deleted.extend(ids) or real(ids))
    assert await harness.remove_all() == 2
    assert deleted == []
    assert await partitioned.read(closed.list_ids("", "pay_z", 10)) == sorted(
        [paid[2].id, unended.id]
    )
    assert await partitioned.read(notes.list_notes(paid[0].id)) == []
    for payment in paid[:2]:
        assert (await harness.archive.find(payment.id)).payment == without_wallet(payment)
    # the payments that stay have all their rows
    assert (await count_rows(partitioned, tmp_path, paid[2].id))["options"] == 2
    await restoring.restore_payment(harness, paid[0].id)
    assert await partitioned.payments.find(paid[0].id) == without_wallet(paid[0])


async def test_partitions_of_archived_months_are_dropped(partitioned, tmp_path, monkeypatch):
    harness = make_harness(partitioned, tmp_path / "archive")
    paid = await create_succeeded_payment(partitioned)
    unended = [await create_dated_payment(partitioned) for _ in range(2)]
    before = [
        part
        for part in (await partitioned.list_partitions())[1:]
        if part.end_id <= harness.end.first_id
    ]
    empty = [part for part in before if part.end_id <= unended[0].id]
    await harness.write_all()
    await harness.remove_all()
    # a view of an operator reads the oldest month
    view = f"AS SELECT id FROM payment_{before[0].month.replace('-', '_')}"
    await execute_beside(partitioned, tmp_path, f"CREATE VIEW report {view}")
    assert await partitions.drop_archived_months(harness, harness.end) == 0
    await execute_beside(partitioned, tmp_path, "DROP VIEW report")
    # all payments that stay would be copied
    monkeypatch.setattr(partitions, "PAYMENTS_MAX", 1)
    assert await partitions.drop_archived_months(harness, harness.end) == len(empty)
    monkeypatch.setattr(partitions, "PAYMENTS_MAX", 2)
    dropped_count = await partitions.drop_archived_months(harness, harness.end)
    assert dropped_count == len(before) - len(empty) > 0
    after = await partitioned.list_partitions()
    assert not {part.month for part in before} & {part.month for part in after}
    assert await partitioned.read(closed.list_ids("", "pay_z", 10)) == sorted(
        payment.id for payment in unended
    )
    await restoring.restore_payment(harness, paid.id)
    assert await partitioned.payments.find(paid.id) == without_wallet(paid)


async def test_a_month_that_lacks_a_partition_is_emptied_row_by_row(partitioned, tmp_path):
    paid = await create_succeeded_payment(partitioned)
    month = get_archive_month(NOW_US).name.replace("-", "_")
    await execute_beside(partitioned, tmp_path, f"DROP TABLE option_count_{month}")
    harness = make_harness(partitioned, tmp_path / "archive")
    await harness.write_all()
    assert await harness.remove_all() == 1
    assert await partitioned.payments.find(paid.id) is None
    empty = [part for part in (await partitioned.list_partitions())[1:] if part.end_id <= paid.id]
    assert await partitions.drop_archived_months(harness, harness.end) == len(empty)


async def test_a_partition_with_many_open_payments_is_emptied_row_by_row(
    partitioned, tmp_path, monkeypatch
):
    monkeypatch.setattr(archiving, "RETAINED_MAX", 1)
    paid = await create_succeeded_payment(partitioned)
    for _ in range(2):
        await create_dated_payment(partitioned)
    harness = make_harness(partitioned, tmp_path / "archive")
    await harness.write_all()
    assert await harness.remove_all() == 1
    assert await partitioned.payments.find(paid.id) is None
    assert len(await partitioned.read(closed.list_ids("", "pay_z", 10))) == 2
