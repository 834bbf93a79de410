"""`florin chain add` with several nodes of one chain."""

from __future__ import annotations

import asyncio
import tomllib

import pytest
from eth_account import Account

from tests.support import foreign
from tests.support.command import CommandResult

pytestmark = pytest.mark.long

TREASURY = Account.from_key(b"\x77" * 32).address
ENVIRONMENT = {
    "FLORIN_EMBEDDED_SOLANA__ENABLED": "false",
    "FLORIN_KEYSTORE_PASSWORD": "correct horse",
}


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def run(home, forks):
    async def command(*words: str) -> CommandResult:
        """Run a command; the chain that it calls is served by this very loop."""
        return await asyncio.to_thread(forks, "chain", *words, home=home, **ENVIRONMENT)

    return command


def _options(chain: foreign.ForeignChain, *more: str) -> tuple[str, ...]:
    return ("add", "--rpc-url", chain.url, "--treasury", TREASURY, "--yes", *more)


async def test_a_chain_with_several_nodes_is_added_and_each_is_listed(run, home):
    async with foreign.open_embedded(424242) as chain:
        second = chain.url.replace("127.0.0.1", "localhost")
        words = ("--rpc-url", second, "--new-relayer", "--chain", "eip155:424242", "--name", "Two")
        added = await run(*_options(chain, *words, "--token", f"{chain.token}:USD"))
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
    async with foreign.open_embedded(424242) as chain, foreign.open_embedded(424243) as other:
        words = ("--rpc-url", other.url, "--new-relayer", "--chain", "eip155:424242")
        done = await run(*_options(chain, *words, "--name", "Two"))
        assert done.status == 1
        assert "node 2 serves" in done.err
        assert "424243" in done.err
        assert not (home / "chains").exists()
