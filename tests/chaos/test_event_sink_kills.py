"""Test that every change reaches the broker, in order, whenever it or the service dies."""

from __future__ import annotations

import random

import pytest

from tests.chaos.event_sink_kills import campaign
from tests.support import postgres
from tests.support.event_sink import SinkHarness, list_places
from tests.support.nats_server import serve_nats
from tests.support.store_factories import open_engine_store
from tests.support.webhook_rows import add_merchant

pytestmark = pytest.mark.slow

BROKER_KILLS = 46


async def test_kills_of_the_service_and_the_broker_lose_and_invent_no_event(tmp_path):
    results = await campaign(tmp_path, 2)
    assert results["bad"] == []
    assert results["events"]


async def test_kills_of_the_broker_keep_every_event_and_the_order(tmp_path):
    rng, expected = random.Random(1), {}
    async with (
        open_engine_store(postgres.SQLITE, tmp_path) as store,
        serve_nats(tmp_path / "nats") as broker,
    ):
        await add_merchant(store)
        sink = SinkHarness(store, tmp_path, broker.url)
        await sink.start()
        async with sink.publish():
            for _ in range(BROKER_KILLS):
                created = [await sink.create() for _ in range(10)]
                # some are published before it dies, and some are on their way
                await sink.wait_waiting_below(rng.randrange(1, 11))
                for payment in created[:5]:
                    await sink.cancel(payment)
                broker.kill()
                await broker.start()
                expected |= {
                    payment.id: [0, 1] if payment in created[:5] else [0] for payment in created
                }
            await sink.wait_published()
        places = list_places(await broker.list_messages())
    # a repetition has the id of its event, which consumers know already
    assert {payment_id: list(dict.fromkeys(each)) for payment_id, each in places.items()} == (
        expected
    )
