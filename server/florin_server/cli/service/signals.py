"""Runs what lasts until somebody says stop."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import uvloop

from florin_server.boot import files
from florin_server.cli.console import announce

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_WORDS_MAX = 4096


def run_until_signalled(main: Coroutine[Any, Any, None]) -> None:
    """Runs it to its end; SIGINT or SIGTERM cancels it, which is no failure."""
    files.open_many()
    uvloop.run(_guarded(main))


async def _guarded(main: Coroutine[Any, Any, None]) -> None:
    loop = asyncio.get_running_loop()
    task = asyncio.current_task(loop)

    def stop() -> None:
        for signum in _SIGNALS:
            # a second one must not cut the clean-up short
            loop.add_signal_handler(signum, _ignore)
        announce("Stopping …")
        if task is not None:
            task.cancel()

    for signum in _SIGNALS:
        loop.add_signal_handler(signum, stop)
    with suppress(asyncio.CancelledError):
        await main


def stop_with(pipe: int, told: Callable[[bytes], object]) -> None:
    """Ends as a signal would when whoever has the pipe's other end dies; `told` gets its words."""
    loop = asyncio.get_running_loop()

    def look() -> None:
        if words := os.read(pipe, _WORDS_MAX):
            told(words)
        else:
            loop.remove_reader(pipe)
            signal.raise_signal(signal.SIGTERM)

    os.set_blocking(pipe, False)
    loop.add_reader(pipe, look)


def on_hangup(look: Callable[[], object]) -> None:
    """Has SIGHUP read files again; from a terminal that goes away it ends the program as ever."""
    if not sys.stdin.isatty():
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, look)


def _ignore() -> None:
    """Nothing; the stop is under way."""
