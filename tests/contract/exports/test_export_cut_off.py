"""An export that dies at any step leaves no half file, and the next one makes it whole."""

from __future__ import annotations

import signal

import pytest
from florin_server.domain.exports.error import NotExported
from florin_server.flows.exports import folder, frames

from tests.support import exported, store_kit
from tests.support.command import end
from tests.support.exported import Shop, export, lines, newest

pytestmark = pytest.mark.slow

# the first ones, and later ones farther and farther apart
STEPS = [1, 2, 3, 5, 8, 13, 21, 34, 55, 89]


@pytest.fixture
async def database(tmp_path):
    async with store_kit.opened("sqlite", tmp_path) as store:
        shop = Shop(await store_kit.leased(store))
        await store.write(exported.many(shop, 1010))
    return tmp_path / "florin.db"


@pytest.mark.parametrize("format_", ["jsonl", "parquet"])
async def test_killed_at_any_step_it_goes_on(database, tmp_path, forks, format_):
    export(database, tmp_path / "everything", format_)
    died = 0
    for at in STEPS:
        out = tmp_path / f"out-{at}"
        killed = ["tests.support.exports_killed", str(database), str(out), format_, str(at)]
        # twice: a run that goes on may die as well
        for _ in range(2):
            died += end(forks.module(*killed)).status == -signal.SIGKILL
        # what counts is whole, and nothing is there twice
        looks_whole(out)
        export(database, out, format_)
        assert tables(out) == tables(tmp_path / "everything"), at
        left = [one for one in out.rglob("*") if one.name.endswith(".tmp")]
        assert left == []
        if format_ == "jsonl":
            for name in ("payments", "events", "ledger"):
                assert len(lines(out, name)) == len(newest(lines(out, name), name))
    assert died >= len(STEPS)


def looks_whole(out):
    try:
        found = folder.read(out)
    except NotExported:
        return
    for name in found.parts:
        assert frames.arrow(out, name, history=True).num_rows == sum(found.parts[name].values())


def tables(out):
    return {
        name: frames.arrow(out, name).drop(["part"]).sort_by([(key, "ascending") for key in keys])
        for name, keys in ((one.name, one.key) for one in folder.read(out).shape.tables)
    }
