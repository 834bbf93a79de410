"""Access to a service that is killed and restarted, and to its chains."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import grpc
from florin.v1 import operator_pb2_grpc
from google.protobuf.message import Message

from tests.chaos.chaos_service import TREASURY_MERCHANT, ChaosEnvironment
from tests.chaos.fast_clock import SPEED
from tests.support.api import ApiCallError, RestApi
from tests.support.chain import ChainClient
from tests.support.solana import SolanaNodeClient

POLL_S = 0.5 / SPEED
# timeout of a call to a node that is slow on purpose
CALL_S = 30
# the error of an embedded chain's planned failures, which all callers see
INJECTED = "injected fault"
_PASSING = {429, 502, 503, 504}
# the run does not wait for the next hour
_PAUSED = {"payer_paused", "contract_accounts_paused", "account_creation_paused"}
_LOST = (aiohttp.ClientError, ConnectionError, TimeoutError)


class ServiceClient:
    """The buyers' access to service and chains: calls are repeated until they are answered.

    `statuses` has the states of each payment that its stream reported. `bad` lists answers that
    must never occur.
    """

    def __init__(self, environment: ChaosEnvironment, session: aiohttp.ClientSession) -> None:
        self._environment = environment
        self.session = session
        self.api = RestApi(
            session, environment.read_facts("shop")["url"], environment.read_facts("credentials")
        )
        self.treasury_merchant = self.merchant(TREASURY_MERCHANT)
        self.bad: list[str] = []
        self.statuses: dict[str, list[str]] = {}
        self.lost = 0

    def merchant(self, merchant_id: str) -> dict[str, str]:
        """Return the partner's headers for another merchant."""
        return {**self.api.merchant, "Merchant-Id": merchant_id}

    def caller(self, n: int, client: str = "chaos") -> RestApi:
        """Return the service's API for a remote wallet: each number has its own address."""
        api = RestApi(self.session, self.api.base, self._environment.read_facts("credentials"))
        address = f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}"
        api.wallet |= {"Client-Id": client, "X-Forwarded-For": address}
        return api

    async def call_patiently(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Return the answer to a call; raise its refusal if the reason is permanent."""
        while True:
            try:
                return await call()
            except ApiCallError as refusal:
                if refusal.http == 500:
                    self.bad.append(str(refusal))
                if refusal.http not in _PASSING or refusal.details.get("reason") in _PAUSED:
                    raise
            except _LOST:
                self.lost += 1
                self.api.base = self._environment.read_facts("shop")["url"]
            await asyncio.sleep(POLL_S)

    async def call_operator(self, method: str, request: Message) -> Any:
        """Make an operator call until it is answered; return None if it is refused."""
        while True:
            metadata = (
                (
                    "authorization",
                    f"Bearer {self._environment.home.get_or_create_secrets().operator_token}",
                ),
            )
            async with grpc.aio.insecure_channel(
                self._environment.read_facts("shop")["operator"]
            ) as channel:
                call = getattr(operator_pb2_grpc.OperatorServiceStub(channel), method)
                try:
                    return await call(request, metadata=metadata, timeout=CALL_S)
                except grpc.aio.AioRpcError as error:
                    if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
                        return None
                    if error.code() is grpc.StatusCode.INVALID_ARGUMENT:
                        raise
            await asyncio.sleep(POLL_S)

    async def wait_final(self, payment_id: str, n: int) -> str:
        """Return the state in which a payment ends, through all restarts; `n` is the caller."""
        result = self.statuses.setdefault(payment_id, [])

        async def watch() -> str:
            async for state in self.caller(n).watch(payment_id):
                if result[-1:] != [state["status"]]:
                    result.append(state["status"])
                if state["isFinal"]:
                    return state["status"]
            raise ConnectionError("the stream ended before the payment")

        return await self.call_patiently(watch)

    @property
    def evm(self) -> ChainClient:
        # an embedded chain has a new address after each death
        return PatientChain(self.session, self._environment)

    @property
    def solana(self) -> SolanaNodeClient:
        return PatientSolana(self.session, self._environment)

    async def set_weather(self, chain: str, n: int, weather: dict[str, float]) -> None:
        """Set the faults of one of a chain's nodes."""
        url = self._environment.read_facts("chains")[f"{chain}_nodes"][n]
        async with self.session.put(f"{url}/weather", json=weather) as answer:
            answer.raise_for_status()

    async def set_burners(self, burners: list[str], accepting: list[str]) -> None:
        """Tell the stranger which accounts burn gas on a signal, and which accept any signature."""
        url = self._environment.read_facts("chains")["evm_nodes"][0]
        accounts = {"burners": burners, "accepting": accepting}
        async with self.session.put(f"{url}/burners", json=accounts) as answer:
            answer.raise_for_status()

    async def counts(self) -> Counter[str]:
        """Return the nodes' failures so far."""
        result, counts = self._environment.read_facts("chains"), Counter[str]()
        for url in (*result["evm_nodes"], *result["solana_nodes"]):
            async with self.session.get(f"{url}/counts") as answer:
                counts.update(await answer.json())
        return counts


class PatientChain(ChainClient):
    """The EVM chain as everyone except the service sees it."""

    def __init__(self, session: aiohttp.ClientSession, environment: ChaosEnvironment) -> None:
        self._session, self._environment = session, environment

    async def ask(self, method: str, *params: Any) -> Any:
        return await _call_chain(self._session, self._environment, "evm", method, params)


class PatientSolana(SolanaNodeClient):
    """The Solana chain as everyone except the service sees it."""

    def __init__(self, session: aiohttp.ClientSession, environment: ChaosEnvironment) -> None:
        self._session, self._environment = session, environment

    async def ask(self, method: str, *params: Any) -> Any:
        return await _call_chain(self._session, self._environment, "solana", method, params)


class ChainRefused(Exception):
    """A refusal by the chain itself."""


async def _call_chain(
    session: aiohttp.ClientSession,
    environment: ChaosEnvironment,
    chain: str,
    method: str,
    params: Any,
) -> Any:
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
    while True:
        try:
            async with session.post(
                environment.read_facts("chains")[chain], json=request
            ) as answer:
                content = await answer.json()
        except _LOST:
            await asyncio.sleep(POLL_S)
            continue
        if content.get("error", {}).get("message") == INJECTED:
            await asyncio.sleep(POLL_S)
            continue
        if "error" in content:
            raise ChainRefused(f"{method}: {content['error']}")
        return content["result"]
