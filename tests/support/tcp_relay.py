"""TCP relay that cuts a connection exactly when certain bytes pass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self


@dataclass
class TcpRelay:
    """Relays to a server; `port` is its own, and stays the same when the server is replaced.

    `cut` plans one cut: the data with the bytes is not forwarded, `act` runs, and both ends are
    closed. The server sees the connections come from `source`. While it is `silent` it drops every
    byte, and while `stalled` it stops reading; `refuse` breaks all connections, and new ones until
    `heal`.
    """

    behind: int | Path
    source: str = "127.0.0.1"
    _planned: tuple[bytes, Callable[[], None]] | None = None
    silent: bool = False
    stalled: bool = False
    _refuses: bool = False
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

    def refuse(self) -> None:
        self._refuses = True
        for task in self._tasks:
            task.cancel()

    def heal(self) -> None:
        """Forward everything again, on new connections: the old ones lack the dropped bytes."""
        self.refuse()
        self.silent = self.stalled = self._refuses = False

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._relay(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._refuses:
                raise ConnectionRefusedError
            if isinstance(self.behind, Path):
                there, here = await asyncio.open_unix_connection(self.behind)
            else:
                there, here = await asyncio.open_connection(
                    "127.0.0.1", self.behind, local_addr=(self.source, 0)
                )
        except OSError:
            writer.transport.abort()
            return
        ways = [
            asyncio.ensure_future(item)
            for item in (self._pass(reader, here), self._pass(there, writer))
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in ways:
                task.cancel()
            here.transport.abort()
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                if self._planned is not None and self._planned[0] in data:
                    (_, act), self._planned = self._planned, None
                    act()
                    return
                if self.stalled:
                    # until the connection ends
                    await asyncio.Event().wait()
                if self.silent:
                    continue
                writer.write(data)
                await writer.drain()
