"""demo.env: it appears once its keys work, and stays valid over restarts."""

from __future__ import annotations

import asyncio
import socket
from urllib.parse import urlsplit

import pytest
from florin_sandbox import demo
from florin_sandbox.demo_accounts import ensure_demo_accounts
from florin_sandbox.devnet.evm import EvmDevChain
from florin_server.app.home import StateFolder
from florin_server.app.service import FlorinService
from florin_server.settings import EmbeddedSolanaSettings

from tests.support.api import RestApi
from tests.support.service import make_settings, run_service

ORDER = {"amount": {"unit": "iso4217/USD", "value": "1250"}}
CHAINS = ("FLORIN_EVM_RPC_URL", "FLORIN_SOLANA_RPC_URL")


def run_demo_service(home):
    return run_service(home, solana=EmbeddedSolanaSettings())


async def test_the_embedded_chains_keep_their_addresses(tmp_path):
    seen = []
    for _ in range(3):
        async with run_demo_service(tmp_path) as service:
            env = service.home.read_demo_env()
            assert (env[CHAINS[0]], env[CHAINS[1]]) == (service.evm_rpc_url, service.solana_rpc_url)
            seen.append([env[name] for name in CHAINS])
    assert seen[0] == seen[1] == seen[2]


async def test_demo_address_taken_by_another_program_is_replaced_and_reported(tmp_path, caplog):
    async with run_demo_service(tmp_path) as service:
        before = service.home.read_demo_env()
    with socket.create_server(("127.0.0.1", urlsplit(before[CHAINS[0]]).port)):
        async with run_demo_service(tmp_path) as service:
            after = service.home.read_demo_env()
    assert after[CHAINS[0]] != before[CHAINS[0]]
    assert after[CHAINS[1]] == before[CHAINS[1]]
    (result,) = [
        record.message for record in caplog.records if "demo.env changes" in record.message
    ]
    assert "FLORIN_EVM_RPC_URL" in result


async def test_chain_port_is_reserved_while_the_chain_opens(tmp_path, monkeypatch):
    async with run_demo_service(tmp_path) as service:
        before = service.evm_rpc_url
    refusals = []
    open_chain = EvmDevChain.open

    async def open_late(*args):
        with pytest.raises(OSError, match="in use") as refusal:
            socket.create_server(("127.0.0.1", urlsplit(before).port))
        refusals.append(refusal)
        return await open_chain(*args)

    monkeypatch.setattr(EvmDevChain, "open", open_late)
    async with run_demo_service(tmp_path) as service:
        assert service.evm_rpc_url == before
    assert len(refusals) == 1


@pytest.mark.parametrize("address", ["http://10.0.0.1:80", "http://127.0.0.1:x", "http://[", "-"])
async def test_an_address_that_is_none_of_ours_is_no_port_of_ours(tmp_path, address):
    async with run_demo_service(tmp_path) as service:
        env = service.home.read_demo_env()
        service.home.write_demo_env({**env, CHAINS[0]: address})
    async with run_demo_service(tmp_path) as service:
        assert urlsplit(service.evm_rpc_url).hostname == "127.0.0.1"
        assert service.home.read_demo_env()[CHAINS[0]] == service.evm_rpc_url


async def test_there_is_no_file_before_its_keys_work(tmp_path, session, monkeypatch):
    home, stored = StateFolder(tmp_path), asyncio.Event()
    store = demo.store

    async def looked_at(app, created_created):
        assert home.read_demo_env() == {}
        await store(app, created_created)
        assert home.read_demo_env() == {}
        stored.set()

    monkeypatch.setattr(demo, "store", looked_at)
    # left by an installation that no longer exists
    home.open().write_demo_env({"FLORIN_PARTNER_KEY": "old"})
    async with run_service(tmp_path) as service:
        assert stored.is_set()
        env = service.home.read_demo_env()
        created = await RestApi(session, env["FLORIN_BASE_URL"], env).create(ORDER)
        assert created["status"] == "requires_action"


@pytest.mark.parametrize("died", ["before", "after"])
async def test_interrupted_start_leaves_no_unusable_keys(tmp_path, session, monkeypatch, died):
    store = demo.store

    async def dies(app, created_created):
        if died == "after":
            await store(app, created_created)
        raise KeyboardInterrupt

    home = StateFolder(tmp_path)
    service = await FlorinService.start(make_settings(tmp_path))
    with monkeypatch.context() as changed:
        changed.setattr(demo, "store", dies)
        with pytest.raises(KeyboardInterrupt):
            await ensure_demo_accounts(service)
    assert not home.demo_env_path.exists()
    await service.stop()
    async with run_service(tmp_path) as service:
        env = service.home.read_demo_env()
        created = await RestApi(session, env["FLORIN_BASE_URL"], env).create(ORDER)
        assert created["status"] == "requires_action"
        assert service.evm_rpc_url == env["FLORIN_EVM_RPC_URL"]
    assert [item.name for item in tmp_path.glob("demo.env*")] == ["demo.env"]


async def test_keys_that_were_never_stored_do_not_come_back(tmp_path):
    """A start that died left the keys before other accounts were created."""
    async with run_service(tmp_path) as service:
        home, env = service.home, service.home.read_demo_env()
    async with run_service(tmp_path / "other") as service:
        foreign = service.home.read_demo_env()
    for partner_key in (foreign["FLORIN_PARTNER_KEY"], "nonsense", ""):
        home.prepare_demo_env({**env, "FLORIN_PARTNER_KEY": partner_key})
        async with run_service(tmp_path):
            assert home.read_demo_env() == {}
        assert [item.name for item in tmp_path.glob("demo.env*")] == []
