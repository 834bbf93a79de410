"""One process of a service, as its supervisor controls it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol, Self

from florin_server.app.processes.child_config import DRAIN_LINE, READY_LINE, ChildConfig


class ChildProcess(Protocol):
    """A started process; it ends when its supervisor does."""

    @property
    def pid(self) -> int:
        """Return its process id."""

    @property
    def lease_owner(self) -> str:
        """Return the name under which it takes leases."""

    async def wait_until_ready(self) -> bool:
        """Return True once it answers; False if it ended first."""

    async def wait_for_heartbeat(self) -> None:
        """Return when it reports that it works, or has ended."""

    async def wait_until_ended(self) -> int:
        """Return its status, below 0 for a signal, once it has ended."""

    def drain(self) -> None:
        """Let it leave its callers to other processes, and end."""

    def stop(self) -> None:
        """Let it stop in order, now."""

    def kill(self) -> None:
        """End it."""


class SpawnedProcess:
    """A fresh interpreter: libraries with threads of their own do not survive a fork."""

    def __init__(self, process: asyncio.subprocess.Process, lease_owner: str) -> None:
        if process.stdin is None or process.stdout is None:
            raise ValueError("the child process has no pipes")
        self._process, self._stdin, self._stdout = process, process.stdin, process.stdout
        self.lease_owner = lease_owner

    @classmethod
    async def spawn(cls, command: Sequence[str], order: ChildConfig) -> Self:
        """Start a process; OSError if that is not possible."""
        # systemd listens to the supervisor
        env = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=env,
            pass_fds=order.list_socket_numbers(),
            # a terminal's Ctrl-C is for the supervisor
            start_new_session=True,
        )
        child = cls(process, order.owner)
        child._send(order.to_line())
        return child

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._process.pid

    async def wait_until_ready(self) -> bool:
        """Return True once it answers; False if it ended first."""
        return await self._stdout.readline() == READY_LINE

    async def wait_for_heartbeat(self) -> None:
        """Return when it reports that it works, or has ended."""
        if not await self._stdout.readline():
            await self._process.wait()

    async def wait_until_ended(self) -> int:
        """Return its status, below 0 for a signal, once it has ended."""
        return await self._process.wait()

    def drain(self) -> None:
        """Let it leave its callers to other processes, and end."""
        self._send(DRAIN_LINE)

    def stop(self) -> None:
        """Let it stop in order, now."""
        with suppress(ProcessLookupError):
            self._process.terminate()

    def kill(self) -> None:
        """End it."""
        with suppress(ProcessLookupError):
            self._process.kill()

    def _send(self, line: bytes) -> None:
        # a process that has ended receives nothing, which is noticed elsewhere
        with suppress(OSError, RuntimeError):
            self._stdin.write(line)
