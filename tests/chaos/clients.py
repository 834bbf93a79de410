"""A racing client: many calls at once over REST and gRPC, some of them given up and sent again."""

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

from tests.chaos.requests import Request, request
from tests.support.api import refused
from tests.support.json import plain

CONCURRENCY = 12
# how far around the common position in the keys a call may reach
SPREAD = 3
# what a client may wait for a server that comes back
PATIENCE_S = 60
LOOK_S = 0.02


@dataclass(frozen=True)
class Answer:
    """What a key's call was told. `raw` is the answer's bytes, as text, in its protocol."""

    key: str
    what: str
    protocol: str
    refusable: bool
    status: int
    code: str
    replayed: bool
    raw: str
    body: dict[str, Any]


class Gone(Exception):
    """Nobody answered; the same call has to be sent again."""


class Unprepared(Exception):
    """What a call needs could not be had."""


class Client:
    """Calls of one process. `address` is a file that tells where the server is now."""

    def __init__(self, address: Path, seed: int) -> None:
        self._address = address
        self._chance = random.Random(seed)
        self._env: dict[str, str] = {}
        self._session: aiohttp.ClientSession | None = None
        self._channel: grpc.aio.Channel | None = None
        self._old: list[aiohttp.ClientSession | grpc.aio.Channel] = []
        self._dialling = asyncio.Lock()
        self.answers: list[Answer] = []
        self.given_up = 0
        self.unanswered = 0

    async def run(self, calls: int, a_key: int, progress: Any) -> None:
        """Makes so many calls, each key getting about so many of them."""
        await self._dial({})
        upcoming = iter(range(calls))

        async def work() -> None:
            for number in upcoming:
                position = number // a_key
                key = max(0, position + self._chance.randint(-SPREAD, SPREAD))
                if self._chance.random() < 0.1:
                    key = self._chance.randint(0, key)
                version = int(self._chance.random() < 0.3)
                # what goes wrong before is among the answers, for the judge to see
                with contextlib.suppress(Unprepared):
                    await self._answered(await request(self._prepare, key, version), f"key-{key}")
                progress()

        await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
        await self._hang_up()

    async def _prepare(self, wanted: Request, key: str) -> dict[str, Any]:
        answer = await self._answered(wanted, key)
        if answer.status >= 400:
            raise Unprepared
        return answer.body

    async def _answered(self, wanted: Request, key: str) -> Answer:
        """Sends a call again and again until somebody answers."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                env = self._env
                try:
                    answer = await self._try(wanted, key)
                except TimeoutError:
                    self.given_up += 1
                except Gone:
                    self.unanswered += 1
                    await self._dial(env)
                else:
                    self.answers.append(answer)
                    return answer

    async def _try(self, wanted: Request, key: str) -> Answer:
        # some are given up at a moment that nobody can foresee
        hurry = self._chance.uniform(0, 0.01) if self._chance.random() < 0.1 else None
        call = self._rest if self._chance.random() < 0.5 else self._rpc
        if hurry is None:
            return await call(wanted, key)
        async with asyncio.timeout(hurry):
            return await call(wanted, key)

    async def _rest(self, wanted: Request, key: str) -> Answer:
        path, body = wanted.http
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
            raise Gone from error
        content = json.loads(text)
        code = content["code"] if answer.status >= 400 else ""
        replayed = "Idempotent-Replayed" in answer.headers
        return self._answer(wanted, key, "rest", answer.status, code, replayed, text, content)

    async def _rpc(self, wanted: Request, key: str) -> Answer:
        path, message, kind = wanted.rpc
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
                raise Gone from error
            told = refused(error)
            return self._answer(wanted, key, "grpc", told.http, told.code, False, "", {})
        finally:
            call.cancel()
        replayed = "idempotent-replayed" in entries
        raw = answer.SerializeToString(deterministic=True).hex()
        return self._answer(wanted, key, "grpc", 200, "", replayed, raw, plain(answer))

    def _answer(
        self,
        wanted: Request,
        key: str,
        protocol: str,
        status: int,
        code: str,
        replayed: bool,
        raw: str,
        body: dict[str, Any],
    ) -> Answer:
        what = f"{wanted.rpc[0]} {wanted.rpc[1].SerializeToString(deterministic=True).hex()}"
        return Answer(key, what, protocol, wanted.refused, status, code, replayed, raw, body)

    async def _dial(self, seen: dict[str, str]) -> None:
        """Connects to where the server is, once it is somewhere else than it was seen."""
        async with self._dialling:
            while self._env == seen:
                if self._address.exists():
                    self._env = json.loads(self._address.read_text())
                if self._env == seen:
                    await asyncio.sleep(LOOK_S)
                    continue
                # calls of others may still be on the old ones
                self._old += [one for one in (self._session, self._channel) if one is not None]
                self._session = aiohttp.ClientSession()
                self._channel = grpc.aio.insecure_channel(self._env["FLORIN_GRPC_TARGET"])

    async def _hang_up(self) -> None:
        for one in (self._session, self._channel, *self._old):
            if one is not None:
                await one.close()

    def told(self) -> dict[str, Any]:
        """Everything that it was answered, as JSON values."""
        return {
            "answers": [asdict(answer) for answer in self.answers],
            "given_up": self.given_up,
            "unanswered": self.unanswered,
        }
