"""A service is killed again and again while it tells endpoints of changes.

In the end every change in the store was told to every endpoint, in the order of its payment, its
refund's after them, and nothing was told that did not happen. Endpoints fail now and then, too.
`python -m tests.chaos.webhook_kills 50 [seed]`.
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
from tests.support.answering import Request, answering, answers
from tests.support.api import Refused, RestApi
from tests.support.command import Lasting
from tests.support.desk import ORDER
from tests.support.until import until

PATHS = ("/all", "/one")
OUTCOMES = ("succeeded", "failed")
SETTINGS = {
    "FLORIN_WEBHOOKS__NETWORKS": '["127.0.0.0/8"]',
    "FLORIN_WEBHOOKS__TIMEOUT_S": "1",
    "FLORIN_EMBEDDED_SOLANA__ENABLED": "false",
}
_OK, _FAILS = answers(204), answers(500)
_SHOPS = 4
_WAITING = "SELECT count(*) FROM webhook_delivery"
# but those of the payment that a Florin makes at its first start, before there is any endpoint
_EVENTS = (
    "SELECT e.payment_id, e.version FROM payment_event e JOIN payment p ON p.id = e.payment_id "
    "WHERE p.reference_id <> 'first-payment' UNION ALL "
    "SELECT r.payment_id, p.version + r.version FROM refund_event r "
    "JOIN payment p ON p.id = r.payment_id ORDER BY 1, 2"
)


@dataclass
class BackEnd:
    """Takes what comes, but now and then says that it did not; verifies every message."""

    chance: random.Random
    secrets: dict[str, str] = field(default_factory=dict)
    came: dict[str, dict[str, list[int]]] = field(
        default_factory=lambda: {path: {} for path in PATHS}
    )
    count: int = 0

    async def __call__(self, request: Request, out: asyncio.StreamWriter) -> None:
        path = request.line.split()[1]
        event = Webhook(self.secrets[path]).verify(request.body, dict(request.headers))
        data = event["data"]
        # a refund that is simulated succeeds at once
        is_refund = event["type"] == "refund.succeeded"
        assert bool(data["refunds"]) is is_refund
        place = data["payment_state_version"]
        assert request.headers["webhook-id"] == f"evt_{data['payment_id'][4:]}_{place}"
        self.came[path].setdefault(data["payment_id"], []).append(place)
        self.count += 1
        await (_FAILS if self.chance.random() < 0.03 else _OK)(request, out)


async def campaign(folder: Path, kills: int, seed: int = 1) -> dict[str, object]:
    """Kills so often; answers how many events there were, and what is wrong."""
    chance = random.Random(seed)
    back_end = BackEnd(random.Random(seed + 1))
    home = folder / "home"
    async with answering(back_end) as server, aiohttp.ClientSession() as session:
        for kill in range(kills):
            up = await asyncio.to_thread(Lasting, "up", home=home, **SETTINGS)
            api = RestApi(session, up.env["FLORIN_BASE_URL"], up.env)
            if not kill:
                await _endpoints(api, server.port, up.env["FLORIN_MERCHANT_ID"], back_end)
            shops = [asyncio.create_task(_shop(api, f"{kill}-{n}", chance)) for n in range(_SHOPS)]
            target = back_end.count + chance.randrange(1, 60)
            await until(lambda target=target: back_end.count >= target, patience_s=60)
            up.tell(signal.SIGKILL)
            await asyncio.to_thread(up.ended)
            for one in shops:
                one.cancel()
            await asyncio.gather(*shops, return_exceptions=True)
        up = await asyncio.to_thread(Lasting, "up", home=home, **SETTINGS)
        with up:
            await until(lambda: postgres.select(home, _WAITING)[0][0] == 0, patience_s=120)
            events = postgres.select(home, _EVENTS)
    return {"events": len(events), "came": back_end.count, "bad": _bad(events, back_end)}


async def _endpoints(api: RestApi, port: int, merchant_id: str, back_end: BackEnd) -> None:
    key = {"Api-Key": api.merchant["Api-Key"]}
    for path, more in zip(PATHS, ({}, {"merchantId": merchant_id}), strict=True):
        body = {"url": f"http://127.0.0.1:{port}{path}", "events": ["*"], **more}
        made = await api.call("POST", "/v1/webhook-endpoints", key, body)
        back_end.secrets[path] = made["secret"]


async def _shop(api: RestApi, name: str, chance: random.Random) -> None:
    """Makes payments and brings them to an end, until the service is gone."""
    number = 0
    with suppress(aiohttp.ClientError, OSError, TimeoutError, Refused):
        while True:
            number += 1
            made = await api.create({**ORDER, "referenceId": f"{name}-{number}"})
            if chance.random() < 0.5:
                await api.simulate(made["paymentId"], "stall")
            outcome = chance.choice(OUTCOMES)
            await api.simulate(made["paymentId"], outcome)
            if outcome == "succeeded":
                body = {"paymentId": made["paymentId"]}
                await api.call("POST", "/v1/refunds", api.merchant, body)


def _bad(events: list[tuple[str, int]], back_end: BackEnd) -> list[str]:
    """What was lost, invented, or told before what came before it."""
    happened: dict[str, list[int]] = {}
    for payment_id, version in events:
        happened.setdefault(payment_id, []).append(version)
    found = []
    for path, came in back_end.came.items():
        for payment_id in happened.keys() | came.keys():
            told = came.get(payment_id, [])
            if sorted(set(told)) != happened.get(payment_id, []):
                found.append(f"{path} {payment_id}: {told} of {happened.get(payment_id)}")
            if told != sorted(told):
                found.append(f"{path} {payment_id}: in the order {told}")
    return found


def main(kills: int = 50, seed: int = 1) -> None:
    """Runs the long form on the store that FLORIN_TEST_STORE names."""
    with tempfile.TemporaryDirectory() as folder:
        found = uvloop.run(campaign(Path(folder), kills, seed))
    print(found)
    sys.exit(bool(found["bad"]))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
