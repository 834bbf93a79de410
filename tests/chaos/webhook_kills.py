"""Kill a service again and again while it delivers events to endpoints.

At the end every change in the store was delivered to every endpoint, in the order of its payment,
with its refund's events after them. Nothing was delivered that did not happen. Endpoints fail
sometimes, too. `python -m tests.chaos.webhook_kills 50 [seed]`.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import uvloop
from standardwebhooks import Webhook

from tests.support import postgres
from tests.support.api import ApiCallError, RestApi
from tests.support.command import RunningCommand
from tests.support.http_stub import ReceivedRequest, make_stub_response, serve_stub
from tests.support.service_harness import ORDER
from tests.support.until import wait_until

PATHS = ("/all", "/one")
OUTCOMES = ("succeeded", "failed")
SETTINGS = {
    "FLORIN_WEBHOOKS__NETWORKS": '["127.0.0.0/8"]',
    "FLORIN_WEBHOOKS__TIMEOUT_S": "1",
    "FLORIN_EMBEDDED_SOLANA__ENABLED": "false",
}
_OK, _FAILS = make_stub_response(204), make_stub_response(500)
_SHOPS = 4
_WAITING = "SELECT count(*) FROM webhook_delivery"
# except those of the payment that Florin makes at its first start, before any endpoint exists
_EVENTS = (
    "SELECT e.payment_id, e.version FROM payment_event e JOIN payment p ON p.id = e.payment_id "
    "WHERE p.reference_id <> 'first-payment' UNION ALL "
    "SELECT r.payment_id, p.version + r.version FROM refund_event r "
    "JOIN payment p ON p.id = r.payment_id ORDER BY 1, 2"
)


@dataclass
class BackEnd:
    """A back end that accepts events, sometimes claims a failure, and verifies every message."""

    rng: random.Random
    secrets: dict[str, str] = field(default_factory=dict)
    received: dict[str, dict[str, list[int]]] = field(
        default_factory=lambda: {path: {} for path in PATHS}
    )
    count: int = 0

    async def __call__(self, request: ReceivedRequest, out: asyncio.StreamWriter) -> None:
        path = request.line.split()[1]
        event = Webhook(self.secrets[path]).verify(request.body, dict(request.headers))
        data = event["data"]
        # a simulated refund succeeds at once
        is_refund = event["type"] == "refund.succeeded"
        assert bool(data["refunds"]) is is_refund
        place = data["payment_state_version"]
        assert request.headers["webhook-id"] == f"evt_{data['payment_id'][4:]}_{place}"
        self.received[path].setdefault(data["payment_id"], []).append(place)
        self.count += 1
        await (_FAILS if self.rng.random() < 0.03 else _OK)(request, out)


async def campaign(folder: Path, kills: int, seed: int = 1) -> dict[str, object]:
    """Kill `kills` times; return the number of events, and the violations."""
    rng = random.Random(seed)
    back_end = BackEnd(random.Random(seed + 1))
    home = folder / "home"
    async with serve_stub(back_end) as server, aiohttp.ClientSession() as session:
        for kill in range(kills):
            up = await asyncio.to_thread(RunningCommand, "up", home=home, **SETTINGS)
            api = RestApi(session, up.env["FLORIN_BASE_URL"], up.env)
            if not kill:
                await _create_endpoints(api, server.port, up.env["FLORIN_MERCHANT_ID"], back_end)
            shops = [asyncio.create_task(_run_shop(api, f"{kill}-{n}", rng)) for n in range(_SHOPS)]
            target = back_end.count + rng.randrange(1, 60)
            await wait_until(lambda target=target: back_end.count >= target, patience_s=240)
            up.send_signal(signal.SIGKILL)
            await asyncio.to_thread(up.wait_ended)
            for task in shops:
                task.cancel()
            await asyncio.gather(*shops, return_exceptions=True)
        up = await asyncio.to_thread(RunningCommand, "up", home=home, **SETTINGS)
        with up:
            await wait_until(lambda: postgres.select(home, _WAITING)[0][0] == 0, patience_s=120)
            events = postgres.select(home, _EVENTS)
    return {
        "events": len(events),
        "came": back_end.count,
        "bad": _find_violations(events, back_end),
    }


async def _create_endpoints(api: RestApi, port: int, merchant_id: str, back_end: BackEnd) -> None:
    key = {"Api-Key": api.merchant["Api-Key"]}
    for path, more in zip(PATHS, ({}, {"merchantId": merchant_id}), strict=True):
        body = {"url": f"http://127.0.0.1:{port}{path}", "events": ["*"], **more}
        created = await api.call("POST", "/v1/webhook-endpoints", key, body)
        back_end.secrets[path] = created["secret"]


async def _run_shop(api: RestApi, name: str, rng: random.Random) -> None:
    """Make payments and finish them until the service is gone."""
    number = 0
    with suppress(aiohttp.ClientError, OSError, TimeoutError, ApiCallError):
        while True:
            number += 1
            created = await api.create({**ORDER, "referenceId": f"{name}-{number}"})
            if rng.random() < 0.5:
                await api.simulate(created["paymentId"], "stall")
            outcome = rng.choice(OUTCOMES)
            await api.simulate(created["paymentId"], outcome)
            if outcome == "succeeded":
                body = {"paymentId": created["paymentId"]}
                await api.call("POST", "/v1/refunds", api.merchant, body)


def _find_violations(events: list[tuple[str, int]], back_end: BackEnd) -> list[str]:
    """Return events that were lost, invented, or delivered in the wrong order."""
    stored: dict[str, list[int]] = {}
    for payment_id, version in events:
        stored.setdefault(payment_id, []).append(version)
    results = []
    for path, received in back_end.received.items():
        for payment_id in stored.keys() | received.keys():
            versions = received.get(payment_id, [])
            if sorted(set(versions)) != stored.get(payment_id, []):
                results.append(f"{path} {payment_id}: {versions} of {stored.get(payment_id)}")
            if versions != sorted(versions):
                results.append(f"{path} {payment_id}: in the order {versions}")
    return results


def main(kills: int = 50, seed: int = 1) -> None:
    """Run the long form on the store that FLORIN_TEST_STORE names."""
    with tempfile.TemporaryDirectory() as folder:
        results = uvloop.run(campaign(Path(folder), kills, seed))
    print(results)
    sys.exit(bool(results["bad"]))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
