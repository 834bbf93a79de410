"""The way to a service that comes and goes, and to the chains under it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import grpc
from florin.v1 import operator_pb2_grpc
from google.protobuf.message import Message

from tests.chaos.stage import KEPT_MERCHANT, Stage
from tests.support.api import Refused, RestApi
from tests.support.chain import Chain
from tests.support.solana import SolanaNode

LOOK_S = 0.05
# what a call waits for a node that is slow on purpose
CALL_S = 30
# what an embedded chain says that fails on purpose, not to the service alone
INJECTED = "injected fault"
_PASSING = {429, 502, 503, 504}
# nobody waits for the next hour
_PAUSED = {"payer_paused", "contract_accounts_paused", "account_creation_paused"}
_LOST = (aiohttp.ClientError, ConnectionError, TimeoutError)


class Till:
    """Calls that are sent again until somebody answers. `bad` are answers that must never come."""

    def __init__(self, stage: Stage, session: aiohttp.ClientSession) -> None:
        self._stage = stage
        self._session = session
        self.api = RestApi(session, stage.told("shop")["url"], stage.told("credentials"))
        self.kept = self.merchant(KEPT_MERCHANT)
        self.bad: list[str] = []
        self.told: dict[str, list[str]] = {}
        self.lost = 0

    def merchant(self, merchant_id: str) -> dict[str, str]:
        """What the partner sends on behalf of another merchant."""
        return {**self.api.merchant, "Merchant-Id": merchant_id}

    def caller(self, n: int, client: str = "chaos") -> RestApi:
        """The service as a wallet elsewhere calls it: each number has an address of its own."""
        api = RestApi(self._session, self.api.base, self._stage.told("credentials"))
        address = f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}"
        api.wallet |= {"Client-Id": client, "X-Forwarded-For": address}
        return api

    async def patiently(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """The answer to a call; Refused if it is refused for a reason that lasts."""
        while True:
            try:
                return await call()
            except Refused as refusal:
                if refusal.http == 500:
                    self.bad.append(str(refusal))
                if refusal.http not in _PASSING or refusal.details.get("reason") in _PAUSED:
                    raise
            except _LOST:
                self.lost += 1
                self.api.base = self._stage.told("shop")["url"]
            await asyncio.sleep(LOOK_S)

    async def operate(self, method: str, request: Message) -> Any:
        """What the operator asks until there is an answer; None if it is refused."""
        while True:
            metadata = (("authorization", f"Bearer {self._stage.home.secrets().operator_token}"),)
            async with grpc.aio.insecure_channel(self._stage.told("shop")["operator"]) as channel:
                call = getattr(operator_pb2_grpc.OperatorServiceStub(channel), method)
                try:
                    return await call(request, metadata=metadata, timeout=CALL_S)
                except grpc.aio.AioRpcError as error:
                    if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
                        return None
                    if error.code() is grpc.StatusCode.INVALID_ARGUMENT:
                        raise
            await asyncio.sleep(LOOK_S)

    async def final(self, payment_id: str, n: int) -> str:
        """The state in which a payment ends, whoever dies meanwhile; `n` is who asks."""
        told = self.told.setdefault(payment_id, [])

        async def watch() -> str:
            async for state in self.caller(n).watch(payment_id):
                if told[-1:] != [state["status"]]:
                    told.append(state["status"])
                if state["isFinal"]:
                    return state["status"]
            raise ConnectionError("the stream ended before the payment")

        return await self.patiently(watch)

    @property
    def evm(self) -> Chain:
        # an embedded chain is elsewhere after each death
        return PatientChain(self._session, self._stage)

    @property
    def solana(self) -> SolanaNode:
        return PatientSolana(self._session, self._stage)

    async def weather(self, chain: str, n: int, weather: dict[str, float]) -> None:
        """Changes what becomes of the calls to one of a chain's nodes."""
        url = self._stage.told("chains")[f"{chain}_nodes"][n]
        async with self._session.put(f"{url}/weather", json=weather) as answer:
            answer.raise_for_status()

    async def employ(self, burners: list[str]) -> None:
        """Tells the stranger which accounts burn gas when they are told to."""
        url = self._stage.told("chains")["evm_nodes"][0]
        async with self._session.put(f"{url}/burners", json=burners) as answer:
            answer.raise_for_status()

    async def counts(self) -> Counter[str]:
        """What went wrong at nodes so far."""
        told, counts = self._stage.told("chains"), Counter[str]()
        for url in (*told["evm_nodes"], *told["solana_nodes"]):
            async with self._session.get(f"{url}/counts") as answer:
                counts.update(await answer.json())
        return counts


class PatientChain(Chain):
    """The EVM chain as everybody but the service sees it."""

    def __init__(self, session: aiohttp.ClientSession, stage: Stage) -> None:
        self._session, self._stage = session, stage

    async def ask(self, method: str, *params: Any) -> Any:
        return await _asked(self._session, self._stage, "evm", method, params)


class PatientSolana(SolanaNode):
    """The same for Solana."""

    def __init__(self, session: aiohttp.ClientSession, stage: Stage) -> None:
        self._session, self._stage = session, stage

    async def ask(self, method: str, *params: Any) -> Any:
        return await _asked(self._session, self._stage, "solana", method, params)


class ChainRefused(Exception):
    """A chain's own refusal."""


async def _asked(
    session: aiohttp.ClientSession, stage: Stage, chain: str, method: str, params: Any
) -> Any:
    question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
    while True:
        try:
            async with session.post(stage.told("chains")[chain], json=question) as answer:
                content = await answer.json()
        except _LOST:
            await asyncio.sleep(LOOK_S)
            continue
        if content.get("error", {}).get("message") == INJECTED:
            await asyncio.sleep(LOOK_S)
            continue
        if "error" in content:
            raise ChainRefused(f"{method}: {content['error']}")
        return content["result"]
