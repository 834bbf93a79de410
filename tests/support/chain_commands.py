"""`florin chain` in a home of its own, and its outputs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from eth_account import Account
from florin_server.app.chains.setup import (
    load_forwarder_contract,
    load_opener_contract,
    load_settlement_contract,
)
from florin_server.domain.caip import format_checksum_address

from tests.support.command import CommandForks, CommandResult
from tests.support.foreign_chains import ForeignChain

TREASURY_KEY = b"\x77" * 32
TREASURY = Account.from_key(TREASURY_KEY).address
SETTLER = format_checksum_address(load_settlement_contract().address)
FORWARDER = format_checksum_address(load_forwarder_contract().address)
OPENER = format_checksum_address(load_opener_contract().address)
PASSWORD = "correct horse"
# the cost of opening a keystore; that of new ones is 2**18
_WEAK_N = 2
ENVIRONMENT = {
    "FLORIN_EMBEDDED_SOLANA__ENABLED": "false",
    "FLORIN_KEYSTORE_PASSWORD": PASSWORD,
}


class ChainCommands:
    """Commands on one home; the chain that they call can be served by the test's own loop."""

    def __init__(self, forks: CommandForks, home: Path) -> None:
        self._forks = forks
        self._home = home

    async def run(self, *words: str, **changes: str) -> CommandResult:
        """Run `florin`, with changes of its environment; later commands open new keys fast."""
        done = await asyncio.to_thread(
            self._forks, *words, home=self._home, **{**ENVIRONMENT, **changes}
        )
        await asyncio.to_thread(weaken_keystores, self._home / "keys")
        return done

    async def run_chain(self, *words: str, **changes: str) -> CommandResult:
        """Run `florin chain`, with changes of its environment."""
        return await self.run("chain", *words, **changes)


def weaken_keystores(folder: Path) -> None:
    """Encrypt the keystores of a folder again, so that to open one takes no second."""
    for path in folder.glob("*.json"):
        stored = json.loads(path.read_text())
        # tests also put other files there
        if "crypto" in stored and stored["crypto"]["kdfparams"]["n"] != _WEAK_N:
            secret = Account.decrypt(stored, PASSWORD)
            weak = Account.encrypt(secret, PASSWORD, kdf="scrypt", iterations=_WEAK_N)
            path.write_text(json.dumps({**stored, "crypto": weak["crypto"]}))


def build_add_arguments(chain: ForeignChain, *more: str) -> tuple[str, ...]:
    """Return the arguments of `florin chain add` for a chain."""
    return ("add", "--rpc-url", chain.url, "--treasury", TREASURY, "--yes", *more)


def refused(done: CommandResult) -> str:
    """Return the last sentence of a command that failed."""
    assert (done.status, done.out) == (1, ""), done
    return done.err.splitlines()[-1]


def line_of(done: CommandResult, beginning: str) -> str:
    """Return the rest of the only line that begins so."""
    (line,) = [line for line in done.err.splitlines() if line.startswith(beginning)]
    return line.removeprefix(beginning)
