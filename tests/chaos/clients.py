"""A racing client: many concurrent calls over REST and gRPC, some abandoned and sent again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp
import grpc

from tests.chaos.requests import Request, build_request
from tests.support.api import to_api_call_error
from tests.support.json import to_json

CONCURRENCY = 12
# how far a call's key can be from the common position
SPREAD = 3
# how long a client waits for a restarting server
PATIENCE_S = 240
POLL_S = 0.02


@dataclass(frozen=True)
class Answer:
    """The answer to a key's call. `raw` is the answer's bytes, as text, in its protocol."""

    key: str
    what: str
    protocol: str
    refusable: bool
    status: int
    code: str
    replayed: bool
    raw: str
    body: dict[str, Any]


class NoAnswer(Exception):
    """The call got no answer; the same call has to be sent again."""


class Unprepared(Exception):
    """A call's requirement could not be created."""


class Client:
    """The calls of one process. `address` is a file with the server's current address."""

    def __init__(self, address: Path, seed: int) -> None:
        self._address = address
        self._rng = random.Random(seed)
        self._env: dict[str, str] = {}
        self._session: aiohttp.ClientSession | None = None
        self._channel: grpc.aio.Channel | None = None
        self._old: list[aiohttp.ClientSession | grpc.aio.Channel] = []
        self._connecting = asyncio.Lock()
        self.answers: list[Answer] = []
        self.given_up = 0
        self.unanswered = 0

    async def run(self, calls: int, calls_per_key: int, progress: Any) -> None:
        """Make `calls` calls, about `calls_per_key` of them per key."""
        await self._connect({})
        upcoming = iter(range(calls))

        async def work() -> None:
            for number in upcoming:
                position = number // calls_per_key
                key = max(0, position + self._rng.randint(-SPREAD, SPREAD))
                if self._rng.random() < 0.1:
                    key = self._rng.randint(0, key)
                version = int(self._rng.random() < 0.3)
                # earlier failures are among the answers, which are compared later
                with contextlib.suppress(Unprepared):
                    await self._call_until_answered(
                        await build_request(self._prepare, key, version), f"key-{key}"
                    )
                progress()

        await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
        await self._close()

    async def _prepare(self, request: Request, key: str) -> dict[str, Any]:
        answer = await self._call_until_answered(request, key)
        if answer.status >= 400:
            raise Unprepared
        return answer.body

    async def _call_until_answered(self, request: Request, key: str) -> Answer:
        """Send a call repeatedly until it is answered."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                env = self._env
                try:
                    answer = await self._call_once(request, key)
                except TimeoutError:
                    self.given_up += 1
                except NoAnswer:
                    self.unanswered += 1
                    await self._connect(env)
                else:
                    self.answers.append(answer)
                    return answer

    async def _call_once(self, request: Request, key: str) -> Answer:
        # some are abandoned at an unpredictable moment
        timeout_s = self._rng.uniform(0, 0.01) if self._rng.random() < 0.1 else None
        call = self._call_rest if self._rng.random() < 0.5 else self._call_grpc
        if timeout_s is None:
            return await call(request, key)
        async with asyncio.timeout(timeout_s):
            return await call(request, key)

    async def _call_rest(self, request: Request, key: str) -> Answer:
        path, body = request.http
        headers = {
            "Api-Key": self._env["FLORIN_PARTNER_KEY"],
            "Merchant-Id": self._env["FLORIN_MERCHANT_ID"],
            "Idempotency-Key": key,
        }
        assert self._session is not None
        try:
            async with self._session.post(
                self._env["FLORIN_BASE_URL"] + path, json=body, headers=headers
            ) as answer:
                text = await answer.text()
        except (aiohttp.ClientError, ConnectionError) as error:
            raise NoAnswer from error
        content = json.loads(text)
        code = content["code"] if answer.status >= 400 else ""
        replayed = "Idempotent-Replayed" in answer.headers
        return self._build_answer(
            request, key, "rest", answer.status, code, replayed, text, content
        )

    async def _call_grpc(self, request: Request, key: str) -> Answer:
        path, message, kind = request.rpc
        metadata = (
            ("api-key", self._env["FLORIN_PARTNER_KEY"]),
            ("merchant-id", self._env["FLORIN_MERCHANT_ID"]),
            ("idempotency-key", key),
        )
        assert self._channel is not None
        stub = self._channel.unary_unary(path, type(message).SerializeToString, kind.FromString)
        call = stub(message, metadata=metadata)
        try:
            answer = await call
            entries = dict(await call.trailing_metadata())
        except grpc.aio.AioRpcError as error:
            if error.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}:
                raise NoAnswer from error
            api_call_error = to_api_call_error(error)
            return self._build_answer(
                request,
                key,
                "grpc",
                api_call_error.http,
                api_call_error.code,
                False,
                "",
                {},
            )
        finally:
            call.cancel()
        replayed = "idempotent-replayed" in entries
        raw = answer.SerializeToString(deterministic=True).hex()
        return self._build_answer(request, key, "grpc", 200, "", replayed, raw, to_json(answer))

    def _build_answer(
        self,
        request: Request,
        key: str,
        protocol: str,
        status: int,
        code: str,
        replayed: bool,
        raw: str,
        body: dict[str, Any],
    ) -> Answer:
        what = f"{request.rpc[0]} {request.rpc[1].SerializeToString(deterministic=True).hex()}"
        return Answer(key, what, protocol, request.refused, status, code, replayed, raw, body)

    async def _connect(self, seen: dict[str, str]) -> None:
        """Connect to the server's new address, if it has changed since `seen`."""
        async with self._connecting:
            while self._env == seen:
                if self._address.exists():
                    self._env = json.loads(self._address.read_text())
                if self._env == seen:
                    await asyncio.sleep(POLL_S)
                    continue
                # the old connections may still have calls
                self._old += [
                    connection
                    for connection in (self._session, self._channel)
                    if connection is not None
                ]
                self._session = aiohttp.ClientSession()
                self._channel = grpc.aio.insecure_channel(self._env["FLORIN_GRPC_TARGET"])

    async def _close(self) -> None:
        for connection in (self._session, self._channel, *self._old):
            if connection is not None:
                await connection.close()

    def build_report(self) -> dict[str, Any]:
        """Return all answers as JSON values."""
        return {
            "answers": [asdict(answer) for answer in self.answers],
            "given_up": self.given_up,
            "unanswered": self.unanswered,
        }
