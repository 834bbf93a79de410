"""`florin chain add` with several nodes of one chain."""

from __future__ import annotations

import tomllib

import pytest

from tests.support import foreign_chains
from tests.support.chain_commands import ChainCommands, build_add_arguments

pytestmark = pytest.mark.long


@pytest.fixture
def run(home, forks):
    return ChainCommands(forks, home).run_chain


async def test_a_chain_with_several_nodes_is_added_and_each_is_listed(run, home):
    async with foreign_chains.open_embedded(424242) as chain:
        second = chain.url.replace("127.0.0.1", "localhost")
        words = ("--rpc-url", second, "--new-relayer", "--chain", "eip155:424242", "--name", "Two")
        added = await run(*build_add_arguments(chain, *words, "--token", f"{chain.token}:USD"))
        assert added.status == 0, added
        written = tomllib.loads((home / "chains" / "two.toml").read_text())
        assert written["evm"]["rpc_url"] == [chain.url, second]
        head = int(await chain.ask("eth_blockNumber"), 16)
        listed = (await run("list")).out.splitlines()
        *_, nodes = [at for at, line in enumerate(listed) if not line]
        rows = [line.split() for line in listed[nodes + 2 :]]
        assert [(row[0], row[1], row[2], row[-1]) for row in rows] == [
            ("eip155:424242", str(head), "0", "ok")
        ] * 2
        assert ["127.0.0.1" in rows[0][5], "localhost" in rows[1][5]] == [True, True]


async def test_nodes_of_different_chains_are_not_added_together(run, home):
    async with (
        foreign_chains.open_embedded(424242) as chain,
        foreign_chains.open_embedded(424243) as other,
    ):
        words = ("--rpc-url", other.url, "--new-relayer", "--chain", "eip155:424242")
        done = await run(*build_add_arguments(chain, *words, "--name", "Two"))
        assert done.status == 1
        assert "node 2 serves" in done.err
        assert "424243" in done.err
        assert not (home / "chains").exists()
