"""A service that ends reports that first, and answers until others have noticed."""

from __future__ import annotations

import asyncio

import aiohttp
import grpc
import pytest
from florin_sandbox import demo
from florin_server.app.service import FlorinService
from florin_server.base.clock import TestClock
from florin_server.cli.service import up
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.support.desk import START_S
from tests.support.service import make_settings
from tests.support.until import wait_until

DRAIN_S = 5.0
SERVING, NOT_SERVING = (
    health_pb2.HealthCheckResponse.SERVING,
    health_pb2.HealthCheckResponse.NOT_SERVING,
)


@pytest.mark.asyncio
async def test_health_reports_shutdown_before_listeners_close(tmp_path):
    clock = TestClock(START_S * 1_000_000)
    service = await FlorinService.start(make_settings(tmp_path, drain_s=DRAIN_S), clock=clock)
    async with (
        aiohttp.ClientSession(service.http_url) as session,
        grpc.aio.insecure_channel(service.grpc.target) as channel,
    ):
        stub = health_pb2_grpc.HealthStub(channel)

        async def health() -> int:
            return (await stub.Check(health_pb2.HealthCheckRequest())).status

        async def ready() -> tuple[int, dict]:
            async with session.get("/readyz") as answer:
                return answer.status, (await answer.json()).get("checks", {})

        assert await health() == SERVING
        stop = asyncio.create_task(service.stop())
        await wait_until(health, NOT_SERVING)
        assert await ready() == (503, {"service": "ends"})
        # it is alive, and answers new connections too
        connector = aiohttp.TCPConnector(force_close=True)
        async with (
            aiohttp.ClientSession(service.http_url, connector=connector) as new,
            new.get("/healthz") as answer,
        ):
            assert answer.status == 200
        assert not stop.done()
    clock.advance(DRAIN_S)
    await stop
    with pytest.raises(aiohttp.ClientConnectionError):
        async with aiohttp.ClientSession() as session:
            await session.get(f"{service.http_url}/healthz")


@pytest.mark.asyncio
async def test_up_is_not_ready_before_its_files_are_there(tmp_path, monkeypatch):
    """Scripts wait for `/readyz`, then read demo.env."""
    seen: list[tuple[int, int]] = []
    services: list[FlorinService] = []
    start, store = FlorinService.start, demo.store

    async def noted_start(*args, **kwargs):
        services.append(await start(*args, **kwargs))
        return services[-1]

    async def look() -> None:
        (service,) = services
        async with (
            aiohttp.ClientSession(service.http_url) as session,
            session.get("/readyz") as answer,
            grpc.aio.insecure_channel(service.grpc.target) as channel,
        ):
            check = health_pb2_grpc.HealthStub(channel).Check
            seen.append((answer.status, (await check(health_pb2.HealthCheckRequest())).status))

    async def looked_at(app, created):
        assert not services[0].home.demo_env_path.exists()
        await look()
        await store(app, created)

    async def beside(env):
        assert env == services[0].home.read_demo_env()
        assert services[0].home.find_addresses()
        await look()

    monkeypatch.setattr(FlorinService, "start", noted_start)
    monkeypatch.setattr(demo, "store", looked_at)
    await up.run_with_tasks(make_settings(tmp_path), None, beside)
    assert seen == [(503, NOT_SERVING), (200, SERVING)]
