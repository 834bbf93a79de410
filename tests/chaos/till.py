"""The way to a service that comes and goes, and to the chains under it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

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
_LOST = (aiohttp.ClientError, ConnectionError, TimeoutError)


class Till:
    """Calls that are sent again until somebody answers. `bad` are answers that must never come."""

    def __init__(self, stage: Stage, session: aiohttp.ClientSession) -> None:
        self._stage = stage
        self._session = session
        self.api = RestApi(session, stage.told("shop")["url"], stage.told("credentials"))
        self.kept = {**self.api.merchant, "Merchant-Id": KEPT_MERCHANT}
        self.bad: list[str] = []
        self.told: dict[str, list[str]] = {}
        self.lost = 0

    async def patiently(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """The answer to a call; Refused if it is refused for a reason that lasts."""
        while True:
            try:
                return await call()
            except Refused as refusal:
                if refusal.http == 500:
                    self.bad.append(str(refusal))
                if refusal.http not in _PASSING:
                    raise
            except _LOST:
                self.lost += 1
                self.api.base = self._stage.told("shop")["url"]
            await asyncio.sleep(LOOK_S)

    async def final(self, payment_id: str) -> str:
        """The state in which a payment ends, whoever dies meanwhile."""
        told = self.told.setdefault(payment_id, [])

        async def watch() -> str:
            async for state in self.api.watch(payment_id):
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
