"""Run a chain in a separate process, as a node that counts its calls.

The chain is the embedded one, or anvil behind a counter. Each seals a block per transaction.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import aiohttp
import orjson
import pytest
import uvloop
from aiohttp import web
from florin_sandbox.devnet.evm import DEVNET, EvmDevChain, EvmDevSettings

from tests.bench import load
from tests.bench.florin import cpu_s
from tests.bench.load import Address
from tests.support import anvil
from tests.support.anvil_node import sign_faucet_transaction
from tests.support.chains import deploy_devnet_contracts
from tests.support.command import ROOT, CommandForks, Process

# not the embedded chain's own ID: the service has that chain too, and it stays idle
CHAIN_ID = 31338
_BODY_MAX = 2**24
_COIN = hex(10**21)
# a chain without coin is not offered, and its keys are checked every second
NOTICED_S = 1.1
_UNITS = 10**12  # of a token, per buyer
_FUNDED = 100


@dataclass(frozen=True)
class Node:
    """A running node. `chain_pid` is the process that does the chain's work.

    `direct` is the URL of the chain itself, without the counter.
    """

    url: str
    chain_pid: int
    direct: str

    @property
    def address(self) -> Address:
        """Return the address of the chain itself."""
        parts = urlsplit(self.direct)
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port

    def ask(self, method: str, *params: Any) -> Any:
        (result,) = self.ask_all([(method, params)])
        return result

    def ask_all(self, calls: Iterable[tuple[str, Sequence[Any]]]) -> list[Any]:
        """Call the chain itself in one payload; return the results."""
        questions = [
            {"jsonrpc": "2.0", "id": number, "method": method, "params": list(params)}
            for number, (method, params) in enumerate(calls)
        ]
        answers = self._fetch(self.direct, json.dumps(questions).encode())
        refused = [answer["error"] for answer in answers if "error" in answer]
        if refused:
            raise RuntimeError(f"the chain refused {questions[0]['method']}: {refused[0]}")
        by_number = {answer["id"]: answer["result"] for answer in answers}
        return [by_number[number] for number in range(len(questions))]

    def counts(self) -> Counter[str]:
        """Return the calls so far by method."""
        return Counter(self._fetch(f"{self.url}/counts"))

    def cpu_s(self) -> float:
        """Return the processor time of the chain so far."""
        return cpu_s(self.chain_pid)

    def fill(self, address: str) -> None:
        """Give a relayer coin; a running Florin has noticed it when this returns."""
        self.ask("florin_faucet", {"accounts": [address], "nativeWei": _COIN, "tokenUnits": "0x0"})
        time.sleep(NOTICED_S)

    def fund(self, addresses: Sequence[str]) -> None:
        """Give buyers tokens."""
        for start in range(0, len(addresses), _FUNDED):
            part = addresses[start : start + _FUNDED]
            self.ask("florin_faucet", {"accounts": part, "nativeWei": "0x0"})

    def _fetch(self, url: str, data: bytes | None = None) -> Any:
        request = Request(url, data, {"Content-Type": "application/json"})
        with urlopen(request, timeout=load.PATIENCE_S) as answer:
            return json.load(answer)


@dataclass(frozen=True)
class AnvilNode(Node):
    """A node on anvil, which sets balances and mints tokens."""

    def fill(self, address: str) -> None:
        self.ask("anvil_setBalance", address, _COIN)
        time.sleep(NOTICED_S)

    def fund(self, addresses: Sequence[str]) -> None:
        nonce = int(self.ask("eth_getTransactionCount", DEVNET.faucet, "latest"), 16)
        token = bytes.fromhex(DEVNET.token.address[2:])
        raws = []
        for number, address in enumerate(addresses):
            mint = f"0x40c10f19{address[2:].lower().rjust(64, '0')}{_UNITS:064x}"
            raws.append(
                sign_faucet_transaction(nonce + number, to=token, data=mint, chainId=CHAIN_ID)
            )
        # anvil can leave a transaction in its queue forever if it arrives during mining
        self.ask("evm_setAutomine", False)
        for start in range(0, len(raws), _FUNDED):
            part = raws[start : start + _FUNDED]
            self.ask_all(("eth_sendRawTransaction", ("0x" + raw.hex(),)) for raw in part)
            self.ask("evm_mine")
        self.ask("evm_setAutomine", True)
        mined = int(self.ask("eth_getTransactionCount", DEVNET.faucet, "latest"), 16)
        if mined != nonce + len(raws):
            raise RuntimeError(f"{nonce + len(raws) - mined} of {len(raws)} gifts were not mined")


@contextmanager
def node(chain_id: int = CHAIN_ID) -> Iterator[Node]:
    """Run the embedded chain."""
    with _served(None, chain_id) as (url, pid):
        yield Node(url, pid, url)


@contextmanager
def anvil_node() -> Iterator[AnvilNode]:
    """Run anvil; raise the tests' skip exception if it is not installed."""
    with anvil.run_anvil(chain_id=CHAIN_ID) as running:
        deploy_devnet_contracts(running)
        with _served(running.url) as (url, _):
            yield AnvilNode(url, running.pid, running.url)


def nodes() -> Iterator[tuple[str, AbstractContextManager[Node]]]:
    """Yield every available chain, with the suffix of its figures' names."""
    yield "", node()
    with suppress(pytest.skip.Exception):
        anvil.get_program()
        yield "_anvil", anvil_node()


@contextmanager
def _served(upstream: str | None, chain_id: int = CHAIN_ID) -> Iterator[tuple[str, int]]:
    """Serve the embedded chain, or a counter in front of another; yield the URL and the process."""
    with tempfile.TemporaryDirectory(prefix="florin-bench-") as folder:
        process = _start_process(str(Path(folder) / "evm.db"), str(chain_id), upstream or "")
        late = Timer(load.PATIENCE_S, process.kill)
        late.start()
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            late.cancel()
            if not url:
                raise RuntimeError("the chain does not start")
            yield url, process.pid
        finally:
            late.cancel()
            process.kill()
            process.communicate()


def _start_process(*arguments: str) -> Process:
    """Run this module; if figures do not matter, in a fork of a process that has loaded Florin."""
    if (forks := CommandForks.find_shared()) is not None:
        return forks.module("tests.bench.node", *arguments)
    command = [sys.executable, "-m", "tests.bench.node", *arguments]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(command, cwd=ROOT, stdin=nothing, stdout=pipe, text=True)


async def _serve(path: Path, chain_id: int, upstream: str) -> None:
    """Serve until this process is killed; print the URL first."""
    counts: Counter[str] = Counter()
    if not upstream:
        chain = await EvmDevChain.open(path, EvmDevSettings(chain_id=chain_id))
        handle = chain.handle
    else:
        session = aiohttp.ClientSession(headers={"Content-Type": "application/json"})

        async def handle(payload: bytes) -> bytes:
            async with session.post(upstream, data=payload) as answer:
                return await answer.read()

    async def post(request: web.Request) -> web.Response:
        payload = await request.read()
        calls = orjson.loads(payload)
        for call in calls if isinstance(calls, list) else [calls]:
            counts[call["method"]] += 1
        counts["requests"] += 1
        return web.Response(body=await handle(payload), content_type="application/json")

    async def get_counts(_: web.Request) -> web.Response:
        return web.json_response(counts)

    application = web.Application(client_max_size=_BODY_MAX)
    application.router.add_post("/", post)
    application.router.add_get("/counts", get_counts)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_serve(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
