"""A TCP relay that cuts a connection exactly when certain bytes come by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self


@dataclass
class Relay:
    """Stands before a server; `port` is its own, and stays while the one behind it changes.

    `cut` plans one cut: what holds the bytes is not passed on, both ends are closed, and the act
    is done in between. The server sees the connections come from `source`.
    """

    behind: int
    source: str = "127.0.0.1"
    _planned: tuple[bytes, Callable[[], None]] | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self, at: bytes, act: Callable[[], None]) -> None:
        self._planned = (at, act)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._relay(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, here = await asyncio.open_connection(
                "127.0.0.1", self.behind, local_addr=(self.source, 0)
            )
        except OSError:
            writer.transport.abort()
            return
        ways = [
            asyncio.ensure_future(one)
            for one in (self._pass(reader, here), self._pass(there, writer))
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in ways:
                one.cancel()
            here.transport.abort()
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                if self._planned is not None and self._planned[0] in data:
                    (_, act), self._planned = self._planned, None
                    act()
                    return
                writer.write(data)
                await writer.drain()
