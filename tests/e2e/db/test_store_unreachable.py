"""Without its database a process reports that everywhere, and recovers automatically."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client.parser import text_string_to_metric_families as read
from pydantic import SecretStr

from tests.support import postgres
from tests.support.service_harness import ServiceHarness, open_service
from tests.support.tcp_relay import TcpRelay
from tests.support.until import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
    ),
]


@pytest.fixture
async def relay(tmp_path):
    async with TcpRelay(postgres.get_server_address()) as relay:
        yield relay


@pytest.fixture
async def dsn(tmp_path, relay):
    yield postgres.to_relay_dsn(postgres.get_database(tmp_path).dsn, relay.port)
    await postgres.drop_database(tmp_path)


@pytest.fixture
async def desk(tmp_path, dsn, relay):
    async with open_service(tmp_path / "home", store=SecretStr(dsn), metrics_port=0) as desk:
        yield desk
        relay.heal()


async def metrics(desk: ServiceHarness) -> dict[tuple[str, ...], float]:
    async with desk.session.get(desk.service.metrics_url) as answer:
        assert answer.status == 200
        families = list(read(await answer.text()))
    return {(s.name, *s.labels.values()): s.value for f in families for s in f.samples}


@pytest.mark.parametrize("how", ["refused", "silent"])
async def test_database_that_is_away_is_reported_by_metrics_readyz_and_doctor(
    desk, relay, dsn, forks, how
):
    async def passing() -> None:
        desk.clock.advance(1)

    async def store_up() -> float:
        return (await metrics(desk))["florin_store_up",]

    async def ready() -> int:
        return (await desk.ask("GET", "/readyz")).status

    async def health() -> int:
        stub = health_pb2_grpc.HealthStub(desk.channel)
        return (await stub.Check(health_pb2.HealthCheckRequest())).status

    place = f"PostgreSQL at 127.0.0.1:{relay.port}, database "
    assert (await store_up(), await ready()) == (1, 200)
    if how == "refused":
        relay.refuse()
    else:
        relay.silent = True
    await wait_until(store_up, 0, meanwhile=passing)

    values = await metrics(desk)
    assert "florin_payments_processing" not in {key[0] for key in values}
    assert any(key[0] == "florin_request_duration_seconds_count" for key in values)
    await wait_until(ready, 503, meanwhile=passing)
    await wait_until(health, health_pb2.HealthCheckResponse.NOT_SERVING, meanwhile=passing)
    values = await metrics(desk)
    assert values["florin_condition", "store_unreachable"] == 3
    assert place in (await desk.ask("GET", "/readyz")).body["checks"]["store"]
    assert (await desk.ask("GET", "/healthz")).status == 200

    service = desk.service
    addresses = {"http": service.http_url, "operator": service.grpc.operator_target}
    with service.home.announce(addresses):
        home = service.home.path
        doctor = await asyncio.to_thread(forks, "doctor", home=home, FLORIN_STORE=dsn)
    text = " ".join((doctor.out + doctor.err).split())
    assert doctor.status == 1
    assert "✗ installation: store_unreachable since" in text
    database = urlsplit(dsn).path.removeprefix("/")
    assert f"{place}{database}" in text
    assert "Traceback" not in text
    assert "internal_error" not in text

    relay.heal()
    await wait_until(ready, 200, meanwhile=passing)
    await wait_until(health, health_pb2.HealthCheckResponse.SERVING, meanwhile=passing)
    await wait_until(store_up, 1, meanwhile=passing)
