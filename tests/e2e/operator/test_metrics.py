"""Prometheus reads how a running service is doing, on a listener that is the operator's."""

from __future__ import annotations

import pytest
import pytest_asyncio
from florin_server.boot.service import Service
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
from prometheus_client.parser import text_string_to_metric_families as read

from tests.support.desk import ORDER, Desk, opened
from tests.support.service import settings

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    async with opened(tmp_path_factory.mktemp("metrics"), metrics_port=0) as desk:
        yield desk


async def told(desk: Desk) -> dict[tuple[str, ...], float]:
    """Every value by its metric and labels."""
    async with desk.session.get(desk.service.metrics_url) as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        families = list(read(await answer.text()))
    assert all(family.documentation for family in families)
    return {(s.name, *s.labels.values()): s.value for f in families for s in f.samples}


async def test_the_state_of_a_running_service(desk):
    values = await told(desk)
    (chain_id,) = {key[1] for key in values if key[0] == "florin_chain_ok"}
    assert desk.service.app.rails.keys() == {chain_id}
    assert values["florin_chain_ok", chain_id] == 1
    assert values["florin_chain_head_block", chain_id] > 0
    assert {key[1] for key in values if key[0] == "florin_executor_paused"} == {
        *desk.service.app.executors
    }
    assert values["florin_payments_processing",] == 0
    assert values["florin_condition", "screening_lists_stale"] == 0
    assert values["florin_chain_condition", chain_id, "relayer_funds_low"] == 0
    assert values["process_resident_memory_bytes",] > 1_000_000


async def test_callers_add_no_series(desk):
    before = set(await told(desk))
    for number in range(3):
        payment_id = (await desk.rest.create({**ORDER, "referenceId": f"r {number}"}))["paymentId"]
        await desk.ask("GET", f"/{payment_id}", {"User-Agent": f"agent-{number}"})
        await desk.ask("GET", f"/unknown-{number}/state")
        await desk.ask("POST", f"/v1/payments/{number}", {"Api-Key": f"key-{number}"})
    offer = await desk.offer()
    await desk.confirm(offer)
    await desk.final(offer.payment_id)
    assert set(await told(desk)) == before


async def test_a_server_that_asks_for_openmetrics_gets_it(desk):
    accept = {"Accept": "application/openmetrics-text; version=1.0.0,text/plain;q=0.5"}
    async with desk.session.get(desk.service.metrics_url, headers=accept) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        names = {family.name for family in read_open(await answer.text())}
    assert "florin_chain_ok" in names


async def test_the_listener_tells_metrics_and_nothing_else(desk):
    assert desk.service.metrics_url.startswith("http://127.0.0.1:")
    base = desk.service.metrics_url.removesuffix("/metrics")
    for path in ("/", "/v1/payments", "/healthz", "/docs"):
        async with desk.session.get(base + path) as answer:
            assert answer.status == 404
    async with desk.session.post(base + "/metrics") as answer:
        assert answer.status == 405
    # nor are they told where callers are
    public = await desk.ask("GET", "/metrics")
    assert public.status == 404
    assert "florin_chain_ok" not in public.text


async def test_unless_it_is_asked_for_nobody_listens(tmp_path):
    async with opened(tmp_path) as desk:
        assert desk.service.metrics_url == ""


async def test_a_port_that_is_taken_is_named(desk, tmp_path):
    port = int(desk.service.metrics_url.rpartition(":")[2].removesuffix("/metrics"))
    with pytest.raises(OSError, match="choose another port with FLORIN_METRICS_PORT"):
        await Service.start(settings(tmp_path, metrics_port=port))
