"""Call the public REST API as merchants' back ends and wallets do.

Requests go as bytes to the service's gateway without a socket; credentials, limits, JSON and
answers are the same as for any other caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson
from florin_server.app.servers.grpc_server import PUBLIC_SERVICES, GrpcServers
from florin_server.web.headers import GATEWAY_SETTINGS
from grpc_rest_gateway.app import RestGateway
from grpc_rest_gateway.backends import LocalBackend

Json = dict[str, Any]


class ApiRefusal(Exception):  # noqa: N818  (an answer that most scenarios expect)
    """An error answer of the API."""

    def __init__(self, http: int, body: Json) -> None:
        super().__init__(f"{http} {body.get('code')}: {body.get('message')}")
        self.http_status = http
        self.code = str(body.get("code", ""))


class RestClient:
    """A client with one set of credentials and one address."""

    def __init__(self, gateway: RestGateway, headers: Mapping[str, str], address: str) -> None:
        self._gateway = gateway
        self._headers = [(k.lower().encode(), v.encode()) for k, v in headers.items()]
        self._address = address

    async def get(self, path: str) -> Json:
        """Return the answer; ApiRefusal if it is an error."""
        return await self._call("GET", path, None, ())

    async def post(self, path: str, body: Json, idempotency_key: str = "") -> Json:
        """Send a body, with an idempotency key if given; return the answer like `get`."""
        more = [(b"idempotency-key", idempotency_key.encode())] if idempotency_key else []
        more.append((b"content-type", b"application/json"))
        return await self._call("POST", path, body, more)

    async def stream_events(self, path: str) -> AsyncIterator[Json]:
        """Yield the events of a stream as they arrive, until it ends."""
        messages: asyncio.Queue[Any] = asyncio.Queue()
        gone = asyncio.Event()

        async def receive() -> Json:
            await gone.wait()
            return {"type": "http.disconnect"}

        scope = self._build_scope("GET", path, ())
        call = asyncio.ensure_future(self._gateway(scope, receive, messages.put))
        try:
            status = (await messages.get())["status"]
            more = True
            while more:
                message = await messages.get()
                more = message.get("more_body", False)
                if status >= 400:
                    raise ApiRefusal(status, orjson.loads(message["body"]))
                for line in message["body"].split(b"\n"):
                    if line.startswith(b"data:"):
                        yield orjson.loads(line[5:])
        finally:
            gone.set()
            await call

    async def _call(self, method: str, path: str, body: Json | None, headers: Any) -> Json:
        content = b"" if body is None else orjson.dumps(body)
        pending = [{"type": "http.request", "body": content, "more_body": False}]
        sent: list[Any] = []

        async def receive() -> Json:
            if pending:
                return pending.pop()
            # the caller stays connected until the answer
            never: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
            return await never

        async def send(message: Any) -> None:
            sent.append(message)

        await self._gateway(self._build_scope(method, path, headers), receive, send)
        answer: Json = orjson.loads(b"".join(message["body"] for message in sent[1:]))
        if sent[0]["status"] >= 400:
            raise ApiRefusal(sent[0]["status"], answer)
        return answer

    def _build_scope(self, method: str, path: str, headers: Any) -> Json:
        bare, _, query = path.partition("?")
        return {
            "type": "http",
            "method": method,
            "path": bare,
            "raw_path": bare.encode(),
            "query_string": query.encode(),
            "headers": [*self._headers, *headers],
            "client": (self._address, 1),
        }


class SimulationApi:
    """Clients of a service in this process. `env` has the variables of demo.env."""

    def __init__(self, grpc: GrpcServers, env: Mapping[str, str]) -> None:
        local = LocalBackend([grpc.interceptor])
        grpc.register(local)
        self._gateway = RestGateway(local, PUBLIC_SERVICES, GATEWAY_SETTINGS)
        self._env = env

    def get_partner_client(self) -> RestClient:
        """Return a client of the partner, for its own accounts."""
        return self._create_client({"Api-Key": self._env["FLORIN_PARTNER_KEY"]})

    def get_merchant_client(self, merchant_id: str) -> RestClient:
        """Return a client of the partner's back end, on behalf of a merchant."""
        key = self._env["FLORIN_PARTNER_KEY"]
        return self._create_client({"Api-Key": key, "Merchant-Id": merchant_id})

    def get_buyer_client(self, n: int) -> RestClient:
        """Return a client of a wallet app on a buyer's device, with its own address."""
        headers = {"App-Id": self._env["FLORIN_APP_ID"], "Client-Id": f"buyer-{n}"}
        return self._create_client(headers, f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}")

    def _create_client(self, headers: Mapping[str, str], address: str = "127.0.0.1") -> RestClient:
        return RestClient(self._gateway, headers, address)
