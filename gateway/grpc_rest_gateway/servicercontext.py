"""A substitute for the context that grpc.aio passes to servicers, for calls in this process."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from typing import Any, NoReturn

import grpc

from grpc_rest_gateway.rpc import CallError, Metadata, join_metadata

logger = logging.getLogger(__name__)

_END_OF_STREAM = object()


class LocalContext(grpc.aio.ServicerContext[Any, Any]):
    """One call as its servicer and the interceptors see it.

    `abort` raises grpc.aio.AbortError like the real context. A servicer that swallows it has still
    ended the call with the given status.
    """

    def __init__(self, metadata: Metadata, timeout_s: float, peer: str) -> None:
        self._metadata = metadata
        self._deadline = time.monotonic() + timeout_s
        self._peer = peer
        self._initial_metadata: Metadata = ()
        self._trailing_metadata: Metadata = ()
        self._code: grpc.StatusCode | None = None
        self._details = ""
        self._is_aborted = False
        self._is_cancelled = False
        self._is_done = False
        self._callbacks: list[Callable[[Any], None]] = []
        self._write_queue: asyncio.Queue[Any] | None = None

    # read by the servicer
    def invocation_metadata(self) -> Any:
        """Return the metadata of the request."""
        return self._metadata

    def peer(self) -> str:
        """Return the address of the HTTP client."""
        return self._peer

    def time_remaining(self) -> float:
        """Return the seconds until the deadline, never negative."""
        return max(0.0, self._deadline - time.monotonic())

    def peer_identities(self) -> Iterable[bytes] | None:
        """Return None: there is no transport."""
        return None

    def peer_identity_key(self) -> str | None:
        """Return None: there is no transport."""
        return None

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """Return nothing: there is no transport."""
        return {}

    def cancelled(self) -> bool:
        """Return True once the call was cancelled."""
        return self._is_cancelled

    def done(self) -> bool:
        """Return True once the call has ended."""
        return self._is_done

    async def read(self) -> Any:
        """Raise an error: requests are single messages here."""
        raise grpc.aio.UsageError("a unary request cannot be read as a stream")

    # set by the servicer
    async def write(self, message: Any) -> None:
        """Send one message of a stream whose handler is a plain coroutine."""
        if self._write_queue is None:
            raise grpc.aio.UsageError("only a streaming coroutine handler writes")
        self._write_queue.put_nowait(message)
        # yields to the reader, as a write to a transport would
        await asyncio.sleep(0)

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()
    ) -> NoReturn:
        """End the call with a status; earlier trailing metadata stays unless new one is given."""
        self._code, self._details = code, details
        self._trailing_metadata = tuple(trailing_metadata) or self._trailing_metadata
        self._is_aborted = True
        raise grpc.aio.AbortError("Locally aborted.")

    async def abort_with_status(self, status: grpc.Status) -> NoReturn:
        """End the call with a status object, as grpcio-status makes them."""
        status_object: Any = status
        await self.abort(
            status_object.code, status_object.details, status_object.trailing_metadata or ()
        )

    async def send_initial_metadata(self, initial_metadata: Any) -> None:
        """Store the initial metadata."""
        self._initial_metadata = tuple(initial_metadata)

    def set_trailing_metadata(self, trailing_metadata: Any) -> None:
        """Store the trailing metadata."""
        self._trailing_metadata = tuple(trailing_metadata)

    def trailing_metadata(self) -> Any:
        """Return the trailing metadata stored so far."""
        return self._trailing_metadata

    def set_code(self, code: grpc.StatusCode) -> None:
        """Store the status of the response."""
        self._code = code

    def code(self) -> Any:
        """Return the status stored so far."""
        return self._code

    def set_details(self, details: str) -> None:
        """Store the message of the status."""
        self._details = details

    def details(self) -> Any:
        """Return the message stored so far."""
        return self._details

    def set_compression(self, compression: grpc.Compression) -> None:
        """Do nothing: there is no compression."""

    def disable_next_message_compression(self) -> None:
        """Do nothing: there is no compression."""

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Call back with this context when the call has ended."""
        self._callbacks.append(callback)

    # used by the backend
    @property
    def response_metadata(self) -> Metadata:
        """Return all metadata of the response, as far as it is known."""
        return join_metadata(self._initial_metadata, self._trailing_metadata)

    @property
    def is_refused(self) -> bool:
        """Return True if the call must not end with OK, whatever the handler returned."""
        return self._is_aborted or self._code not in (None, grpc.StatusCode.OK)

    def to_call_error(self, error: BaseException | None = None) -> CallError:
        """Return the failed call.

        An error that is not an abort is logged, and reported without its text.
        """
        if error is not None and not self._is_aborted:
            logger.error("servicer failed", exc_info=error)
            if not self.is_refused:
                return CallError(grpc.StatusCode.UNKNOWN, "Internal error", self.response_metadata)
        return CallError(
            self._code or grpc.StatusCode.UNKNOWN, self._details, self.response_metadata
        )

    def finish(self, *, cancelled: bool = False) -> None:
        """Mark the call as ended and notify its callbacks."""
        self._is_done, self._is_cancelled = True, cancelled
        for callback in self._callbacks:
            callback(self)

    async def collect_writes(self, handler: Coroutine[Any, Any, Any]) -> AsyncIterator[Any]:
        """Yield the messages that a coroutine handler writes."""
        queue = self._write_queue = asyncio.Queue[Any]()

        async def run() -> None:
            try:
                await handler
            finally:
                queue.put_nowait(_END_OF_STREAM)

        task = asyncio.ensure_future(run())
        try:
            while (message := await queue.get()) is not _END_OF_STREAM:
                yield message
            await task
        finally:
            task.cancel()
