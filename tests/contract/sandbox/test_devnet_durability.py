"""Test that everything the embedded chain confirmed survives a restart, however it ended."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
from pathlib import Path

import pytest
from florin_sandbox.devnet.chainfile import ChainFile
from florin_sandbox.devnet.evm import DEVNET, DevChainError
from florin_sandbox.devnet.evm.chain import EmbeddedEvmChain
from florin_server.base.clock import TestClock

from tests.support.evm_devnet import (
    MERCHANT,
    START_S,
    EvmNodeClient,
    make_account,
    make_payment,
    open_node,
)

RELAYER = make_account(2)
BUYER = make_account(4)

# Calls a chain repeatedly and prints what it answered.
BUSY_CHILD = """
import asyncio, json, pathlib, sys
from florin_sandbox.devnet.chainfile import ChainFile
from florin_sandbox.devnet.evm import EvmDevChain

async def main():
    chain = await EvmDevChain.open(pathlib.Path(sys.argv[1]))
    for number in range(2**32, 2**32 + 10_000):  # the lowest addresses are precompiled contracts
        call = {"id": 1, "method": "florin_faucet", "params": [{"accounts": [f"0x{number:040x}"]}]}
        answer = json.loads(await chain.handle(json.dumps(call).encode()))
        assert "result" in answer, answer
        print(number, answer["result"]["transactions"][-1], flush=True)

asyncio.run(main())
"""


async def everything(node: EvmNodeClient) -> list[object]:
    """Return blocks, transactions, receipts and balances."""
    results: list[object] = []
    for number in range(await node.number() + 1):
        results.append(await node.ask("eth_getBlockByNumber", hex(number), True))
        results.append(await node.ask("eth_getBlockReceipts", hex(number)))
    for text in (RELAYER.address, BUYER.address, MERCHANT, DEVNET.faucet):
        results.append(await node.ask("eth_getBalance", text))
        results.append(await node.ask("eth_getTransactionCount", text))
        results.append(await node.tokens(text))
    return results


async def test_restarted_chain_has_the_same_state_and_continues(tmp_path):
    path, clock = tmp_path / "deeper" / "evm.db", TestClock(START_S * 1_000_000)
    async with open_node(path, clock) as node:
        await node.fund(RELAYER.address, BUYER.address)
        await node.settle(RELAYER, make_payment(BUYER, 1), make_payment(BUYER, 2))
        await node.mine(2)
        await node.ask("florin_fault", {"kind": "reorg", "depth": 2})
        settled = await node.number()
        before = await everything(node)
    clock.advance(60)
    async with open_node(path, clock) as node:
        assert await everything(node) == before
        assert await node.tokens(MERCHANT, hex(1)) == 0
        receipt = await node.settle(RELAYER, make_payment(BUYER, 3))
        assert int(receipt["blockNumber"], 16) == settled + 1
        block = await node.ask("eth_getBlockByNumber", "latest", False)
        assert int(block["timestamp"], 16) == START_S + 60


async def test_blocks_from_before_a_restart_can_be_taken_back(tmp_path):
    path = tmp_path / "evm.db"
    async with open_node(path) as node:
        await node.fund(RELAYER.address, BUYER.address)
        receipt = await node.settle(RELAYER, make_payment(BUYER, 1))
        await node.mine(3)
    drop = [receipt["transactionHash"]]
    async with open_node(path) as node:
        await node.ask("florin_fault", {"kind": "reorg", "depth": 4, "drop": drop})
        assert await node.tokens(MERCHANT) == 0
        branch = await everything(node)
    async with open_node(path) as node:
        assert await everything(node) == branch
        assert (await node.settle(RELAYER, make_payment(BUYER, 1)))["status"] == "0x1"


async def test_answered_transactions_survive_kill_9(tmp_path):
    path = tmp_path / "evm.db"
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", BUSY_CHILD, str(path)),
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
    )
    answered = [(await child.stdout.readline()).decode().split() for _ in range(20)]
    assert all(answered), "it ended without a kill"
    child.send_signal(signal.SIGKILL)
    answered += [line.split() for line in (await child.stdout.read()).decode().splitlines()]
    await child.wait()
    async with open_node(path) as node:
        assert len(answered) >= 20
        for number, transaction in (line for line in answered if len(line) == 2):
            assert (await node.receipt(transaction))["status"] == "0x1"
            assert await node.tokens(f"0x{int(number):040x}") == 10_000_000_000
        await node.fund(BUYER.address)


async def test_waiting_transactions_are_lost_as_in_any_node(tmp_path):
    path = tmp_path / "evm.db"
    async with open_node(path) as node:
        await node.fund(RELAYER.address)
        await node.ask("florin_fault", {"kind": "mining", "paused": True})
        waiting = await node.send(RELAYER, MERCHANT, "0x")
    async with open_node(path) as node:
        assert await node.ask("eth_getTransactionByHash", waiting) is None


async def test_two_chains_cannot_share_a_file(tmp_path):
    path = tmp_path / "evm.db"
    async with open_node(path) as node:
        with pytest.raises(DevChainError, match="another process uses"):
            async with open_node(path):
                pass
        assert await node.number() == 0


@pytest.mark.parametrize("change", [{"chain_id": 5}, {"seed": 5}])
async def test_chain_file_opens_only_with_its_original_parameters(tmp_path, change):
    path = tmp_path / "evm.db"
    async with open_node(path):
        pass
    with pytest.raises(DevChainError, match="another chain id, seed or contracts"):
        async with open_node(path, **change):
            pass


async def test_a_file_of_something_else_is_left_alone(tmp_path):
    path = tmp_path / "evm.db"
    path.write_bytes(b"not a chain at all, but longer than a header" * 50)
    with pytest.raises(DevChainError, match="is not a chain"):
        async with open_node(path):
            pass
    assert path.read_bytes().startswith(b"not a chain")


async def test_a_chain_that_cannot_write_stops_answering(tmp_path, monkeypatch):
    """Its memory is ahead of its file, so no answer could be trusted."""
    path, full = tmp_path / "evm.db", False
    commit = ChainFile.commit

    def committed(file: ChainFile) -> None:
        if full:
            raise sqlite3.OperationalError("database or disk is full")
        commit(file)

    monkeypatch.setattr(ChainFile, "commit", committed)
    async with open_node(path) as node:
        await node.fund(RELAYER.address)
        before = await everything(node)
        full = True
        with pytest.raises(DevChainError, match="cannot be written"):
            await node.mine()
        with pytest.raises(DevChainError, match="cannot be written"):
            await node.number()
    full = False
    async with open_node(path) as node:
        assert await everything(node) == before


async def test_a_start_runs_nothing_of_its_history_again(tmp_path, monkeypatch):
    path = tmp_path / "evm.db"
    async with open_node(path) as node:
        accounts = [f"0x{number:040x}" for number in range(1, 50)]
        await node.ask("florin_faucet", {"accounts": accounts, "nativeWei": "0x0"})
    again: list[object] = []
    monkeypatch.setattr(EmbeddedEvmChain, "_execute", lambda _, fields, **__: again.append(fields))
    async with open_node(path) as node:
        assert await node.tokens(accounts[-1]) == 10_000_000_000
    assert again == []


def test_importing_the_package_is_cheap():
    """Only the first chain imports py-evm."""
    import subprocess

    check = "import sys; import florin_sandbox.devnet.evm; sys.exit('eth.vm' in sys.modules)"
    entries = os.pathsep.join(entry for entry in sys.path if entry)
    answer = subprocess.run(
        [sys.executable, "-c", check], env=os.environ | {"PYTHONPATH": entries}, check=False
    )
    assert answer.returncode == 0
    assert Path(sys.executable).exists()
