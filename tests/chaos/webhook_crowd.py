"""A thousand endpoints, of which one in ten never answers: how long do the others wait?

Each endpoint is one of a merchant of its own, and hears of payments that come at a steady pace.
On a machine that is too busy a payment may be refused with 503, as its call took longer than the
gateway lets it; like every shop's back end this one asks again under the same key, and says so.
`python -m tests.chaos.webhook_crowd [endpoints] [rounds] [payments a second]`.
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
from florin_server.domain.payments.payment import Merchant
from florin_server.flows.webhooks import endpoints
from florin_server.flows.webhooks.endpoints import By, Wanted
from florin_server.store.accounts import merchants

from tests.support.answering import Request, Say, answering, answers, never
from tests.support.api import Json, Refused, RestApi
from tests.support.desk import ORDER
from tests.support.service import running
from tests.support.until import until

_SERVERS = 10
# no answer in time, and the first attempt still under way
_AGAIN, _ATTEMPTS = {409, 503}, 10
_OK = answers(204)


class Clocked:
    """Takes events, and notes when each came first."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}

    async def __call__(self, request: Request, out: asyncio.StreamWriter) -> None:
        self.at.setdefault(json.loads(request.body)["data"]["payment_id"], time.monotonic())
        await _OK(request, out)


class Hanging:
    """Answers nothing, or what `say` says, and notes when it was asked."""

    def __init__(self, say: Say) -> None:
        self.say = say
        self.at: list[float] = []

    async def __call__(self, request: Request, out: asyncio.StreamWriter) -> None:
        self.at.append(time.monotonic())
        await self.say(request, out)

    def most(self, within_s: float) -> int:
        """How often it was asked within such a time, at most."""
        return max(sum(at - within_s < other <= at for other in self.at) for at in self.at)


async def crowd(
    folder: Path,
    count: int,
    rounds: int,
    per_second: float,
    *,
    at_first: Say | None = None,
    **settings: object,
) -> dict[str, float]:
    """Tells each endpoint of so many payments; answers how long those waited that answer.

    `settings` are of webhooks. Those that hang answer one more payment `at_first`. `hanging` tells
    how many attempts waited for them together, `again` how many payments had to be asked for more
    than once.
    """
    came = Clocked()
    async with AsyncExitStack() as stack:
        open_ = stack.enter_async_context
        well = [await open_(answering(came)) for _ in range(_SERVERS)]
        hanging = Hanging(at_first or never)
        hung = [await open_(answering(hanging)) for _ in range(_SERVERS)]
        webhooks = {"networks": ["127.0.0.0/8"], **settings}
        service = await open_(running(folder / "home", webhooks=webhooks))
        session = await open_(aiohttp.ClientSession())
        env = service.home.read_demo_env()
        api = RestApi(session, env["FLORIN_BASE_URL"], env)
        app = service.app
        one = await app.store.read(merchants.merchant(env["FLORIN_MERCHANT_ID"]))
        assert one is not None
        shops = []
        for n in range(count):
            servers = hung if n % 10 == 0 else well
            url = f"http://127.0.0.1:{servers[n % 100 // 10].port}/{n}"
            shops.append(await _shop(app, one, n, url))
        if at_first is not None:
            await _greeted(api, hanging, shops[::10])
        begun, again = await _pay(api, shops * rounds, per_second)
        wanted = [pay for n, pay in enumerate(begun) if n % count % 10]
        await until(lambda: len(came.at) >= len(wanted), patience_s=120)
        # what was asked within that is not given up yet
        most = hanging.most(app.settings.webhooks.timeout_s / 2)
        came.at = {one: at for one, at in came.at.items() if one in begun}
    waited = sorted(came.at[payment_id] - begun[payment_id] for payment_id in came.at)
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
    by = By(merchant.partner_id, live=False)
    await endpoints.create(app, by, merchant.id, Wanted(url, frozenset({"payment.created"})))
    return merchant.id


async def _greeted(api: RestApi, hanging: Hanging, shops: list[str]) -> None:
    """Tells each of those that will hang of one payment, which it answers."""
    await _pay(api, shops, 1000, "greeted")
    await until(lambda: len(hanging.at) >= len(shops), patience_s=120)
    hanging.say = never
    hanging.at.clear()


async def _pay(
    api: RestApi, shops: list[str], per_second: float, name: str = "crowd"
) -> tuple[dict[str, float], int]:
    """Makes one payment of each shop; answers when each was asked for, in order, and `again`."""
    begun: dict[str, float] = {}
    again = 0
    start = time.monotonic()
    for n, merchant_id in enumerate(shops):
        await asyncio.sleep(max(0.0, start + n / per_second - time.monotonic()))
        at = time.monotonic()
        headers = {**api.merchant, "Merchant-Id": merchant_id, "Idempotency-Key": f"{name}-{n}"}
        made, attempts = await _made(api, headers)
        again += attempts > 1
        begun[made["paymentId"]] = at
    assert len(begun) == len(shops), "one key made two payments, or two keys one"
    return begun, again


async def _made(api: RestApi, headers: dict[str, str]) -> tuple[Json, int]:
    """A payment, and in how many attempts it was made."""
    for attempt in range(1, _ATTEMPTS):
        try:
            return await api.call("POST", "/v1/payments", headers, ORDER), attempt
        except Refused as refused:
            if refused.http not in _AGAIN:
                raise
    return await api.call("POST", "/v1/payments", headers, ORDER), _ATTEMPTS


def main(count: int = 1000, rounds: int = 2, per_second: int = 40) -> None:
    """Prints what was measured."""
    with tempfile.TemporaryDirectory() as folder:
        print(uvloop.run(crowd(Path(folder), count, rounds, per_second)))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
