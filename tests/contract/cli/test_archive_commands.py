"""Test `florin archive verify` on files of payments and of transactions."""

from __future__ import annotations

from contextlib import suppress

import pytest
from florin.v1 import archive_pb2
from florin_server.api.operator.archive import ArchiveCalls
from florin_server.cli.store import archive as command
from florin_server.domain.archive import get_archive_month

from tests.support.archives import (
    create_cancelled_payment,
    create_ended_transaction,
    make_harness,
)
from tests.support.store_factories import NOW_US

MONTH = get_archive_month(NOW_US).name


@pytest.fixture
async def verify(store, tmp_path, monkeypatch):
    """Return a function that verifies a month; the archive has a payment and a transaction."""
    await create_cancelled_payment(store)
    await create_ended_transaction(store)
    harness = make_harness(store, tmp_path / "archive")
    await harness.write_all()
    await harness.write_transactions()
    calls, results = ArchiveCalls(), []
    calls._app = harness  # noqa: SLF001
    request = archive_pb2.ListArchiveFilesRequest()
    listed = await calls.ListArchiveFiles(request, None)
    monkeypatch.setattr(command, "run_with_operator", lambda *_: list(listed.files))
    monkeypatch.setattr(command, "get_settings", lambda _: harness.settings)
    monkeypatch.setattr(command, "print_json", lambda result: results.append(result) or True)

    def run(month: str | None) -> dict:
        with suppress(SystemExit):
            command.verify_archive({}, month)
        return results[-1]

    return run


@pytest.mark.parametrize("month", [MONTH, None])
async def test_a_month_is_verified_with_its_transactions(verify, tmp_path, month):
    assert verify(month) == {"verified": 2, "problems": [], "unknown": []}
    (path,) = (tmp_path / "archive" / "transactions" / MONTH).glob("*.parquet")
    stray = path.with_name("00000009-00000000.parquet")
    path.rename(stray)
    result = verify(month)
    assert result["verified"] == 1
    assert path.name in result["problems"][0]
    assert result["unknown"] == [f"transactions/{MONTH}/{stray.name}"]


async def test_files_of_other_months_are_left_out(verify, tmp_path):
    for folder in ("", "transactions/"):
        (tmp_path / "archive" / f"{folder}{MONTH}" / "00000009-00000000.parquet").touch()
    assert verify("2020-01") == {"verified": 0, "problems": [], "unknown": []}
    assert len(verify(None)["unknown"]) == 2
