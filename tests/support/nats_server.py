"""A NATS server with JetStream, as a process that tests kill and start again.

Without the program, tests are skipped with a reason; in CI (`CI=true`) they fail instead. Root gets
Debian's `nats-server` installed.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import NotFoundError

from tests.support.debian import find_program
from tests.support.until import wait_until
from tests.support.x402_clients import find_free_port

_PROGRAM = "nats-server"
_BATCH_SIZE = 256


@cache
def get_program() -> str:
    """Return the path of the server."""
    result = find_program(_PROGRAM)
    if result is None:
        end = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        end("NOT TESTED against a broker: there is no nats-server here")
    assert result
    return result


class NatsServer:
    """A server on a port of its own; it keeps streams in a folder."""

    def __init__(self, folder: Path, options: str = "") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._program = get_program()
        self.port = find_free_port()
        self._config = folder / "nats.conf"
        self._config.write_text(
            f'listen: "127.0.0.1:{self.port}"\njetstream {{ store_dir: "{folder}" }}\n{options}\n'
        )
        self._log = folder / "nats.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Start it, and return once it accepts connections."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: ASYNC220  (it returns at once)
                [self._program, "-c", str(self._config)], stdout=log, stderr=log
            )
        await wait_until(self._is_open)

    def kill(self) -> None:
        """Kill it at once, as a machine that loses power does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    async def _is_open(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        return True

    @asynccontextmanager
    async def connect(self, **options: str) -> AsyncIterator[Client]:
        client = await nats.connect(self.url, allow_reconnect=False, **options)
        try:
            yield client
        finally:
            await client.close()

    async def list_messages(self, stream: str = "florin_events", **options: str) -> list[Msg]:
        """Return all messages of a stream, in its order; none if it does not exist."""
        async with self.connect(**options) as client:
            context = client.jetstream()
            try:
                count = (await context.stream_info(stream)).state.messages
            except NotFoundError:
                return []
            # unacknowledged messages would end the delivery after a thousand
            config = ConsumerConfig(deliver_policy=DeliverPolicy.ALL, ack_policy=AckPolicy.NONE)
            consumer = await context.pull_subscribe(">", stream=stream, config=config)
            messages: list[Msg] = []
            while len(messages) < count:
                messages += await consumer.fetch(min(_BATCH_SIZE, count - len(messages)))
            return messages

    async def count_messages(self, stream: str = "florin_events") -> int:
        """Return the number of messages of a stream; 0 if it does not exist."""
        async with self.connect() as client:
            try:
                return (await client.jetstream().stream_info(stream)).state.messages
            except NotFoundError:
                return 0

    async def add_stream(self, name: str = "florin_events", **options: object) -> None:
        """Create a stream for all subjects of the sink, or those of `options`."""
        async with self.connect() as client:
            config = {"subjects": ["florin.events.>"], **options}
            await client.jetstream().add_stream(name=name, **config)


@asynccontextmanager
async def serve_nats(folder: Path, options: str = "") -> AsyncIterator[NatsServer]:
    """Run a server until the end."""
    server = NatsServer(folder, options)
    await server.start()
    try:
        yield server
    finally:
        server.kill()
