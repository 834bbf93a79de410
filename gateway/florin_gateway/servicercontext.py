"""A look-alike of the context that grpc.aio hands to servicers, for calls inside the process."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from typing import Any, NoReturn

import grpc

from florin_gateway.rpc import CallError, Metadata, joined

logger = logging.getLogger(__name__)

_DONE = object()


class LocalContext(grpc.aio.ServicerContext[Any, Any]):
    """One call as its servicer and the interceptors see it.

    `abort` raises grpc.aio.AbortError as the real one does; a servicer that swallows it has
    still ended the call with the status it named.
    """

    def __init__(self, metadata: Metadata, timeout_s: float, peer: str) -> None:
        self._metadata = metadata
        self._deadline = time.monotonic() + timeout_s
        self._peer = peer
        self._initial: Metadata = ()
        self._trailing: Metadata = ()
        self._code: grpc.StatusCode | None = None
        self._details = ""
        self._aborted = False
        self._cancelled = False
        self._done = False
        self._callbacks: list[Callable[[Any], None]] = []
        self._written: asyncio.Queue[Any] | None = None

    # what the servicer reads
    def invocation_metadata(self) -> Any:
        """The metadata of the request."""
        return self._metadata

    def peer(self) -> str:
        """Address of the HTTP client."""
        return self._peer

    def time_remaining(self) -> float:
        """Seconds until the deadline, never negative."""
        return max(0.0, self._deadline - time.monotonic())

    def peer_identities(self) -> Iterable[bytes] | None:
        """Nobody: there is no transport between."""
        return None

    def peer_identity_key(self) -> str | None:
        """None: there is no transport between."""
        return None

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """Empty: there is no transport between."""
        return {}

    def cancelled(self) -> bool:
        """True once the call was cancelled."""
        return self._cancelled

    def done(self) -> bool:
        """True once the call is over."""
        return self._done

    async def read(self) -> Any:
        """Never: requests are single messages here."""
        raise grpc.aio.UsageError("a unary request cannot be read as a stream")

    # what the servicer answers
    async def write(self, message: Any) -> None:
        """Hand out one message of a stream whose handler is a plain coroutine."""
        if self._written is None:
            raise grpc.aio.UsageError("only a streaming coroutine handler writes")
        self._written.put_nowait(message)
        # lets the reader take it, as a write to a transport would
        await asyncio.sleep(0)

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()
    ) -> NoReturn:
        """End the call with a status; earlier trailing metadata stays unless new one is given."""
        self._code, self._details = code, details
        self._trailing = tuple(trailing_metadata) or self._trailing
        self._aborted = True
        raise grpc.aio.AbortError("Locally aborted.")

    async def abort_with_status(self, status: grpc.Status) -> NoReturn:
        """End the call with a status object such as grpcio-status makes."""
        given: Any = status
        await self.abort(given.code, given.details, given.trailing_metadata or ())

    async def send_initial_metadata(self, initial_metadata: Any) -> None:
        """Note the initial metadata."""
        self._initial = tuple(initial_metadata)

    def set_trailing_metadata(self, trailing_metadata: Any) -> None:
        """Note the trailing metadata."""
        self._trailing = tuple(trailing_metadata)

    def trailing_metadata(self) -> Any:
        """The trailing metadata noted so far."""
        return self._trailing

    def set_code(self, code: grpc.StatusCode) -> None:
        """Note the status of the answer."""
        self._code = code

    def code(self) -> Any:
        """The status noted so far."""
        return self._code

    def set_details(self, details: str) -> None:
        """Note the sentence of the status."""
        self._details = details

    def details(self) -> Any:
        """The sentence noted so far."""
        return self._details

    def set_compression(self, compression: grpc.Compression) -> None:
        """Nothing to compress."""

    def disable_next_message_compression(self) -> None:
        """Nothing to compress."""

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Call back with this context when the call is over."""
        self._callbacks.append(callback)

    # what the back end does with it
    @property
    def answered(self) -> Metadata:
        """All metadata that goes with the answer, as far as it is known."""
        return joined(self._initial, self._trailing)

    @property
    def refused(self) -> bool:
        """True if the call must not end with OK, whatever the handler returned."""
        return self._aborted or self._code not in (None, grpc.StatusCode.OK)

    def failure(self, error: BaseException | None = None) -> CallError:
        """The failed call; an error that is no abort is logged and told without its text."""
        if error is not None and not self._aborted:
            logger.error("a servicer failed", exc_info=error)
            if not self.refused:
                return CallError(grpc.StatusCode.UNKNOWN, "Internal error", self.answered)
        return CallError(self._code or grpc.StatusCode.UNKNOWN, self._details, self.answered)

    def finish(self, *, cancelled: bool = False) -> None:
        """Mark the call as over and tell whoever asked."""
        self._done, self._cancelled = True, cancelled
        for callback in self._callbacks:
            callback(self)

    async def written_by(self, handler: Coroutine[Any, Any, Any]) -> AsyncIterator[Any]:
        """The messages that a coroutine handler writes."""
        queue = self._written = asyncio.Queue[Any]()

        async def run() -> None:
            try:
                await handler
            finally:
                queue.put_nowait(_DONE)

        task = asyncio.ensure_future(run())
        try:
            while (message := await queue.get()) is not _DONE:
                yield message
            await task
        finally:
            task.cancel()
