"""Open streams, whose callers are proved again whenever accounts have changed.

A stream may be silent for hours: a key that is revoked meanwhile, or a partner that is suspended,
ends it at once and not at its next message. However often accounts change, all streams are looked
at no more than twice a second, and each credential once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Hashable
from typing import Any

from florin_server.domain.errors import FlorinError
from florin_server.flows.app import Accounts
from florin_server.store.engine.query import StoreError

_PAUSE_S = 0.5
# that many credentials are proved before others have the event loop
_BATCH = 100

Prove = Callable[[], Awaitable[object]]


class OpenStream:
    """One stream. `credential` names its caller; `prove` raises FlorinError if it is refused now.

    Streams of one credential are proved together.
    """

    __slots__ = ("_before", "_refusal", "_task", "credential", "prove")

    def __init__(self, credential: Hashable, prove: Prove) -> None:
        self.credential = credential
        self.prove = prove
        self._refusal: FlorinError | None = None
        # while it waits for a message: the task that does, and how often that was cancelled before
        self._task: asyncio.Task[Any] | None = None
        self._before = 0

    def refuse(self, refusal: FlorinError) -> None:
        """End the stream with a refusal, at its next step if it is not waiting."""
        if self._refusal is None:
            self._refusal = refusal
            if self._task is not None:
                self._task.cancel()

    async def read(self, messages: AsyncIterator[Any]) -> AsyncGenerator[Any]:
        """Yield the messages until the caller is refused; FlorinError then."""
        try:
            while True:
                self._check()
                try:
                    message = await self._next(messages)
                except StopAsyncIteration:
                    return
                self._check()
                yield message
        finally:
            if isinstance(messages, AsyncGenerator):
                await messages.aclose()

    def _check(self) -> None:
        if self._refusal is not None:
            raise self._refusal

    async def _next(self, messages: AsyncIterator[Any]) -> Any:
        # another task may read the next message
        self._task = task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a stream is read by a task")
        self._before = task.cancelling()
        try:
            return await anext(messages)
        except asyncio.CancelledError:
            # one of the caller, which left, comes through
            if self._refusal is None or task.uncancel() > self._before:
                raise
            raise self._refusal from None
        finally:
            self._task = None


class OpenStreams:
    """The streams of one gate."""

    def __init__(self, accounts: Accounts) -> None:
        self._streams: set[OpenStream] = set()
        self._due = False
        self._looking: asyncio.Task[None] | None = None
        accounts.listeners.append(self._look)

    def add(self, stream: OpenStream) -> None:
        """Prove a stream's caller again from now on."""
        self._streams.add(stream)

    def discard(self, stream: OpenStream) -> None:
        """Forget a stream that has ended."""
        self._streams.discard(stream)

    async def close(self) -> None:
        """Stop looking."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])

    def _look(self) -> None:
        if not self._streams:
            return
        self._due = True
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._run(), name="open-streams")

    async def _run(self) -> None:
        while self._due:
            self._due = False
            await self._prove_all()
            # what changed meanwhile is looked at together
            await asyncio.sleep(_PAUSE_S)

    async def _prove_all(self) -> None:
        by_credential: dict[Hashable, list[OpenStream]] = {}
        for stream in self._streams:
            by_credential.setdefault(stream.credential, []).append(stream)
        for number, streams in enumerate(by_credential.values(), 1):
            try:
                await streams[0].prove()
            except FlorinError as refusal:
                for stream in streams:
                    stream.refuse(refusal)
            except StoreError:
                # nobody is refused because the store is away
                self._due = True
            if number % _BATCH == 0:
                await asyncio.sleep(0)
