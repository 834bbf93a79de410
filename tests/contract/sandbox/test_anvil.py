"""Test the anvil chain: it starts automatically and stops with its owner."""

from __future__ import annotations

import aiohttp
import pytest
from florin_server.base.clock import TestClock
from florin_server.rails.connection.jsonrpc import JsonRpcClient, LocalTransport

from tests.support import anvil
from tests.support.anvil_node import AnvilNode


def test_a_fresh_chain_answers_and_ends():
    with anvil.run_anvil(chain_id=84532) as first, anvil.run_anvil() as second:
        assert (first.ask("eth_chainId"), second.ask("eth_chainId")) == ("0x14a34", "0x7a69")
        first.ask("evm_mine")
        assert (first.ask("eth_blockNumber"), second.ask("eth_blockNumber")) == ("0x1", "0x0")
    for anvil_process in (first, second):
        with pytest.raises(ConnectionRefusedError):
            anvil_process.ask("eth_chainId")


@pytest.mark.parametrize(
    ("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)]
)
def test_missing_anvil_is_reported_and_fails_in_ci(monkeypatch, tmp_path, ci, outcome):
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(anvil, "BUILD", tmp_path)
    monkeypatch.setattr(anvil, "install_anvil", anvil.install_anvil.__wrapped__)
    with pytest.raises(outcome, match="NOT TESTED against anvil: there is no Node here"):
        anvil.get_program()


async def test_a_reorganisation_makes_other_blocks_though_nothing_else_differs():
    with anvil.run_anvil() as running:
        # neither time nor base fee distinguishes blocks from here on: both are constant
        running.ask("anvil_setBlockTimestampInterval", 0)
        running.ask("anvil_mine", "0x400")
        node = AnvilNode(running.url, TestClock(0), aiohttp.ClientSession())
        try:
            seen = []
            for _ in range(4):
                seen.append(running.ask("eth_getBlockByNumber", "0x400", False)["hash"])
                reorg = {"kind": "reorg", "depth": 1}
                await JsonRpcClient(LocalTransport(node.handle)).call("florin_fault", reorg)
                # anvil mines one more block
                running.ask("anvil_rollback", 1)
        finally:
            await node.close()
    assert len(set(seen)) == 4
