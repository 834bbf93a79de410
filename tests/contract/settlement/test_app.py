"""Who works in a service is known when it is put together, and nobody is added later."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from types import MappingProxyType
from typing import Any, cast

import pytest
from florin_server.boot.app import app_of, core_of
from florin_server.clock import SystemClock
from florin_server.config import Settings
from florin_server.flows.app import App
from florin_server.store.engine.opening import open_store
from florin_server.workers.housekeeping.keep_books import BookKeeper
from florin_server.workers.payouts.pay_out import PayoutWorker
from florin_server.workers.settlement.settle import ChainSettler

from tests.support.evm_lab import CHAIN, RELAYER, open_lab
from tests.support.payout_lab import TREASURY
from tests.support.service import running

REGISTRIES = ("rails", "chains", "settlers", "payout_workers", "executors")
TOUCHED: tuple[Any, ...] = (
    lambda registry: registry.update({"eip155:1": None}),
    lambda registry: registry.__setitem__("eip155:1", None),
    lambda registry: registry.pop(CHAIN),
    lambda registry: registry.clear(),
)


@pytest.fixture
async def lab():
    opened = await open_lab(treasury=TREASURY)
    yield opened
    await opened.rail.close()
    await opened.chain.close()


@pytest.fixture
async def store(tmp_path):
    opened = await open_store(tmp_path / "florin.db")
    yield opened
    await opened.close()


def put_together(tmp_path, store, rail) -> App:
    core = core_of(Settings(home=tmp_path), store, SystemClock(), [rail])
    payouts = PayoutWorker(core, rail, rail.payouts, "owner")
    return app_of(core, [ChainSettler(core, rail, "owner")], [payouts])


async def test_an_app_knows_all_who_work_in_it(tmp_path, store, lab):
    app = put_together(tmp_path, store, lab.rail)
    for registry in ("rails", "chains", "settlers", "payout_workers"):
        assert getattr(app, registry).keys() == {CHAIN}, registry
    senders = {RELAYER.address, TREASURY.address}
    assert app.executors.keys() == {f"{CHAIN}:{address}" for address in senders}


async def test_nobody_is_added_to_an_app_or_taken_out_of_it(tmp_path, store, lab):
    app = put_together(tmp_path, store, lab.rail)
    maps = {one.name for one in fields(app) if isinstance(getattr(app, one.name), MappingProxyType)}
    assert maps == set(REGISTRIES)
    for registry in REGISTRIES:
        for touch in TOUCHED:
            with pytest.raises((TypeError, AttributeError)):
                touch(getattr(app, registry))
        with pytest.raises(FrozenInstanceError):
            setattr(cast("Any", app), registry, {})


async def test_whoever_is_made_for_an_app_changes_nothing_of_it(tmp_path, store, lab):
    app = put_together(tmp_path, store, lab.rail)
    before = {one.name: repr(getattr(app, one.name)) for one in fields(app)}
    ChainSettler(app, lab.rail, "another")
    PayoutWorker(app, lab.rail, lab.rail.payouts, "another")
    BookKeeper(app, lab.rail)
    assert {one.name: repr(getattr(app, one.name)) for one in fields(app)} == before


async def test_without_workers_there_are_rails_and_nobody_else(tmp_path, store, lab):
    app = app_of(core_of(Settings(home=tmp_path), store, SystemClock(), [lab.rail]))
    assert app.rails.keys() == app.chains.keys() == {CHAIN}
    assert not app.settlers
    assert not app.payout_workers
    assert not app.executors


async def test_a_service_runs_a_settler_and_a_payout_worker_on_every_chain(tmp_path):
    async with running(tmp_path) as service:
        app = service.app
        assert app.settlers.keys() == app.payout_workers.keys() == app.chains.keys()
        senders = {f"{one.chain_id}:{key}" for one in app.rails.values() for key in one.senders}
        treasuries = {one.treasury for one in app.rails.values()}
        assert app.executors.keys() == senders | treasuries
