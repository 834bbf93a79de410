"""One process of `florin serve --workers N`: its supervisor starts it, and tells it what to do."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress

from florin_server.boot.home import Refused
from florin_server.boot.processes.order import ALIVE, ALIVE_S, MAKE_WAY, READY, Order
from florin_server.boot.processes.sharing import check_same
from florin_server.cli.console import fail
from florin_server.cli.service.serve import started
from florin_server.cli.service.signals import run_until_signalled, stop_with
from florin_server.cli.settings import log_to_stderr, settings_of
from florin_server.clock import SystemClock, first_of
from florin_server.config import Settings

# bytes of an order: a few settings, and names of the dead
_ORDER_MAX = 65_536


def main() -> None:
    """Reads the order, and runs until it is told to stop or its supervisor dies."""
    # what is printed is for people, and the pipe is the supervisor's
    report = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    order = Order.of(_line(sys.stdin.fileno()))
    settings = settings_of(dict(order.given))
    log_to_stderr(settings, order.number)
    try:
        check_same(settings, order.store)
    except Refused as error:
        fail("Florin does not start", error)
    run_until_signalled(_run(settings, order, report))


def _line(pipe: int) -> bytes:
    """The first line, and nothing of what comes after it; ends if nobody says one."""
    line = b""
    while not line.endswith(b"\n"):
        if not (more := os.read(pipe, 1)) or len(line) == _ORDER_MAX:
            raise SystemExit(1)
        line += more
    return line


async def _run(settings: Settings, order: Order, report: int) -> None:
    asked = asyncio.Event()

    def told(words: bytes) -> None:
        if MAKE_WAY in words:
            asked.set()

    stop_with(sys.stdin.fileno(), told)
    service = await started(settings, order.role, order.handed())
    # a supervisor that reads nothing stops nobody
    os.set_blocking(report, False)
    _say(report, READY)
    alive = asyncio.create_task(_alive(report))
    try:
        failed = asyncio.create_task(service.workers.failed())
        await first_of(asked.wait(), asyncio.wait([failed]))
        if failed.done():
            failed.result()
        await service.make_way()
    finally:
        await service.stop()
        alive.cancel()


async def _alive(report: int) -> None:
    """Says for as long as it is asked to that tasks of this process get their turn."""
    clock = SystemClock()
    while True:
        await clock.sleep(ALIVE_S)
        _say(report, ALIVE)


def _say(report: int, word: bytes) -> None:
    # one that has ended is found out elsewhere
    with suppress(OSError):
        os.write(report, word)


if __name__ == "__main__":
    main()
