"""The public REST API, as merchants' back ends and wallets call it.

Requests are the bytes that they would send, handed to the service's gateway without a socket:
credentials, limits, JSON and answers are those of any caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson
from florin_gateway.app import Gateway
from florin_gateway.backends import Local
from florin_gateway.settings import GatewaySettings

from florin_server.boot.servers.grpc_server import PUBLIC, GrpcServers
from florin_server.web.headers import HEADERS

Json = dict[str, Any]


class Refused(Exception):  # noqa: N818  (an answer, which most stories can live with)
    """An error answer."""

    def __init__(self, http: int, body: Json) -> None:
        super().__init__(f"{http} {body.get('code')}: {body.get('message')}")
        self.http = http
        self.code = str(body.get("code", ""))


class Rest:
    """Calls with one set of credentials, from one address."""

    def __init__(self, gateway: Gateway, headers: Mapping[str, str], address: str) -> None:
        self._gateway = gateway
        self._headers = [(k.lower().encode(), v.encode()) for k, v in headers.items()]
        self._address = address

    async def get(self, path: str) -> Json:
        """What is answered; Refused if that is an error."""
        return await self._call("GET", path, None, ())

    async def post(self, path: str, body: Json, key: str = "") -> Json:
        """The same for a call with a body, under an idempotency key if there is one."""
        more = [(b"idempotency-key", key.encode())] if key else []
        more.append((b"content-type", b"application/json"))
        return await self._call("POST", path, body, more)

    async def events(self, path: str) -> AsyncIterator[Json]:
        """The events of a stream, as they come, until it ends."""
        messages: asyncio.Queue[Any] = asyncio.Queue()
        gone = asyncio.Event()

        async def receive() -> Json:
            await gone.wait()
            return {"type": "http.disconnect"}

        scope = self._scope("GET", path, ())
        call = asyncio.ensure_future(self._gateway(scope, receive, messages.put))
        try:
            status = (await messages.get())["status"]
            more = True
            while more:
                message = await messages.get()
                more = message.get("more_body", False)
                if status >= 400:
                    raise Refused(status, orjson.loads(message["body"]))
                for line in message["body"].split(b"\n"):
                    if line.startswith(b"data:"):
                        yield orjson.loads(line[5:])
        finally:
            gone.set()
            await call

    async def _call(self, method: str, path: str, body: Json | None, more: Any) -> Json:
        content = b"" if body is None else orjson.dumps(body)
        pending = [{"type": "http.request", "body": content, "more_body": False}]
        sent: list[Any] = []

        async def receive() -> Json:
            if pending:
                return pending.pop()
            # whoever calls stays until there is an answer
            never: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
            return await never

        async def send(message: Any) -> None:
            sent.append(message)

        await self._gateway(self._scope(method, path, more), receive, send)
        answer: Json = orjson.loads(b"".join(message["body"] for message in sent[1:]))
        if sent[0]["status"] >= 400:
            raise Refused(sent[0]["status"], answer)
        return answer

    def _scope(self, method: str, path: str, more: Any) -> Json:
        bare, _, query = path.partition("?")
        return {
            "type": "http",
            "method": method,
            "path": bare,
            "raw_path": bare.encode(),
            "query_string": query.encode(),
            "headers": [*self._headers, *more],
            "client": (self._address, 1),
        }


class Api:
    """Everybody who calls a service of this process. `env` holds what demo.env holds."""

    def __init__(self, grpc: GrpcServers, env: Mapping[str, str]) -> None:
        local = Local([grpc.gate])
        grpc.register(local)
        self._gateway = Gateway(local, PUBLIC, GatewaySettings(headers=HEADERS))
        self._env = env

    def partner(self) -> Rest:
        """The partner, for its accounts."""
        return self._rest({"Api-Key": self._env["FLORIN_PARTNER_KEY"]})

    def merchant(self, merchant_id: str) -> Rest:
        """The partner's back end, on behalf of a merchant."""
        key = self._env["FLORIN_PARTNER_KEY"]
        return self._rest({"Api-Key": key, "Merchant-Id": merchant_id})

    def buyer(self, n: int) -> Rest:
        """A wallet app on a buyer's device, elsewhere."""
        headers = {"App-Id": self._env["FLORIN_APP_ID"], "Client-Id": f"buyer-{n}"}
        return self._rest(headers, f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}")

    def _rest(self, headers: Mapping[str, str], address: str = "127.0.0.1") -> Rest:
        return Rest(self._gateway, headers, address)
