"""Measure how long endpoints wait when one in ten of a thousand never answers.

Each endpoint belongs to a separate merchant, whose payments come at a steady pace. On a busy
machine a payment can be refused with 503, because its call exceeded the gateway's limit. Like every
shop's back end, this one repeats the call under the same key, and reports it. `python -m
tests.chaos.webhook_crowd [endpoints] [rounds] [payments a second]`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import aiohttp
import uvloop
from florin_server.accounts.store import merchants
from florin_server.domain.payments.payment import Merchant
from florin_server.features.webhooks.service import endpoints
from florin_server.features.webhooks.service.endpoints import EndpointActor, EndpointSpec

from tests.support.api import ApiCallError, Json, RestApi
from tests.support.http_stub import (
    ReceivedRequest,
    StubHandler,
    hang,
    make_stub_response,
    serve_stub,
)
from tests.support.service import run_service
from tests.support.service_harness import ORDER
from tests.support.until import wait_until

_SERVERS = 10
# no answer in time, and the first attempt still pending
_AGAIN, _ATTEMPTS = {409, 503}, 10
_OK = make_stub_response(204)


class RecordingServer:
    """A server that accepts events, and records when each first came."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}

    async def __call__(self, request: ReceivedRequest, out: asyncio.StreamWriter) -> None:
        self.times.setdefault(json.loads(request.body)["data"]["payment_id"], time.monotonic())
        await _OK(request, out)


class HangingServer:
    """A server that does not answer, or answers as `handler` does, and records its calls."""

    def __init__(self, handler: StubHandler) -> None:
        self.handler = handler
        self.times: list[float] = []

    async def __call__(self, request: ReceivedRequest, out: asyncio.StreamWriter) -> None:
        self.times.append(time.monotonic())
        await self.handler(request, out)

    def get_max_calls(self, within_s: float) -> int:
        """Return the most calls within any period of this length."""
        return max(sum(at - within_s < other <= at for other in self.times) for at in self.times)


async def crowd(
    folder: Path,
    count: int,
    rounds: int,
    per_second: float,
    *,
    at_first: StubHandler | None = None,
    **settings: object,
) -> dict[str, float]:
    """Send each endpoint its payments; return how long the responsive endpoints waited.

    `settings` are webhook settings. Hanging endpoints answer one more payment `at_first`. `hanging`
    is how many attempts waited for them at once, `again` how many payments needed more than one
    call.
    """
    recording = RecordingServer()
    async with AsyncExitStack() as stack:
        open_ = stack.enter_async_context
        responsive = [await open_(serve_stub(recording)) for _ in range(_SERVERS)]
        hanging = HangingServer(at_first or hang)
        silent = [await open_(serve_stub(hanging)) for _ in range(_SERVERS)]
        webhooks = {"networks": ["127.0.0.0/8"], **settings}
        service = await open_(run_service(folder / "home", webhooks=webhooks))
        session = await open_(aiohttp.ClientSession())
        env = service.home.read_demo_env()
        api = RestApi(session, env["FLORIN_BASE_URL"], env)
        app = service.app
        merchant = await app.store.read(merchants.find_merchant(env["FLORIN_MERCHANT_ID"]))
        assert merchant is not None
        shops = []
        for n in range(count):
            servers = silent if n % 10 == 0 else responsive
            url = f"http://127.0.0.1:{servers[n % 100 // 10].port}/{n}"
            shops.append(await _shop(app, merchant, n, url))
        if at_first is not None:
            await _greet(api, hanging, shops[::10])
        started_at, again = await _pay(api, shops * rounds, per_second)
        expected = [pay for n, pay in enumerate(started_at) if n % count % 10]
        await wait_until(lambda: len(recording.times) >= len(expected), patience_s=120)
        # attempts within that time have not timed out yet
        most = hanging.get_max_calls(app.settings.webhooks.timeout_s / 2)
        recording.times = {text: at for text, at in recording.times.items() if text in started_at}
    waited = sorted(
        recording.times[payment_id] - started_at[payment_id] for payment_id in recording.times
    )
    return {
        "events": len(waited),
        "p50": round(waited[len(waited) // 2], 3),
        "p99": round(waited[len(waited) * 99 // 100], 3),
        "max": round(waited[-1], 3),
        "hanging": most,
        "again": again,
    }


async def _shop(app: object, like: Merchant, number: int, url: str) -> str:
    merchant = replace(like, id=f"mrch_crowd{number}")
    await app.store.write(merchants.put_merchant(merchant))
    by = EndpointActor(merchant.partner_id, live=False)
    await endpoints.create(app, by, merchant.id, EndpointSpec(url, frozenset({"payment.created"})))
    return merchant.id


async def _greet(api: RestApi, hanging: HangingServer, shops: list[str]) -> None:
    """Deliver one payment to each endpoint that will hang; it answers that one."""
    await _pay(api, shops, 1000, "greeted")
    await wait_until(lambda: len(hanging.times) >= len(shops), patience_s=120)
    hanging.handler = hang
    hanging.times.clear()


async def _pay(
    api: RestApi, shops: list[str], per_second: float, name: str = "crowd"
) -> tuple[dict[str, float], int]:
    """Make one payment per shop; return the start time of each, in order, and `again`."""
    started_at: dict[str, float] = {}
    again = 0
    start = time.monotonic()
    for n, merchant_id in enumerate(shops):
        await asyncio.sleep(max(0.0, start + n / per_second - time.monotonic()))
        at = time.monotonic()
        headers = {**api.merchant, "Merchant-Id": merchant_id, "Idempotency-Key": f"{name}-{n}"}
        created, attempts = await _create_payment(api, headers)
        again += attempts > 1
        started_at[created["paymentId"]] = at
    assert len(started_at) == len(shops), "one key made two payments, or two keys one"
    return started_at, again


async def _create_payment(api: RestApi, headers: dict[str, str]) -> tuple[Json, int]:
    """Create a payment; return it and the number of attempts."""
    for attempt in range(1, _ATTEMPTS):
        try:
            return await api.call("POST", "/v1/payments", headers, ORDER), attempt
        except ApiCallError as refused:
            if refused.http not in _AGAIN:
                raise
    return await api.call("POST", "/v1/payments", headers, ORDER), _ATTEMPTS


def main(count: int = 1000, rounds: int = 2, per_second: int = 40) -> None:
    """Print the measurements."""
    with tempfile.TemporaryDirectory() as folder:
        print(uvloop.run(crowd(Path(folder), count, rounds, per_second)))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
