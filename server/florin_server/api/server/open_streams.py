"""Check the callers of open streams again whenever accounts have changed.

A stream can be silent for hours: if its key is revoked or its partner suspended, it ends at once
and not at its next message. Streams are checked at most twice a second, however often accounts
change, and each credential once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Hashable
from typing import Any

from florin_server.base.notifier import Notifier
from florin_server.base.topics import Topic
from florin_server.db.engine.query import StoreError
from florin_server.domain.errors import ApiError

_CHECK_PAUSE_S = 0.5
# credentials to check before other tasks get the event loop
_BATCH = 100

CallerCheck = Callable[[], Awaitable[object]]


class OpenStream:
    """An open stream; `check_caller` raises ApiError if its caller is refused now.

    Streams with equal credentials are checked together.
    """

    __slots__ = ("_cancel_count", "_refusal", "_task", "check_caller", "credential")

    def __init__(self, credential: Hashable, check_caller: CallerCheck) -> None:
        self.credential = credential
        self.check_caller = check_caller
        self._refusal: ApiError | None = None
        # while it waits for a message: its task, and how often that task was cancelled before
        self._task: asyncio.Task[Any] | None = None
        self._cancel_count = 0

    def refuse(self, refusal: ApiError) -> None:
        """End the stream with an error, at its next step if it is not waiting."""
        if self._refusal is None:
            self._refusal = refusal
            if self._task is not None:
                self._task.cancel()

    async def read_messages(self, messages: AsyncIterator[Any]) -> AsyncGenerator[Any]:
        """Yield the messages until the caller is refused; then raise ApiError."""
        try:
            while True:
                self._raise_refusal()
                try:
                    message = await self._read_next(messages)
                except StopAsyncIteration:
                    return
                self._raise_refusal()
                yield message
        finally:
            if isinstance(messages, AsyncGenerator):
                await messages.aclose()

    def _raise_refusal(self) -> None:
        if self._refusal is not None:
            raise self._refusal

    async def _read_next(self, messages: AsyncIterator[Any]) -> Any:
        # the next message can be read by a different task
        self._task = task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a stream is read by a task")
        self._cancel_count = task.cancelling()
        try:
            return await anext(messages)
        except asyncio.CancelledError:
            # a cancellation by the caller, which left, is passed on
            if self._refusal is None or task.uncancel() > self._cancel_count:
                raise
            raise self._refusal from None
        finally:
            self._task = None


class OpenStreams:
    """The open streams of one interceptor.

    `version` differs whenever accounts have changed.
    """

    def __init__(self, notifier: Notifier) -> None:
        self.version = 0
        self._streams: set[OpenStream] = set()
        self._is_check_due = False
        self._check_task: asyncio.Task[None] | None = None
        notifier.subscribe(Topic.ACCOUNTS, self._schedule_checks)

    def add(self, stream: OpenStream) -> None:
        """Check the caller of a stream from now on."""
        self._streams.add(stream)

    def discard(self, stream: OpenStream) -> None:
        """Remove a stream that has ended."""
        self._streams.discard(stream)

    async def close(self) -> None:
        """Stop the checks."""
        if self._check_task is not None:
            self._check_task.cancel()
            await asyncio.wait([self._check_task])

    def _schedule_checks(self) -> None:
        self.version += 1
        if not self._streams:
            return
        self._is_check_due = True
        if self._check_task is None or self._check_task.done():
            self._check_task = asyncio.get_running_loop().create_task(
                self._run_checks(), name="open-streams"
            )

    async def _run_checks(self) -> None:
        while self._is_check_due:
            self._is_check_due = False
            await self._check_all()
            # changes during the pause are checked together
            await asyncio.sleep(_CHECK_PAUSE_S)

    async def _check_all(self) -> None:
        by_credential: dict[Hashable, list[OpenStream]] = {}
        for stream in self._streams:
            by_credential.setdefault(stream.credential, []).append(stream)
        for number, streams in enumerate(by_credential.values(), 1):
            try:
                await streams[0].check_caller()
            except ApiError as refusal:
                for stream in streams:
                    stream.refuse(refusal)
            except StoreError:
                # no caller is refused because the store is unavailable
                self._is_check_due = True
            if number % _BATCH == 0:
                await asyncio.sleep(0)
