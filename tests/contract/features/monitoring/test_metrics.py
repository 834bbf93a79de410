"""Prometheus reads a running service's metrics, on a listener for the operator."""

from __future__ import annotations

import re
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
from florin_server.app.servers import gateway
from florin_server.app.servers.grpc_server import OPERATOR_SERVICES, PUBLIC_SERVICES
from florin_server.app.servers.metrics import start_meters
from florin_server.app.servers.observing import RequestObservers, build_rest_observer
from florin_server.app.service import FlorinService
from florin_server.base.meters import Meters
from florin_server.settings import LimitSettings
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
from prometheus_client.parser import text_string_to_metric_families as read

from tests.support.api import ApiCallError
from tests.support.service import make_settings
from tests.support.service_harness import ORDER, ServiceHarness, open_service
from tests.support.until import wait_until

GAS = "florin_gas_cost_minor_units_total"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("metrics"), metrics_port=0) as desk:
        yield desk


async def read_values(desk: ServiceHarness) -> dict[tuple[str, ...], float]:
    """Return every value by its metric and labels."""
    async with desk.session.get(desk.service.metrics_url) as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        families = list(read(await answer.text()))
    assert all(family.documentation for family in families)
    return {(s.name, *s.labels.values()): s.value for f in families for s in f.samples}


def gas_of(desk: ServiceHarness) -> float:
    counted = desk.service.app.meters.registry.collect()
    return sum(s.value for family in counted for s in family.samples if s.name == GAS)


async def test_the_state_of_a_running_service(desk):
    values = await read_values(desk)
    (chain_id,) = {key[1] for key in values if key[0] == "florin_chain_ok"}
    assert desk.service.app.rails.keys() == {chain_id}
    assert values["florin_chain_ok", chain_id] == 1
    assert values["florin_chain_head_block", chain_id] > 0
    assert {key[1] for key in values if key[0] == "florin_executor_paused"} == {
        *desk.service.app.executors
    }
    assert values["florin_payments_processing",] == 0
    # values that this process has without a call
    assert values["florin_home_free_bytes",] > 0
    assert {v for key, v in values.items() if key[0] == "florin_lease_held"} == {1}
    assert values["florin_node_calls_total", chain_id, "eth_getBlockByNumber"] > 0
    assert "florin_supervisor_restarts_total" not in {name for name, *_ in values}
    assert values["florin_condition", "screening_lists_stale"] == 0
    assert values["florin_chain_condition", chain_id, "relayer_funds_low"] == 0
    assert values["process_resident_memory_bytes",] > 1_000_000


async def test_callers_choose_no_label(desk):
    rpcs = {
        f"{service.name}.{method_descriptor.name}"
        for service in PUBLIC_SERVICES
        for method_descriptor in service.methods
    }
    rpcs |= {
        f"{service.name}.{method_descriptor.name}"
        for service in OPERATOR_SERVICES
        for method_descriptor in service.methods
    }
    before = await read_values(desk)
    for number in range(3):
        payment_id = (await desk.rest.create({**ORDER, "referenceId": f"r {number}"}))["paymentId"]
        await desk.ask("GET", f"/{payment_id}", {"User-Agent": f"agent-{number}"})
        await desk.ask("GET", f"/unknown-{number}/state")
        await desk.ask("GET", f"/un/known/{number}/at/all")
        await desk.ask("POST", f"/v1/payments/{number}", {"Api-Key": f"key-{number}"})
        await desk.ask(f"BREW{number}", f"/v1/payments/{number}")
        with pytest.raises(ApiCallError):
            await desk.grpc.detail(f"pay_{number}")
    offer = await desk.offer()
    await desk.confirm(offer)
    await desk.wait_final(offer.payment_id)
    after = await read_values(desk)
    counted = {key[1:] for key in after if key[0].startswith("florin_request_")}
    # the code chooses the calls to nodes
    node_calls = {key for key in after if key[0] == "florin_node_calls_total"}
    new = {key for key in after if key not in before} - node_calls
    assert {key[0] for key in new} <= {
        *(f"florin_request_duration_seconds_{part}" for part in ("bucket", "count", "sum"))
    }
    methods = {key[-2] for key in counted}
    pages = {text for text in methods - rpcs if text}
    assert pages <= {"/{payment_id}", "/{payment_id}/state", "/{payment_id}/events"}
    assert {key[-1] for key in counted} == {"grpc", "rest"}
    assert all(re.fullmatch(r"[1-5]\d\d|[A-Z_]+", key[0]) for key in counted)
    assert not any("unknown" in part or "key-" in part for key in after for part in key)


async def test_a_payment_is_counted_on_its_way(desk):
    before = await read_values(desk)
    offer = await desk.offer()
    await desk.confirm(offer)
    await desk.wait_final(offer.payment_id)
    after = await read_values(desk)
    (chain_id,) = desk.service.app.rails

    def grown(*key: str) -> float:
        return after.get(key, 0) - before.get(key, 0)

    for status in ("requires_action", "processing", "succeeded"):
        assert grown("florin_payment_changes_total", status) == 1
    assert grown("florin_payment_changes_total", "failed") == 0
    assert grown("florin_settlement_duration_seconds_count", chain_id, "succeeded") == 1
    await wait_until(lambda: gas_of(desk) > sum(v for k, v in before.items() if k[0] == GAS))
    assert grown("florin_store_operations_total") > 0
    assert grown("florin_store_commit_duration_seconds_count") > 0
    called = ("201", "MerchantService.CreatePayment", "rest")
    assert grown("florin_request_duration_seconds_count", *called) == 1


async def test_open_payments_are_reported_with_their_age(desk):
    await desk.rest.create(ORDER)
    values = await read_values(desk)
    assert values["florin_payments", "requires_action"] >= 1
    assert values["florin_payment_oldest_unfinished_seconds",] == 0
    assert values["florin_store_queue_operations",] == 0
    wallets = {key[1] for key in values if key[0] == "florin_wallet_balance_minor_units"}
    (rail,) = desk.service.app.rails.values()
    assert {f"{rail.chain_id}:{sender}" for sender in rail.senders} <= wallets


async def test_a_refusal_is_counted_by_its_limit(tmp_path):
    few = LimitSettings(key_per_minute=1, key_burst=1)
    async with open_service(tmp_path, metrics_port=0, limits=few) as desk:
        assert (await read_values(desk))["florin_limit_refusals_total", "key"] == 0
        for _ in range(3):
            await desk.ask("GET", "/v1/payments", desk.rest.merchant)
        values = await read_values(desk)
        assert values["florin_limit_refusals_total", "key"] >= 2
        assert values["florin_limit_refusals_total", "held_per_app"] == 0


async def test_a_server_that_asks_for_openmetrics_gets_it(desk):
    accept = {"Accept": "application/openmetrics-text; version=1.0.0,text/plain;q=0.5"}
    async with desk.session.get(desk.service.metrics_url, headers=accept) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        names = {family.name for family in read_open(await answer.text())}
    assert "florin_chain_ok" in names


async def test_metrics_listener_serves_only_metrics(desk):
    assert desk.service.metrics_url.startswith("http://127.0.0.1:")
    base = desk.service.metrics_url.removesuffix("/metrics")
    for path in ("/", "/v1/payments", "/healthz", "/docs"):
        async with desk.session.get(base + path) as answer:
            assert answer.status == 404
    async with desk.session.post(base + "/metrics") as answer:
        assert answer.status == 405
    # nor do callers' listeners serve metrics
    public = await desk.ask("GET", "/metrics")
    assert public.status == 404
    assert "florin_chain_ok" not in public.text


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:9464", 200), ("127.0.0.1", 200), ("[::1]:1", 200), ("rebound.example:9464", 421)],
)
async def test_a_page_of_a_browser_reads_nothing_by_a_name_that_leads_here(desk, host, status):
    async with desk.session.get(desk.service.metrics_url, headers={"Host": host}) as answer:
        assert answer.status == status
        assert ("florin_" in await answer.text()) is (status == 200)


async def test_gateway_alone_reports_its_request_metrics(desk):
    meters = Meters()
    async with AsyncExitStack() as stack:
        url = await start_meters(meters, 0, stack)
        gate = await gateway.start_remote_gateway(
            desk.service.grpc.target,
            gateway.bind_socket("127.0.0.1", 0),
            stack,
            observe=build_rest_observer(RequestObservers(meters)),
        )
        async with desk.session.get(f"{gate}/v1/gateway/payment/pay_x") as answer:
            assert answer.status == 401
        async with desk.session.get(url) as answer:
            samples = [s for f in read(await answer.text()) for s in f.samples]
    (count,) = [s for s in samples if s.name == "florin_request_duration_seconds_count"]
    called = {"protocol": "rest", "method": "GatewayService.GetPayment", "code": "401"}
    assert (count.labels, count.value) == (called, 1)


async def test_a_call_that_is_left_is_counted_as_such(desk):
    """A stream that its client leaves ended well; a refused stream reports its status."""
    before = await read_values(desk)
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    async for _ in desk.grpc.watch(payment_id):
        break
    with pytest.raises(ApiCallError):
        async for _ in desk.grpc.watch("pay_unknown"):
            pass

    async def streams() -> dict[str, float]:
        name = "florin_request_duration_seconds_count"
        results = {
            key[1]: value - before.get(key, 0)
            for key, value in (await read_values(desk)).items()
            if key[0] == name and "Watch" in key[2] and key[3] == "grpc"
        }
        return {code: grown for code, grown in results.items() if grown}

    await wait_until(streams, {"OK": 1, "NOT_FOUND": 1})


async def test_metrics_listener_is_off_by_default(tmp_path):
    async with open_service(tmp_path) as desk:
        assert desk.service.metrics_url == ""


async def test_a_port_that_is_taken_is_named(desk, tmp_path):
    port = int(desk.service.metrics_url.rpartition(":")[2].removesuffix("/metrics"))
    with pytest.raises(OSError, match="choose another port with FLORIN_METRICS_PORT"):
        await FlorinService.start(make_settings(tmp_path, metrics_port=port))
