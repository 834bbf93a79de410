"""A chain in a process of its own, as a node that counts what it is asked."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import aiohttp
import orjson
import uvloop
from aiohttp import web
from florin_server.devnet.evm import EvmDevChain, EvmDevSettings

from tests.bench import load
from tests.bench.florin import cpu_s
from tests.bench.load import Address

# not the embedded chain's own number: the service has that chain too, and it stays idle
CHAIN_ID = 31338
_BODY_MAX = 2**24


@dataclass(frozen=True)
class Node:
    """A running one. `chain_pid` is the process that does the chain's work."""

    url: str
    chain_pid: int

    @property
    def address(self) -> Address:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port

    def ask(self, method: str, *params: Any) -> Any:
        question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        content = self._fetch(self.url, json.dumps(question).encode())
        if "error" in content:
            raise RuntimeError(f"the chain refused {method}: {content['error']}")
        return content["result"]

    def counts(self) -> Counter[str]:
        """Calls so far, by method."""
        return Counter(self._fetch(f"{self.url}/counts"))

    def cpu_s(self) -> float:
        """Processor time of the chain so far."""
        return cpu_s(self.chain_pid)

    def _fetch(self, url: str, data: bytes | None = None) -> Any:
        request = Request(url, data, {"Content-Type": "application/json"})
        with urlopen(request, timeout=load.PATIENCE_S) as answer:
            return json.load(answer)


@contextmanager
def node(upstream: str | None = None, chain_pid: int = 0) -> Iterator[Node]:
    """The embedded chain, a block for each transaction, or a node in front of another chain."""
    ours, theirs = get_context("spawn").Pipe()
    with tempfile.TemporaryDirectory(prefix="florin-bench-") as folder:
        process = get_context("spawn").Process(
            target=_run, args=(theirs, Path(folder) / "evm.db", upstream), daemon=True
        )
        process.start()
        try:
            if not ours.poll(load.PATIENCE_S):
                raise RuntimeError("the chain does not start")
            assert process.pid is not None
            yield Node(ours.recv(), chain_pid or process.pid)
        finally:
            process.terminate()
            process.join()


def _run(started: Connection, path: Path, upstream: str | None) -> None:
    uvloop.run(_serve(started, path, upstream))


async def _serve(started: Connection, path: Path, upstream: str | None) -> None:
    counts: Counter[str] = Counter()
    if upstream is None:
        chain = await EvmDevChain.open(path, EvmDevSettings(chain_id=CHAIN_ID))
        handle = chain.handle
    else:
        session = aiohttp.ClientSession(headers={"Content-Type": "application/json"})

        async def handle(payload: bytes) -> bytes:
            async with session.post(upstream, data=payload) as answer:
                return await answer.read()

    async def post(request: web.Request) -> web.Response:
        payload = await request.read()
        asked = orjson.loads(payload)
        for call in asked if isinstance(asked, list) else [asked]:
            counts[call["method"]] += 1
        counts["requests"] += 1
        return web.Response(body=await handle(payload), content_type="application/json")

    async def told(_: web.Request) -> web.Response:
        return web.json_response(counts)

    application = web.Application(client_max_size=_BODY_MAX)
    application.router.add_post("/", post)
    application.router.add_get("/counts", told)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    started.send(f"http://127.0.0.1:{runner.addresses[0][1]}")
    # whoever started it ends it
    await asyncio.Event().wait()
