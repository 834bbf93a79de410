"""The previous release and this one work on one store at once, under load, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict

import aiohttp
import pytest

from tests.chaos.customers import (
    Acknowledgements,
    create_customers,
    find_differences,
    wait_while_paying,
)
from tests.support import postgres
from tests.support.http_stub import make_stub_response, serve_stub
from tests.support.processes import open_installation
from tests.support.released_versions import RELEASED, RELEASED_SCHEMA, unpack_code
from tests.support.rolling_upgrade import BalancedApi, Balancer, Roll
from tests.support.store_migrations import move_database
from tests.support.until import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
    ),
]

# payments that end between two steps of the roll
STORIES = 12
SEED = 11
WAITS_S = 120
ENDS = ["payment.succeeded", "payment.cancelled", "refund.succeeded"]
HOOKS = {"FLORIN_WEBHOOKS__NETWORKS": '["127.0.0.0/8"]'}
HELD = "processes of an older release run on this store"
PENDING = "SELECT name FROM installation WHERE name IN ('older_releases', 'filling')"


async def test_rolling_upgrade_under_load_fails_no_call_and_loses_nothing(tmp_path):
    result, ends = Acknowledgements(), asyncio.Event()
    async with open_installation(tmp_path) as at, serve_stub(make_stub_response(204)) as back_end:
        await move_database(at.env["FLORIN_STORE"], RELEASED_SCHEMA, down=True)
        balancer = Balancer()
        roll = Roll(at, balancer, unpack_code(RELEASED[-1], tmp_path))
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        async with balancer.running(), aiohttp.ClientSession(connector=connector) as session:
            first = await roll.start("first", older=True, **HOOKS)
            second = await roll.start("second", older=True, **HOOKS)
            await wait_until(lambda: len(balancer.ready) == 2)
            api = BalancedApi(session, balancer, at.accounts)
            hook = {"url": f"http://127.0.0.1:{back_end.port}/hooks", "events": ENDS}
            key = {"Api-Key": api.merchant["Api-Key"]}
            await api.call("POST", "/v1/webhook-endpoints", key, hook)
            people = await create_customers(at, api, result, SEED)
            runs = [asyncio.create_task(customer.run(ends)) for customer in people]

            async def more_stories() -> None:
                expected = sum(customer.payment_runs for customer in people) + STORIES
                await wait_while_paying(
                    runs, lambda: sum(customer.payment_runs for customer in people) >= expected
                )

            await more_stories()
            # it migrates while the others are under load
            tried = await roll.start("tried", **HOOKS)
            await more_stories()
            assert HELD in tried.log.read_text()
            # the upgrade is rolled back: the older release continues, on the newer schema
            await roll.end(tried)
            await more_stories()
            third = await roll.start("third", **HOOKS)
            await roll.end(first)
            await more_stories()
            fourth = await roll.start("fourth", **HOOKS)
            await roll.end(second)
            await wait_until(lambda: postgres.list_rows(at.env["FLORIN_STORE"], PENDING), [])
            await more_stories()
            ends.set()
            await asyncio.gather(*runs)
            bad = await find_differences(at, session, result)
            # a transaction in progress at a process's end is free again after the lease
            await wait_until(lambda: _missing(result, back_end.requests), {}, patience_s=WAITS_S)
            for node in (third, fourth):
                assert "ERROR" not in node.log.read_text()
            await roll.end_all()
    assert bad == []
    # a process that ends also ends its streams, which clients resume elsewhere
    assert set(result.disturbed) <= {"stream"}


def _missing(result: Acknowledgements, came) -> dict[str, list[str]]:
    """Return the ends of payments that the endpoint has not received."""
    received = defaultdict(set)
    for request in came:
        payment_id = "pay_" + request.headers["webhook-id"].split("_")[1]
        received[payment_id].add(json.loads(request.body)["type"])
    expected = {payment_id: {"payment.succeeded"} for payment_id in result.confirmed}
    expected |= {payment_id: {"payment.cancelled"} for payment_id in result.cancelled}
    for payment_id in result.refunds:
        expected[payment_id].add("refund.succeeded")
    lacking = {text: sorted(types - received[text]) for text, types in expected.items()}
    return {text: types for text, types in lacking.items() if types}
