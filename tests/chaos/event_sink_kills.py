"""Kill the service that publishes events, and the broker that it publishes to, again and again.

At the end every change in the store is in the broker's stream, in the order of its payment, with
its refund's events after them. Nothing was published that did not happen.
`python -m tests.chaos.event_sink_kills 25 [seed]`.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import aiohttp
import uvloop

from tests.support import postgres
from tests.support.api import ApiCallError, RestApi
from tests.support.command import RunningCommand
from tests.support.event_sink import list_places
from tests.support.nats_server import NatsServer
from tests.support.service_harness import ORDER
from tests.support.until import wait_until

_SHOPS = 2
_WAITING = "SELECT count(*) FROM webhook_delivery"
# except those of the payment that Florin makes at its first start
_EVENTS = (
    "SELECT e.payment_id, e.version FROM payment_event e JOIN payment p ON p.id = e.payment_id "
    "WHERE p.reference_id <> 'first-payment' UNION ALL "
    "SELECT r.payment_id, p.version + r.version FROM refund_event r "
    "JOIN payment p ON p.id = r.payment_id ORDER BY 1, 2"
)
_FIRST = "SELECT id FROM payment WHERE reference_id = 'first-payment'"


async def campaign(folder: Path, kills: int, seed: int = 1) -> dict[str, object]:
    """Kill each of them `kills` times; return the numbers of events, and the violations."""
    rng = random.Random(seed)
    home, broker = folder / "home", NatsServer(folder / "nats")
    settings = {
        "FLORIN_EVENT_SINK__URL": broker.url,
        "FLORIN_EVENT_SINK__CREATE_STREAM": "true",
        "FLORIN_EVENT_SINK__TIMEOUT_S": "1",
        "FLORIN_EMBEDDED_SOLANA__ENABLED": "false",
    }
    await broker.start()
    try:
        async with aiohttp.ClientSession() as session:
            for kill in range(kills):
                up = await asyncio.to_thread(RunningCommand, "up", home=home, **settings)
                api = RestApi(session, up.env["FLORIN_BASE_URL"], up.env)
                shops = [
                    asyncio.create_task(_run_shop(api, f"{kill}-{n}", rng)) for n in range(_SHOPS)
                ]
                await _let_publish(broker, rng)
                broker.kill()
                await broker.start()
                await _let_publish(broker, rng)
                up.send_signal(signal.SIGKILL)
                await asyncio.to_thread(up.wait_ended)
                for task in shops:
                    task.cancel()
                await asyncio.gather(*shops, return_exceptions=True)
            up = await asyncio.to_thread(RunningCommand, "up", home=home, **settings)
            with up:
                await wait_until(lambda: postgres.select(home, _WAITING)[0][0] == 0, patience_s=120)
                events = postgres.select(home, _EVENTS)
                first = {payment_id for (payment_id,) in postgres.select(home, _FIRST)}
            places = list_places(await broker.list_messages())
    finally:
        broker.kill()
    return {
        "events": len(events),
        "messages": sum(map(len, places.values())),
        "bad": _find_violations(events, places, first),
    }


async def _let_publish(broker: NatsServer, rng: random.Random) -> None:
    """Return once some more events are in the stream."""
    target = await broker.count_messages() + rng.randrange(1, 20)

    async def is_reached() -> bool:
        return await broker.count_messages() >= target

    await wait_until(is_reached)


async def _run_shop(api: RestApi, name: str, rng: random.Random) -> None:
    """Make payments and finish them until the service is gone."""
    number = 0
    with suppress(aiohttp.ClientError, OSError, TimeoutError, ApiCallError):
        while True:
            number += 1
            created = await api.create({**ORDER, "referenceId": f"{name}-{number}"})
            outcome = rng.choice(("succeeded", "failed"))
            await api.simulate(created["paymentId"], outcome)
            if outcome == "succeeded":
                body = {"paymentId": created["paymentId"]}
                await api.call("POST", "/v1/refunds", api.merchant, body)


def _find_violations(
    events: list[tuple[str, int]], places: dict[str, list[int]], ignored: set[str]
) -> list[str]:
    """Return events that were lost, invented, or published in the wrong order."""
    stored: dict[str, list[int]] = {}
    for payment_id, version in events:
        stored.setdefault(payment_id, []).append(version)
    results = []
    for payment_id in (stored.keys() | places.keys()) - ignored:
        # repetitions have the id of the event, which consumers know already
        published = list(dict.fromkeys(places.get(payment_id, [])))
        if published != stored.get(payment_id, []):
            results.append(f"{payment_id}: {published} of {stored.get(payment_id)}")
    return results


def main(kills: int = 25, seed: int = 1) -> None:
    """Run the campaign."""
    with tempfile.TemporaryDirectory() as folder:
        results = uvloop.run(campaign(Path(folder), kills, seed))
    print(results)
    sys.exit(bool(results["bad"]))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
