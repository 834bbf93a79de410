"""NATS JetStream, by the library of the extra `nats`."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError
from nats.js import JetStreamContext
from nats.js.api import StorageType
from nats.js.errors import APIError, NoStreamResponseError, NotFoundError, ServiceUnavailableError

from florin_server.features.event_sink.service.broker import (
    BrokerUnavailable,
    EventNotStored,
    EventRefused,
)
from florin_server.features.event_sink.service.nats_credentials import read_credentials

_log = logging.getLogger(__name__)

# for the complete handshake with one host
_CONNECT_S: Final = 5.0
_CLOSE_S: Final = 5.0
# the client does not report each connection that is lost while it sends: it is asked as often
_LOOK_S: Final = 1.0
# and it ignores a cancellation while it sends; a call is canceled again as often
_CANCEL_S: Final = 0.1
# a connection without an answer to two of these is lost
_PING_S: Final = 10
# within this window JetStream stores repeated events only once
_DUPLICATE_WINDOW_S: Final = 600.0
# of a message, beside those of the event: the version, and the expected stream of 100 characters
_HEADERS_BYTES: Final = 150
# the stream's limit of a message's size, in the answers of JetStream
_TOO_LARGE: Final = 10_054

T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class NatsOptions:
    """The access to a broker; `hosts` are URLs without credentials, of one cluster."""

    hosts: Sequence[str]
    stream: str
    subjects: str
    creates_stream: bool
    timeout_s: float
    user: str | None = None
    password: str | None = None
    token: str | None = None
    credentials: Path | None = None
    tls: ssl.SSLContext | None = None


class NatsBroker:
    """A connection to one host of the broker. It never reconnects: its owner opens another."""

    def __init__(self, client: Client, lost: asyncio.Future[None], options: NatsOptions) -> None:
        self._client = client
        self._lost = lost
        self._options = options
        self._stream: JetStreamContext = client.jetstream(timeout=options.timeout_s)

    @classmethod
    async def connect(cls, options: NatsOptions) -> NatsBroker:
        """Connect to any host; BrokerUnavailable with the reason of each if none accepts."""
        problems = []
        for host in random.sample(options.hosts, len(options.hosts)):
            try:
                lost = asyncio.get_running_loop().create_future()
                broker = cls(await _open(host, options, lost), lost, options)
            except (NatsError, OSError, ValueError) as error:
                problems.append(f"{host}: {_describe(error)}")
                continue
            try:
                if options.creates_stream:
                    await broker._create_stream()
            except (NatsError, OSError, BrokerUnavailable) as error:
                await broker.close()
                problems.append(f"{host}: {broker._describe_missing(error)}")
                continue
            except BaseException:
                await broker.close()
                raise
            return broker
        raise BrokerUnavailable("; ".join(problems))

    @property
    def is_connected(self) -> bool:
        """Return False once the connection is lost."""
        return self._client.is_connected and not self._lost.done()

    async def wait_lost(self) -> None:
        """Return once the connection is lost, at once if it is."""
        while self.is_connected:
            await asyncio.wait((self._lost,), timeout=_LOOK_S)

    async def publish(self, subject: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Return once the stream has stored a message; see `EventBroker`."""
        options = self._options
        size = len(body) + _HEADERS_BYTES + sum(len(k) + len(v) + 4 for k, v in headers.items())
        if size > self._client.max_payload:
            # the broker would end the connection for all events
            raise EventRefused(
                f"the event has {size} bytes, and the broker accepts "
                f"{self._client.max_payload}: raise its max_payload"
            )
        try:
            await self._wait_connected(
                self._stream.publish(
                    subject,
                    body,
                    timeout=options.timeout_s,
                    stream=options.stream,
                    headers=dict(headers),
                )
            )
        except NoStreamResponseError as error:
            raise EventNotStored(self._describe_missing(error)) from error
        except APIError as error:
            if error.err_code == _TOO_LARGE:
                raise EventRefused(
                    f"the event has {len(body)} bytes, which is more than stream "
                    f"{options.stream} accepts: raise its max_msg_size"
                ) from error
            raise EventNotStored(f"stream {options.stream}: {error.description}") from error
        except (NatsError, OSError, ValueError) as error:
            if not self.is_connected:
                raise self._build_loss() from error
            raise EventNotStored(
                f"the broker did not acknowledge an event within {options.timeout_s:g} s: check "
                f"that Florin may publish to {options.subjects}"
            ) from error

    async def _wait_connected(self, call: Coroutine[Any, Any, T]) -> T:
        """Return the result of a call; raise BrokerUnavailable once the connection is lost.

        The client itself would wait for the answer until the timeout.
        """
        answer = asyncio.ensure_future(call)
        try:
            while self.is_connected and not answer.done():
                await asyncio.wait(
                    (answer, self._lost), timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED
                )
            if not answer.done():
                raise self._build_loss()
            return answer.result()
        finally:
            while not answer.done():
                answer.cancel()
                await asyncio.wait(
                    (asyncio.gather(answer, return_exceptions=True),), timeout=_CANCEL_S
                )

    def _build_loss(self) -> BrokerUnavailable:
        reason = self._client.last_error
        return BrokerUnavailable(
            "the connection is lost"
            if reason is None
            else f"the connection is lost: {_describe(reason)}"
        )

    async def find_problem(self) -> str:
        """Return why the stream cannot store events; empty if it can, or may not be looked up."""
        try:
            await self._wait_connected(self._stream.stream_info(self._options.stream))
        except (NotFoundError, NoRespondersError, ServiceUnavailableError) as error:
            return self._describe_missing(error)
        except (NatsError, OSError, BrokerUnavailable):
            return ""
        return ""

    async def close(self) -> None:
        """Close the connection; what was not acknowledged is not published."""
        await _close(self._client)

    async def _create_stream(self) -> None:
        options = self._options
        with suppress(NotFoundError):
            await self._wait_connected(self._stream.stream_info(options.stream))
            return
        addition = self._stream.add_stream(
            name=options.stream,
            subjects=[options.subjects],
            storage=StorageType.FILE,
            duplicate_window=_DUPLICATE_WINDOW_S,
        )
        await self._wait_connected(addition)
        _log.info("stream %s of the event sink was created", options.stream)

    def _describe_missing(self, error: Exception) -> str:
        options = self._options
        if isinstance(error, NotFoundError | NoStreamResponseError):
            return (
                f"no stream stores {options.subjects}: create stream {options.stream}, or set "
                f"`create_stream` in [event_sink]"
            )
        if isinstance(error, NoRespondersError | ServiceUnavailableError):
            return "the broker runs without JetStream: turn JetStream on"
        return f"stream {options.stream}: {_describe(error)}"


async def _open(host: str, options: NatsOptions, lost: asyncio.Future[None]) -> Client:
    client = Client()

    async def record_loss() -> None:
        if not lost.done():
            lost.set_result(None)

    async def raise_first_error(error: Exception) -> None:
        """Raise errors until the client is connected: it would dial again until the timeout.

        Later errors are ignored: the call that they concern raises them, too.
        """
        if not (client.is_connected or client.is_closed):
            raise error

    secrets: dict[str, Any] = {
        name: value
        for name, value in (
            ("user", options.user),
            ("password", options.password),
            ("token", options.token),
            ("tls", options.tls),
        )
        if value is not None
    }
    if options.credentials is not None:
        secrets |= read_credentials(options.credentials)
    try:
        async with asyncio.timeout(_CONNECT_S):
            await client.connect(
                servers=[host],
                name="florin",
                error_cb=raise_first_error,
                disconnected_cb=record_loss,
                allow_reconnect=False,
                connect_timeout=int(_CONNECT_S),
                ping_interval=_PING_S,
                **secrets,
            )
    except BaseException:
        await _close(client)
        raise
    return client


async def _close(client: Client) -> None:
    # the client waits until a silent host has read everything
    with suppress(NatsError, OSError):
        async with asyncio.timeout(_CLOSE_S):
            await client.close()


def _describe(error: BaseException) -> str:
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return "it does not answer in time"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    return str(error).removeprefix("nats: ") or type(error).__name__
