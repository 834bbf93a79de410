"""Test the archived payments of a customer: which are returned, and what is read for them."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from florin_server.domain.archive import ArchiveError
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.money.archive.service import parquet, restoring
from florin_server.money.archive.service.customers import list_customer_payments
from florin_server.money.archive.store import files

from tests.support.archives import (
    create_cancelled_payment,
    create_succeeded_payment,
    make_harness,
)
from tests.support.store_factories import NOW_US, PAYER, execute_beside

OTHER = "eip155:1:0x" + "9" * 40
# in no file, but within the statistics of one that has both other accounts
BETWEEN = "eip155:1:0x" + "a" * 40
SOLANA = "solana:mainnet:" + "1" * 32


async def create_paid(store, tmp_path, account: str, created_at_us: int = NOW_US):
    """Store a payment that an account paid."""
    paid = await create_succeeded_payment(store, created_at_us=created_at_us)
    await execute_beside(
        store, tmp_path, f"UPDATE payment SET payer = '{account}' WHERE id = '{paid.id}'"
    )
    return paid


async def archive_all(harness) -> None:
    await harness.write_all()
    await harness.remove_all()


async def find_payments(harness, account: str, *payment_ids: str):
    listed = await harness.store.read(files.list_files(0, 100))
    return list_customer_payments(harness.archive.folder, listed, account, payment_ids)


async def test_payments_of_the_account_and_of_the_ids_are_returned_newest_first(store, tmp_path):
    month_us = 31 * 86_400_000_000
    first = await create_paid(store, tmp_path, OTHER)
    await create_paid(store, tmp_path, PAYER)
    last = await create_paid(store, tmp_path, OTHER, NOW_US + month_us)
    # its account is in no file
    cancelled = await create_cancelled_payment(store, created_at_us=NOW_US + 1_000_000)
    harness = make_harness(store, tmp_path / "archive")
    await archive_all(harness)
    assert len(await store.read(files.list_files(0, 100))) == 2
    results = await find_payments(harness, OTHER)
    assert [payment.id for payment in results] == [last.id, first.id]
    assert results[1] == (
        first.id,
        first.version,
        PaymentStatus.SUCCEEDED,
        first.created_at_us,
        OTHER,
        first.tx_id,
    )
    results = await find_payments(harness, OTHER, cancelled.id, "pay_unknown")
    assert [(payment.id, payment.status, payment.payer) for payment in results] == [
        (last.id, PaymentStatus.SUCCEEDED, OTHER),
        (cancelled.id, PaymentStatus.CANCELLED, None),
        (first.id, PaymentStatus.SUCCEEDED, OTHER),
    ]
    assert await find_payments(harness, BETWEEN) == []


async def test_groups_without_the_account_are_read_no_further_than_their_payers(
    store, tmp_path, monkeypatch
):
    monkeypatch.setattr(parquet, "ROW_GROUP", 2)
    for second, account in enumerate((OTHER, PAYER, PAYER, PAYER)):
        await create_paid(store, tmp_path, account, NOW_US + second * 1_000_000)
    for second in (4, 5):
        await create_cancelled_payment(store, created_at_us=NOW_US + second * 1_000_000)
    harness = make_harness(store, tmp_path / "archive")
    await archive_all(harness)
    reads = []
    read_row_group = pq.ParquetFile.read_row_group

    def record(reader, group, columns=None):
        reads.append((group, columns))
        return read_row_group(reader, group, columns=columns)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", record)
    assert len(await find_payments(harness, OTHER)) == 1
    # statistics exclude the group of the other account, and the one without accounts
    columns = ["id", "version", "status", "created_at_us", "payer", "tx_id"]
    assert reads == [(0, ["payer"]), (0, columns)]
    for account, expected_reads in ((BETWEEN, [(0, ["payer"])]), (SOLANA, [])):
        reads.clear()
        assert await find_payments(harness, account) == []
        assert reads == expected_reads


async def test_payment_that_was_archived_again_is_returned_once_in_its_valid_version(
    store, tmp_path
):
    paid = await create_paid(store, tmp_path, OTHER)
    harness = make_harness(store, tmp_path / "archive")
    await archive_all(harness)
    for change, version in (("", paid.version), ("version = version + 1,", paid.version + 1)):
        await restoring.restore_payment(harness, paid.id)
        # a difference without a new version, which only a test makes
        sql = f"UPDATE payment SET {change} tx_id = '0xnew{version}' WHERE id = '{paid.id}'"
        await execute_beside(store, tmp_path, sql)
        await archive_all(harness)
        (payment,) = await find_payments(harness, OTHER)
        assert (payment.version, payment.tx_id) == (version, f"0xnew{version}")
    assert len(await store.read(files.list_files(0, 100))) == 3


@pytest.mark.parametrize("damage", ["content", "missing", "replaced"])
async def test_damaged_file_is_named(store, tmp_path, damage):
    await create_paid(store, tmp_path, OTHER)
    harness = make_harness(store, tmp_path / "archive")
    await archive_all(harness)
    (file,) = await store.read(files.list_files(0, 100))
    path = tmp_path / "archive" / file.name
    if damage == "content":
        path.write_bytes(b"not parquet")
    elif damage == "missing":
        path.unlink()
    else:
        # a valid file without the payment
        table = pq.read_table(path)
        pq.write_table(table.slice(0, 0), path)
    with pytest.raises(ArchiveError, match=path.name):
        await find_payments(harness, OTHER)
