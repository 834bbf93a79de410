"""A node in front of a chain whose answers fail as often as a test sets."""

from __future__ import annotations

import asyncio
import base64
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from aiohttp import web
from florin_server.rails.evm.sending.transactions import compute_transaction_hash
from solders.transaction import VersionedTransaction

from tests.chaos.front_runner import FrontRunner

_SENDS = {"eth_sendRawTransaction", "sendTransaction"}
# methods that a lagging or pruned node answers with null
_NULLABLE = {
    "eth_getTransactionReceipt",
    "eth_getTransactionByHash",
    "eth_getBlockByNumber",
    "eth_getBlockReceipts",
    "getTransaction",
}
# a pruned node answers this with null for each transaction
_STATUSES = "getSignatureStatuses"
# invalid answers
_NOISE = ({}, "garbage", {"error": 7}, [[]])
_REFUSALS = (
    (-32005, "limit exceeded"),
    (-32000, "header not found"),
    (-32603, "internal error"),
    (429, "too many requests"),
)


class Node:
    """A proxy that forwards calls to a chain.

    Its weather is the probability of each failure per call; `counts` has the failures so far.
    """

    def __init__(
        self,
        handle: Callable[[bytes], Awaitable[bytes]],
        seed: str,
        front_runner: FrontRunner | None = None,
    ) -> None:
        self._handle = handle
        self._rng = random.Random(seed)
        self._front_runner = front_runner
        self._weather: dict[str, float] = {}
        self.counts: Counter[str] = Counter()

    async def serve(self) -> str:
        """Start to answer; return the address."""
        application = web.Application(client_max_size=2**23)
        application.router.add_post("/", self._post)
        application.router.add_put("/weather", self._set_weather)
        application.router.add_put("/burners", self._set_burners)
        application.router.add_get("/counts", self._report_counts)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self._runner = runner
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    async def _set_weather(self, request: web.Request) -> web.Response:
        self._weather = await request.json()
        return web.Response()

    async def _set_burners(self, request: web.Request) -> web.Response:
        if self._front_runner is not None:
            accounts = await request.json()
            self._front_runner.burners = frozenset(accounts["burners"])
            self._front_runner.accepting = frozenset(accounts["accepting"])
        return web.Response()

    async def _report_counts(self, _request: web.Request) -> web.Response:
        return web.json_response(self.counts)

    async def _post(self, request: web.Request) -> web.Response:
        payload = await request.read()
        if self._is_hit("silent"):
            return self._fail_connection(request)
        if self._is_hit("slow"):
            await asyncio.sleep(self._rng.uniform(0.01, 0.3))
        content = orjson.loads(payload)
        answers = await self._answer_calls(content if isinstance(content, list) else [content])
        body = orjson.dumps(answers if isinstance(content, list) else answers[0])
        if self._is_hit("garbage", 0.3):
            body = self._rng.choice((body[: len(body) // 2], b"<html>busy</html>", b""))
        return web.Response(body=body, content_type="application/json")

    def _fail_connection(self, request: web.Request) -> web.Response:
        how = self._rng.randrange(3)
        if how == 0 and request.transport is not None:
            request.transport.abort()
        return web.Response(status=503 if how == 1 else 502, text="unavailable")

    async def _answer_calls(self, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
        values: dict[int, dict[str, Any]] = {}
        late, blank = set(), set()
        for at, call in enumerate(calls):
            if call["method"] in _SENDS:
                answer = await self._answer_send(call)
                if answer == "late":
                    late.add(at)
                    continue
            else:
                answer = self._fail_call(call)
                if answer is None and call["method"] == _STATUSES and self._is_hit("null"):
                    blank.add(call["id"])
            if answer is not None:
                values[at] = {"jsonrpc": "2.0", "id": call["id"], **answer}
        left = [call for at, call in enumerate(calls) if at not in values]
        forwarded = (
            {item["id"]: item for item in orjson.loads(await self._handle(orjson.dumps(left)))}
            if (left)
            else {}
        )
        for at in late:
            forwarded[calls[at]["id"]] = {
                "jsonrpc": "2.0",
                "id": calls[at]["id"],
                **refusal(-32000, "it got lost on the way back"),
            }
        for number in blank & forwarded.keys():
            result = forwarded[number].get("result", {"value": []})
            result["value"] = [None] * len(result["value"])
        return [values.get(at) or forwarded[call["id"]] for at, call in enumerate(calls)]

    async def _answer_send(self, call: dict[str, Any]) -> Any:
        """Decide a transaction's fate; None if it is forwarded as usual."""
        if self._front_runner is not None:
            raw = bytes.fromhex(call["params"][0][2:])
            await self._front_runner.signal_burners(raw)
            if self._is_hit("front_runner"):
                await self._front_runner.front_run(raw)
        if self._is_hit("drop"):
            return {"result": _hash(call)}
        if self._is_hit("fail"):
            return refusal(*self._rng.choice(_REFUSALS))
        return "late" if self._is_hit("late") else self._fail_call(call)

    def _fail_call(self, call: dict[str, Any]) -> dict[str, Any] | None:
        if call["method"] in _NULLABLE and self._is_hit("null"):
            return {"result": None}
        if self._is_hit("refuse"):
            return refusal(*self._rng.choice(_REFUSALS))
        if self._is_hit("garbage"):
            kind = self._rng.randrange(3)
            if kind == 0:
                return {}
            return (
                {"id": -1, "result": "0x1"} if kind == 1 else {"result": self._rng.choice(_NOISE)}
            )
        return None

    def _is_hit(self, effect: str, share: float = 1.0) -> bool:
        p = self._weather.get(effect, 0.0) * share
        if p == 0 or self._rng.random() >= p:
            return False
        self.counts[effect] += 1
        return True


def refusal(code: int, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def _hash(call: dict[str, Any]) -> str:
    """Return the answer of a node that accepts a transaction."""
    text = call["params"][0]
    if call["method"] == "eth_sendRawTransaction":
        return compute_transaction_hash(bytes.fromhex(text[2:]))
    return str(VersionedTransaction.from_bytes(base64.b64decode(text)).signatures[0])
