"""Test that all workers of a service are created when it is assembled, and none later."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from types import MappingProxyType
from typing import Any, cast

import pytest
from florin_server.app.app import build_app, build_core
from florin_server.app.core import App
from florin_server.base.clock import SystemClock
from florin_server.money.ledger.worker import BookKeeper
from florin_server.money.open_store import open_store
from florin_server.money.payouts.worker.pay_out import PayoutWorker
from florin_server.money.settlement.worker.settle import ChainSettler
from florin_server.settings import Settings

from tests.support.evm_harness import CHAIN, RELAYER, open_lab
from tests.support.payout_harness import TREASURY
from tests.support.service import run_service

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
    core = build_core(Settings(home=tmp_path), store, SystemClock(), [rail])
    payouts = PayoutWorker(core, rail, rail.payouts, "owner")
    return build_app(core, [ChainSettler(core, rail, "owner")], [payouts])


async def test_app_registers_every_worker(tmp_path, store, lab):
    app = put_together(tmp_path, store, lab.rail)
    for registry in ("rails", "chains", "settlers", "payout_workers"):
        assert getattr(app, registry).keys() == {CHAIN}, registry
    senders = {RELAYER.address, TREASURY.address}
    assert app.executors.keys() == {f"{CHAIN}:{address}" for address in senders}


async def test_app_registries_cannot_be_changed(tmp_path, store, lab):
    app = put_together(tmp_path, store, lab.rail)
    maps = {
        field.name
        for field in fields(app)
        if isinstance(getattr(app, field.name), MappingProxyType)
    }
    assert maps == set(REGISTRIES)
    for registry in REGISTRIES:
        for touch in TOUCHED:
            with pytest.raises((TypeError, AttributeError)):
                touch(getattr(app, registry))
        with pytest.raises(FrozenInstanceError):
            setattr(cast("Any", app), registry, {})


async def test_creating_workers_for_an_app_does_not_change_it(tmp_path, store, lab):
    app = put_together(tmp_path, store, lab.rail)
    before = {field.name: repr(getattr(app, field.name)) for field in fields(app)}
    ChainSettler(app, lab.rail, "another")
    PayoutWorker(app, lab.rail, lab.rail.payouts, "another")
    BookKeeper(app, lab.rail)
    assert {field.name: repr(getattr(app, field.name)) for field in fields(app)} == before


async def test_app_without_workers_has_only_rails(tmp_path, store, lab):
    app = build_app(build_core(Settings(home=tmp_path), store, SystemClock(), [lab.rail]))
    assert app.rails.keys() == app.chains.keys() == {CHAIN}
    assert not app.settlers
    assert not app.payout_workers
    assert not app.executors


async def test_a_service_runs_a_settler_and_a_payout_worker_on_every_chain(tmp_path):
    async with run_service(tmp_path) as service:
        app = service.app
        assert app.settlers.keys() == app.payout_workers.keys() == app.chains.keys()
        senders = {f"{rail.chain_id}:{key}" for rail in app.rails.values() for key in rail.senders}
        treasuries = {rail.treasury for rail in app.rails.values()}
        assert app.executors.keys() == senders | treasuries
