"""One process of `florin serve --workers N`, which its supervisor starts and controls."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress

from florin_server.app.home import SetupError
from florin_server.app.processes.child_config import (
    ALIVE_LINE,
    DRAIN_LINE,
    HEARTBEAT_S,
    READY_LINE,
    ChildConfig,
)
from florin_server.app.processes.sharing import require_same_shared
from florin_server.base.clock import SystemClock, wait_for_first
from florin_server.cli.console import fail
from florin_server.cli.service.serve import start_service
from florin_server.cli.service.signals import run_until_signalled, stop_when_closed
from florin_server.cli.settings import get_settings, log_to_stderr
from florin_server.settings import Settings

# the most bytes of a configuration: a few settings, and names of dead processes
_CONFIG_BYTES_MAX = 65_536


def main() -> None:
    """Read the configuration, and run until the supervisor stops it or dies."""
    # stdout is the pipe to the supervisor; printed text goes to stderr instead
    report = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    order = ChildConfig.from_line(_read_line(sys.stdin.fileno()))
    settings = get_settings(dict(order.overrides))
    log_to_stderr(settings, order.number)
    try:
        require_same_shared(settings, order.store)
    except SetupError as error:
        fail("Florin does not start", error)
    run_until_signalled(_run(settings, order, report))


def _read_line(pipe: int) -> bytes:
    """Read the first line, and no byte after it; end the program at end of file."""
    line = b""
    while not line.endswith(b"\n"):
        if not (more := os.read(pipe, 1)) or len(line) == _CONFIG_BYTES_MAX:
            raise SystemExit(1)
        line += more
    return line


async def _run(settings: Settings, order: ChildConfig, report: int) -> None:
    event = asyncio.Event()

    def handle_message(message: bytes) -> None:
        if DRAIN_LINE in message:
            event.set()

    stop_when_closed(sys.stdin.fileno(), handle_message)
    service = await start_service(settings, order.role, order.take_sockets())
    # a supervisor that does not read must not block this process
    os.set_blocking(report, False)
    _send(report, READY_LINE)
    alive = asyncio.create_task(_send_heartbeats(report))
    try:
        failed = asyncio.create_task(service.workers.wait_for_failure())
        await wait_for_first(event.wait(), asyncio.wait([failed]))
        if failed.done():
            failed.result()
        await service.drain()
    finally:
        await service.stop()
        alive.cancel()


async def _send_heartbeats(report: int) -> None:
    """Report regularly that the event loop of this process still runs its tasks."""
    clock = SystemClock()
    while True:
        await clock.sleep(HEARTBEAT_S)
        _send(report, ALIVE_LINE)


def _send(report: int, word: bytes) -> None:
    # another check notices a dead supervisor
    with suppress(OSError):
        os.write(report, word)


if __name__ == "__main__":
    main()
