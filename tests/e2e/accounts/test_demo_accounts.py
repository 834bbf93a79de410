"""demo.env: there once its keys work, and good from start to start."""

from __future__ import annotations

import asyncio
import socket
from urllib.parse import urlsplit

import pytest
from florin_server.boot.demo_accounts import ensure_demo
from florin_server.boot.home import Home
from florin_server.boot.service import Service
from florin_server.config import EmbeddedSolana
from florin_server.devnet.evm import EvmDevChain
from florin_server.flows.accounts import demo

from tests.support.api import RestApi
from tests.support.service import running, settings

ORDER = {"amount": {"unit": "iso4217/USD", "value": "1250"}}
CHAINS = ("FLORIN_EVM_RPC_URL", "FLORIN_SOLANA_RPC_URL")


def begun(home):
    return running(home, solana=EmbeddedSolana())


async def test_the_embedded_chains_keep_their_addresses(tmp_path):
    seen = []
    for _ in range(3):
        async with begun(tmp_path) as service:
            env = service.home.read_demo_env()
            assert (env[CHAINS[0]], env[CHAINS[1]]) == (service.evm_rpc_url, service.solana_rpc_url)
            seen.append([env[name] for name in CHAINS])
    assert seen[0] == seen[1] == seen[2]


async def test_an_address_that_somebody_else_has_by_now_is_given_up_and_told(tmp_path, caplog):
    async with begun(tmp_path) as service:
        before = service.home.read_demo_env()
    with socket.create_server(("127.0.0.1", urlsplit(before[CHAINS[0]]).port)):
        async with begun(tmp_path) as service:
            after = service.home.read_demo_env()
    assert after[CHAINS[0]] != before[CHAINS[0]]
    assert after[CHAINS[1]] == before[CHAINS[1]]
    (told,) = [one.message for one in caplog.records if "demo.env changes" in one.message]
    assert "FLORIN_EVM_RPC_URL" in told


async def test_nobody_can_take_the_port_while_the_chain_is_opened(tmp_path, monkeypatch):
    async with begun(tmp_path) as service:
        before = service.evm_rpc_url
    refusals = []
    open_chain = EvmDevChain.open

    async def open_late(*args):
        with pytest.raises(OSError, match="in use") as refusal:
            socket.create_server(("127.0.0.1", urlsplit(before).port))
        refusals.append(refusal)
        return await open_chain(*args)

    monkeypatch.setattr(EvmDevChain, "open", open_late)
    async with begun(tmp_path) as service:
        assert service.evm_rpc_url == before
    assert len(refusals) == 1


@pytest.mark.parametrize("address", ["http://10.0.0.1:80", "http://127.0.0.1:x", "http://[", "-"])
async def test_an_address_that_is_none_of_ours_is_no_port_of_ours(tmp_path, address):
    async with begun(tmp_path) as service:
        env = service.home.read_demo_env()
        service.home.write_demo_env({**env, CHAINS[0]: address})
    async with begun(tmp_path) as service:
        assert urlsplit(service.evm_rpc_url).hostname == "127.0.0.1"
        assert service.home.read_demo_env()[CHAINS[0]] == service.evm_rpc_url


async def test_there_is_no_file_before_its_keys_work(tmp_path, session, monkeypatch):
    home, stored = Home(tmp_path), asyncio.Event()
    store = demo.store

    async def looked_at(app, made):
        assert home.read_demo_env() == {}
        await store(app, made)
        assert home.read_demo_env() == {}
        stored.set()

    monkeypatch.setattr(demo, "store", looked_at)
    # what an installation left that is not there any more
    home.open().write_demo_env({"FLORIN_PARTNER_KEY": "old"})
    async with running(tmp_path) as service:
        assert stored.is_set()
        env = service.home.read_demo_env()
        created = await RestApi(session, env["FLORIN_BASE_URL"], env).create(ORDER)
        assert created["status"] == "requires_action"


@pytest.mark.parametrize("died", ["before", "after"])
async def test_a_start_that_died_on_the_way_leaves_no_keys_that_nobody_knows(
    tmp_path, session, monkeypatch, died
):
    store = demo.store

    async def dies(app, made):
        if died == "after":
            await store(app, made)
        raise KeyboardInterrupt

    home = Home(tmp_path)
    service = await Service.start(settings(tmp_path))
    with monkeypatch.context() as changed:
        changed.setattr(demo, "store", dies)
        with pytest.raises(KeyboardInterrupt):
            await ensure_demo(service)
    assert not home.demo_env.exists()
    await service.stop()
    async with running(tmp_path) as service:
        env = service.home.read_demo_env()
        created = await RestApi(session, env["FLORIN_BASE_URL"], env).create(ORDER)
        assert created["status"] == "requires_action"
        assert service.evm_rpc_url == env["FLORIN_EVM_RPC_URL"]
    assert [one.name for one in tmp_path.glob("demo.env*")] == ["demo.env"]


async def test_keys_that_were_never_stored_do_not_come_back(tmp_path):
    """Left by a start that died, before somebody made accounts of his own."""
    async with running(tmp_path) as service:
        home, env = service.home, service.home.read_demo_env()
    async with running(tmp_path / "other") as service:
        foreign = service.home.read_demo_env()
    for partner_key in (foreign["FLORIN_PARTNER_KEY"], "nonsense", ""):
        home.prepare_demo_env({**env, "FLORIN_PARTNER_KEY": partner_key})
        async with running(tmp_path):
            assert home.read_demo_env() == {}
        assert [one.name for one in tmp_path.glob("demo.env*")] == []
