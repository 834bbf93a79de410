"""Test the worker of the archive: its passes, its lease, and a folder that cannot be written."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress

from florin_server.money.archive.store import files
from florin_server.money.archive.worker import LEASE_NAME, ArchiveWorker
from florin_server.money.payments.store import payments
from florin_server.money.x402 import store as facilitations
from florin_server.operations.store import leases

from tests.support.archives import (
    LATE_US,
    create_cancelled_payment,
    create_dated_payment,
    create_ended_transaction,
    create_succeeded_payment,
    make_harness,
    read_transaction,
)
from tests.support.store_factories import AFTER_US, ASSET, CHAIN, PAYER, execute_beside
from tests.support.until import wait_until


@asynccontextmanager
async def running(harness, owner: str = "me"):
    """Run a worker that has done what is due."""
    task = asyncio.create_task(ArchiveWorker(harness, owner).run())
    try:
        await next_pause(harness)
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def next_pause(harness, seconds: float = 0) -> None:
    """Return when the worker sleeps again, after the clock moved."""
    harness.clock.advance(seconds)
    await wait_until(lambda: harness.clock.sleeper_count, 1)


async def list_archived(store):
    return await store.read(files.list_files(0, 100))


async def test_old_payments_leave_once_a_day(store, tmp_path):
    paid = await create_succeeded_payment(store)
    harness = make_harness(store, tmp_path / "archive")
    async with running(harness):
        assert await store.payments.find(paid.id) is None
        late = await create_cancelled_payment(store)
        await next_pause(harness, 3600)
        assert await store.payments.find(late.id) is not None
        await next_pause(harness, 86_400)
        assert await store.payments.find(late.id) is None
    assert [file.payments for file in await list_archived(store)] == [1, 1]
    assert all(file.removed_at_us for file in await list_archived(store))


async def test_payments_leave_with_their_transactions_and_with_transfers_for_others(
    store, tmp_path
):
    tx = await create_ended_transaction(store, await create_succeeded_payment(store))
    transfer = await create_ended_transaction(store)
    await execute_beside(
        store,
        tmp_path,
        f"INSERT INTO facilitation VALUES ('key', '{CHAIN}', 'a', NULL, '{ASSET}', '{PAYER}', "
        f"'{PAYER}', '5', '{{}}', 1, 1, 1, 'succeeded', '{transfer.hash}', NULL, 1, 1)",
    )
    harness = make_harness(store, tmp_path / "archive")
    async with running(harness):
        for ended in (tx, transfer):
            assert not (await read_transaction(store, ended))["transaction"]
        assert await store.read(facilitations.find_facilitation("key")) is None
    assert [(file.has_transactions, file.payments) for file in await list_archived(store)] == [
        (False, 1),
        (True, 2),
    ]
    assert all(file.removed_at_us for file in await list_archived(store))


async def test_transactions_of_an_interrupted_pass_leave(store, tmp_path):
    tx = await create_ended_transaction(store)
    harness = make_harness(store, tmp_path / "archive")
    await harness.write_transactions()
    async with running(harness):
        assert not (await read_transaction(store, tx))["transaction"]
    assert len(await list_archived(store)) == 1


async def test_a_file_of_an_interrupted_pass_is_completed(store, tmp_path):
    paid = await create_succeeded_payment(store)
    harness = make_harness(store, tmp_path / "archive")
    await harness.write_all()
    async with running(harness):
        assert await store.payments.find(paid.id) is None
    assert len(await list_archived(store)) == 1


async def test_one_process_archives(store, tmp_path):
    paid = await create_succeeded_payment(store)
    harness = make_harness(store, tmp_path / "archive")
    op = leases.acquire(LEASE_NAME, "other", LATE_US, 300_000_000, False)
    assert await store.write(op) is not None
    async with running(harness):
        # a file has one process: its lease is one that ended
        assert (await store.payments.find(paid.id) is None) is store.is_exclusive
        # the other process has ended
        await next_pause(harness, 600)
        assert await store.payments.find(paid.id) is None


async def test_a_folder_that_cannot_be_written_stops_only_the_archive(store, tmp_path):
    paid = await create_succeeded_payment(store)
    folder = tmp_path / "archive"
    folder.write_text("a file is in its place")
    harness = make_harness(store, folder)
    async with running(harness):
        assert str(folder) in harness.archive.write_problem
        assert await store.payments.find(paid.id) == paid
        folder.unlink()
        await next_pause(harness, 600)
        assert not harness.archive.write_problem
        assert await store.payments.find(paid.id) is None


async def test_options_that_were_not_chosen_are_deleted(store, tmp_path):
    paid = await create_succeeded_payment(store)
    expired = await create_dated_payment(store)
    await store.write(payments.expire([expired.id], AFTER_US))
    unended = await create_dated_payment(store)
    harness = make_harness(store, tmp_path / "archive", payment_days=None, option_days=7)
    async with running(harness):
        counts = [
            len(await store.read(payments.list_options(payment.id, [PAYER])))
            for payment in (paid, expired, unended)
        ]
        assert counts == [1, 0, 2]
        assert await store.payments.find(expired.id) is not None
        assert len(await store.read(payments.list_resolved_builds(paid.id, "opt_1"))) == 1
        assert await store.read(payments.list_resolved_builds(expired.id, "opt_1")) == []
    assert await list_archived(store) == []
