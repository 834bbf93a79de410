"""The REST API without sockets: requests go straight into the gateway.

Headers, JSON and answers are bytes as on the wire; only HTTP parsing is left out.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from grpc_rest_gateway.app import RestGateway

from tests.support.api import ApiCallError, Json, RestApi


class MemoryRest(RestApi):
    """A `RestApi` whose calls are answered by a gateway in this process."""

    def __init__(self, gateway: RestGateway, env: dict[str, str]) -> None:
        self._gateway = gateway
        self.base = "http://127.0.0.1"
        self.merchant = {
            "Api-Key": env["FLORIN_PARTNER_KEY"],
            "Merchant-Id": env["FLORIN_MERCHANT_ID"],
        }
        self.wallet = {"App-Id": env["FLORIN_APP_ID"], "Client-Id": env["FLORIN_CLIENT_ID"]}

    async def call(self, method: str, path: str, headers: dict[str, str], body: Any = None) -> Json:
        content = b"" if body is None else json.dumps(body).encode()
        pending = [{"type": "http.request", "body": content, "more_body": False}]
        sent: list[Any] = []

        async def receive() -> Any:
            if pending:
                return pending.pop()
            # the client stays until it has its answer
            return await asyncio.get_running_loop().create_future()

        async def send(message: Any) -> None:
            sent.append(message)

        await self._gateway(_scope(method, path, headers, body is not None), receive, send)
        status = sent[0]["status"]
        answer = json.loads(b"".join(message["body"] for message in sent[1:]))
        if status >= 400:
            raise ApiCallError(status, answer)
        return answer

    async def watch(self, payment_id: str, after: int | None = None) -> AsyncIterator[Json]:
        headers = dict(self.wallet)
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        messages: asyncio.Queue[Any] = asyncio.Queue()
        gone = asyncio.Event()

        async def receive() -> Any:
            await gone.wait()
            return {"type": "http.disconnect"}

        path = f"/v1/gateway/payment/{payment_id}/events"
        scope = _scope("GET", path, headers, has_body=False)
        call = asyncio.ensure_future(self._gateway(scope, receive, messages.put))
        try:
            head = await messages.get()
            if head["status"] >= 400:
                raise ApiCallError(head["status"], json.loads((await messages.get())["body"]))
            more = True
            while more:
                message = await messages.get()
                more = message.get("more_body", False)
                for line in message["body"].split(b"\n"):
                    if line.startswith(b"data:"):
                        yield json.loads(line[5:])
        finally:
            gone.set()
            await call


def _scope(method: str, path: str, headers: dict[str, str], has_body: bool) -> Any:
    path, _, query = path.partition("?")
    lines = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    if has_body:
        lines.append((b"content-type", b"application/json"))
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": lines,
        "client": ("127.0.0.1", 1),
    }
