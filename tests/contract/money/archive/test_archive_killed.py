"""Test that a process killed at any step of the archive loses no payment, and is continued."""

from __future__ import annotations

from typing import Any

import pytest
from florin_server.domain.payments.months import get_month
from florin_server.money.archive.service import archiving, parquet, transactions
from florin_server.money.archive.service.folder import ArchiveFolder
from florin_server.money.archive.store import closed, files, rows
from florin_server.money.archive.store.rows import TRANSACTION_TABLES
from florin_server.money.ledger.store import ledger
from florin_server.money.payments.store import history

from tests.support import postgres
from tests.support.archives import (
    create_cancelled_payment,
    create_dated_payment,
    create_ended_transaction,
    create_succeeded_payment,
    make_harness,
    read_transaction,
)
from tests.support.partitions import begin_months, get_database_month
from tests.support.store_factories import ENGINES, NOW_US, open_engine_store

pytestmark = pytest.mark.long

PARTITIONED = "partitioned"


class Killed(BaseException):
    """The process was killed."""


def list_engines() -> list[Any]:
    if postgres.POSTGRES not in ENGINES:
        return ENGINES
    return [*ENGINES, pytest.param(PARTITIONED, marks=pytest.mark.slow)]


@pytest.fixture(params=list_engines())
async def engine_store(request, tmp_path):
    engine = request.param
    if engine == PARTITIONED:
        engine = postgres.POSTGRES
        database = postgres.get_database(tmp_path)
        month = min(get_month(NOW_US), await get_database_month(database))
        await begin_months(database, month)
    async with open_engine_store(engine, tmp_path) as store:
        yield store
    await postgres.drop_database(tmp_path)


def kill_at(monkeypatch, harness, step: int) -> list[str]:
    """Kill the process before or after its nth change; return the changes so far."""
    steps: list[str] = []

    def count(name: str) -> None:
        steps.append(name)
        if len(steps) == step:
            raise Killed

    def wrap(owner, name: str) -> None:
        real = getattr(owner, name)

        def call(*arguments, **options):
            count(f"before {name}")
            result = real(*arguments, **options)
            count(f"after {name}")
            return result

        monkeypatch.setattr(owner, name, call)

    def wrap_async(owner, name: str) -> None:
        real = getattr(owner, name)

        async def call(*arguments, **options):
            count(f"before {name}")
            result = await real(*arguments, **options)
            count(f"after {name}")
            return result

        monkeypatch.setattr(owner, name, call)

    wrap(parquet, "write")
    wrap(ArchiveFolder, "publish")
    wrap_async(harness.store, "write")
    wrap_async(harness.store, "replace_partition")
    return steps


async def archive_all(harness) -> None:
    await harness.write_all()
    await harness.remove_all()
    await harness.write_transactions()
    await harness.remove_transactions()


async def test_a_killed_process_loses_nothing(engine_store, tmp_path, monkeypatch):
    monkeypatch.setattr(archiving, "_DELETED_AT_ONCE", 2)
    monkeypatch.setattr(archiving, "_RECORDED_AT_ONCE", 2)
    monkeypatch.setattr(transactions, "_DELETED_AT_ONCE", 2)
    ended, step = [], 0
    sent: dict[str, Any] = {}
    while True:
        step += 1
        paid = [await create_succeeded_payment(engine_store) for _ in range(2)]
        ended += [*paid, await create_cancelled_payment(engine_store)]
        unended = await create_dated_payment(engine_store)
        for items in (paid[:1], paid[1:], ()):
            tx = await create_ended_transaction(engine_store, *items)
            sent[tx.id] = await read_transaction(engine_store, tx)
        unsettled = await create_ended_transaction(engine_store, unended)
        harness = make_harness(engine_store, tmp_path / "archive")
        with monkeypatch.context() as patch:
            steps = kill_at(patch, harness, step)
            try:
                await archive_all(harness)
            except Killed:
                pass
            else:
                # every step was the last one once
                assert len(steps) < step
                break
        await require_all(harness, ended)
        await require_sent(harness, sent)
        # what the next process does first
        await harness.remove_all()
        await harness.remove_transactions()
        await archive_all(harness)
        await require_all(harness, ended)
        assert not await require_sent(harness, sent)
        assert (await read_transaction(engine_store, unsettled))["items"]
        stored = await engine_store.read(closed.list_ids("", "pay_z", 1_000))
        assert unended.id in stored
        assert not {payment.id for payment in ended} & set(stored)
    assert step > 20
    assert await engine_store.read(history.check()) == []
    assert await engine_store.read(ledger.check()) == []


async def require_all(harness, ended) -> None:
    """Require that each payment is in the store or in the archive, as it was."""
    for payment in ended:
        stored = await harness.store.payments.find(payment.id)
        archived = None if stored else await harness.archive.find(payment.id)
        current = stored or (archived and archived.payment)
        assert current is not None, payment.id
        assert (current.status, current.version, current.tx_id) == (
            payment.status,
            payment.version,
            payment.tx_id,
        )


async def require_sent(harness, sent: dict[str, Any]) -> set[str]:
    """Require that each transaction is in the store or in a file, as it was; return the stored."""
    stored, archived = {}, {}
    for tx_id in sent:
        transaction = await harness.store.read(rows.read_rows(TRANSACTION_TABLES, [tx_id]))
        if transaction["transaction"]:
            stored[tx_id] = transaction
    for file in await harness.store.read(files.list_files(0, 1_000)):
        if file.has_transactions:
            path = harness.archive.folder.get_path(file)
            for transaction in parquet.iterate_rows(path, TRANSACTION_TABLES, 1):
                archived[transaction["transaction"][0][0]] = transaction
    assert {**archived, **stored} == sent
    return stored.keys()
