"""One process of a service, as its supervisor has it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol, Self

from florin_server.boot.processes.order import MAKE_WAY, READY, Order


class Child(Protocol):
    """A process that was started; it ends by itself when its supervisor does."""

    @property
    def pid(self) -> int:
        """Its id."""

    @property
    def owner(self) -> str:
        """By what name it takes leases."""

    async def ready(self) -> bool:
        """True once it answers; False if it ended first."""

    async def heard(self) -> None:
        """Returns when it says that it works, or has ended."""

    async def ended(self) -> int:
        """Its status, below 0 for a signal, once it has ended."""

    def make_way(self) -> None:
        """Has it leave its callers to others, and end."""

    def stop(self) -> None:
        """Has it end in order, now."""

    def kill(self) -> None:
        """Ends it."""


class Spawned:
    """A fresh interpreter: libraries with threads of their own do not survive a fork."""

    def __init__(self, process: asyncio.subprocess.Process, owner: str) -> None:
        if process.stdin is None or process.stdout is None:
            raise ValueError("a process without pipes cannot be told anything")
        self._process, self._ear, self._said = process, process.stdin, process.stdout
        self.owner = owner

    @classmethod
    async def of(cls, command: Sequence[str], order: Order) -> Self:
        """Starts one; OSError if there is no room for it."""
        # systemd hears the supervisor
        env = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=env,
            pass_fds=order.sockets(),
            # a terminal's Ctrl-C is for the supervisor
            start_new_session=True,
        )
        child = cls(process, order.owner)
        child._tell(order.line())
        return child

    @property
    def pid(self) -> int:
        """Its id."""
        return self._process.pid

    async def ready(self) -> bool:
        """True once it answers; False if it ended first."""
        return await self._said.readline() == READY

    async def heard(self) -> None:
        """Returns when it says that it works, or has ended."""
        if not await self._said.readline():
            await self._process.wait()

    async def ended(self) -> int:
        """Its status, below 0 for a signal, once it has ended."""
        return await self._process.wait()

    def make_way(self) -> None:
        """Has it leave its callers to others, and end."""
        self._tell(MAKE_WAY)

    def stop(self) -> None:
        """Has it end in order, now."""
        with suppress(ProcessLookupError):
            self._process.terminate()

    def kill(self) -> None:
        """Ends it."""
        with suppress(ProcessLookupError):
            self._process.kill()

    def _tell(self, line: bytes) -> None:
        # one that has ended hears nothing, which is found out elsewhere
        with suppress(OSError, RuntimeError):
            self._ear.write(line)
