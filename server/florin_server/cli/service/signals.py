"""Run a coroutine until a signal stops it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import uvloop

from florin_server.app import files
from florin_server.cli.console import announce

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_MESSAGE_BYTES_MAX = 4096


def run_until_signalled(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end; SIGINT or SIGTERM cancels it without an error."""
    files.raise_file_limit()
    uvloop.run(_cancel_on_signal(coroutine))


async def _cancel_on_signal(coroutine: Coroutine[Any, Any, None]) -> None:
    loop = asyncio.get_running_loop()
    task = asyncio.current_task(loop)

    def stop() -> None:
        for signum in _SIGNALS:
            # a second signal must not cut the clean-up short
            loop.add_signal_handler(signum, _ignore_signal)
        announce("Stopping …")
        if task is not None:
            task.cancel()

    for signum in _SIGNALS:
        loop.add_signal_handler(signum, stop)
    with suppress(asyncio.CancelledError):
        await coroutine


def stop_when_closed(pipe: int, on_message: Callable[[bytes], object]) -> None:
    """Pass data from a pipe to a callback; raise SIGTERM when the process at its end dies."""
    loop = asyncio.get_running_loop()

    def look() -> None:
        if words := os.read(pipe, _MESSAGE_BYTES_MAX):
            on_message(words)
        else:
            loop.remove_reader(pipe)
            signal.raise_signal(signal.SIGTERM)

    os.set_blocking(pipe, False)
    loop.add_reader(pipe, look)


def set_hangup_handler(handler: Callable[[], object]) -> None:
    """Call `handler` on SIGHUP; on a terminal, keep the default: SIGHUP ends the program."""
    if not sys.stdin.isatty():
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, handler)


def _ignore_signal() -> None:
    """Do nothing: the program already stops."""
