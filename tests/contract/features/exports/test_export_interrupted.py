"""Test that an export killed at any step leaves no partial file, and the next one completes it."""

from __future__ import annotations

import signal

import pytest
from florin_server.domain.exports.error import ExportError
from florin_server.features.exports.service import folder, frames

from tests.support import exported, store_kit
from tests.support.command import wait_command
from tests.support.exported import ExportStoreBuilder, export_store, keep_newest, read_rows

pytestmark = pytest.mark.slow

# the first steps, then steps at growing distances
STEPS = [1, 2, 3, 5, 8, 13, 21, 34, 55, 89]


@pytest.fixture
async def database(tmp_path):
    async with store_kit.open_engine_store("sqlite", tmp_path) as store:
        shop = ExportStoreBuilder(await store_kit.acquire_lease(store))
        await store.write(exported.make_payments(shop, 1010))
    return tmp_path / "florin.db"


@pytest.mark.parametrize("format_", ["jsonl", "parquet"])
async def test_export_killed_at_any_step_resumes(database, tmp_path, forks, format_):
    export_store(database, tmp_path / "everything", format_)
    died = 0
    for at in STEPS:
        out = tmp_path / f"out-{at}"
        killed = ["tests.support.exports_killed", str(database), str(out), format_, str(at)]
        # twice: a continued run can be killed too
        for _ in range(2):
            died += wait_command(forks.module(*killed)).status == -signal.SIGKILL
        # the rows are complete, and none is there twice
        looks_whole(out)
        export_store(database, out, format_)
        assert tables(out) == tables(tmp_path / "everything"), at
        left = [item for item in out.rglob("*") if item.name.endswith(".tmp")]
        assert left == []
        if format_ == "jsonl":
            for name in ("payments", "events", "ledger"):
                assert len(read_rows(out, name)) == len(keep_newest(read_rows(out, name), name))
    assert died >= len(STEPS)


def looks_whole(out):
    try:
        manifest = folder.read_manifest(out)
    except ExportError:
        return
    for name in manifest.parts:
        assert frames.arrow(out, name, history=True).num_rows == sum(manifest.parts[name].values())


def tables(out):
    return {
        name: frames.arrow(out, name).drop(["part"]).sort_by([(key, "ascending") for key in keys])
        for name, keys in (
            (table.name, table.key) for table in folder.read_manifest(out).spec.tables
        )
    }
