"""Processes of two releases on one database, behind a balancer that uses `/readyz`."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from tests.support.api import RestApi
from tests.support.command import RunningCommand
from tests.support.processes import ProcessInstallation
from tests.support.released_versions import ReleasedCode

_LOOK_S = 0.05
_ANSWER_S = 2.0
# A process answers everything for so long after /readyz has reported its end: longer than a look of
# the balancer may take.
_DRAIN_S = "3"


@dataclass
class Node:
    """A process with a state folder of its own, as on another machine."""

    command: RunningCommand
    url: str
    log: Path


@dataclass
class Balancer:
    """Polls which nodes are ready, and takes them in turn."""

    nodes: list[Node] = field(default_factory=list)
    ready: list[str] = field(default_factory=list)
    _turn: int = 0

    def choose(self) -> str:
        self._turn += 1
        return self.ready[self._turn % len(self.ready)]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(_ANSWER_S)) as session:
            task = asyncio.create_task(self._run(session))
            try:
                yield
            finally:
                task.cancel()
                await asyncio.wait([task])

    async def _run(self, session: aiohttp.ClientSession) -> None:
        while True:
            urls = [node.url for node in self.nodes]
            results = await asyncio.gather(*(self._is_ready(session, url) for url in urls))
            self.ready = [url for url, ready in zip(urls, results, strict=True) if ready]
            await asyncio.sleep(_LOOK_S)

    async def _is_ready(self, session: aiohttp.ClientSession, url: str) -> bool:
        with suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with session.get(f"{url}/readyz") as answer:
                return answer.status == 200
        return False


class BalancedApi(RestApi):
    """REST client that calls another node each time."""

    def __init__(
        self, session: aiohttp.ClientSession, balancer: Balancer, accounts: dict[str, str]
    ) -> None:
        self._balancer = balancer
        super().__init__(session, "", accounts)

    @property
    def base(self) -> str:
        return self._balancer.choose()

    @base.setter
    def base(self, _value: str) -> None:
        """Ignore the value: the balancer chooses the address."""


@dataclass
class Roll:
    """Starts and ends the processes of an installation."""

    at: ProcessInstallation
    balancer: Balancer
    older: ReleasedCode

    async def start(self, name: str, *, older: bool = False, **more: str) -> Node:
        """Start a process of this release, or of the older one, and let the balancer find it."""
        home = self.at.home.parent / name / "home"
        home.mkdir(mode=0o700, parents=True)
        shutil.copy(self.at.home / "secrets.json", home)
        here = ProcessInstallation(
            home, self.at.store, self.at.control, self.at.node, self.at.env, self.at.accounts
        )
        program: Sequence[str] = self.older.program if older else ()
        variables = {"FLORIN_DRAIN_S": _DRAIN_S, **(self.older.variables if older else {}), **more}
        command = await asyncio.to_thread(here.start_lasting, "serve", program=program, **variables)
        addresses = command.home.find_addresses()
        assert addresses is not None
        node = Node(command, addresses["http"], here.log)
        self.balancer.nodes.append(node)
        return node

    async def end(self, node: Node) -> None:
        """End a process in order, as a supervisor does."""
        node.command.send_signal(signal.SIGTERM)
        ended = await asyncio.to_thread(node.command.wait_ended)
        self.balancer.nodes.remove(node)
        assert ended.status == 0, node.log.read_text()

    async def end_all(self) -> None:
        for node in list(self.balancer.nodes):
            await self.end(node)
