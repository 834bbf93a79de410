"""Ends of services in processes of their own, and services that refuse to start."""

from __future__ import annotations

import asyncio
import json
import signal

import aiohttp
import pytest
import pytest_asyncio

from tests.support import postgres
from tests.support.command import get_refusal, get_state_folder, run_florin
from tests.support.processes import SystemdSocket, is_alive, list_children, open_installation
from tests.support.until import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
    ),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installation(tmp_path_factory):
    async with open_installation(tmp_path_factory.mktemp("ends")) as found_installation:
        yield found_installation


async def test_stop_releases_leases_and_leaves_no_process(installation, tmp_path):
    with SystemdSocket.listening(tmp_path) as systemd:
        with await asyncio.to_thread(
            installation.start_lasting, "serve", "--workers", "2", NOTIFY_SOCKET=systemd.name
        ) as served:
            pids = list_children(served.process.pid)
            await wait_until(installation.owners)
            served.send_signal(signal.SIGTERM)
            # a second signal does not cut the end short
            served.send_signal(signal.SIGTERM)
            ended = await asyncio.to_thread(served.wait_ended)
        assert ended.status == 0
        await systemd.wait_states("READY=1", "STOPPING=1")
    assert not any(map(is_alive, pids))
    assert await installation.owners() == set()
    assert get_state_folder(installation.home).find_addresses() is None


async def test_without_its_supervisor_no_process_stays(installation):
    with await asyncio.to_thread(installation.start_lasting, "serve", "--workers", "2") as command:
        pids = list_children(command.process.pid)
        assert len(pids) == 2
        command.process.kill()
        await asyncio.to_thread(command.wait_ended)
        await wait_until(lambda: not any(map(is_alive, pids)))
    # in order: no process has to wait for their leases
    assert await installation.owners() == set()


async def test_answering_and_settling_may_run_in_separate_processes(installation, tmp_path):
    serve = await asyncio.to_thread(
        installation.start_lasting, "serve", "--no-settling", FLORIN_DRAIN_S="0.1"
    )
    async with aiohttp.ClientSession() as session:
        with serve:
            api = installation.rest(session)
            payment_id = await installation.pay(api)
            assert (await api.status(payment_id))["status"] == "processing"
            with await asyncio.to_thread(installation.start_lasting, "worker") as worker:
                assert "REST" not in worker.out
                assert await installation.final(api, payment_id) == "succeeded"
                assert await installation.owners()
                done = await asyncio.to_thread(
                    run_florin, "doctor", home=installation.home, **installation.env
                )
                assert "failing" not in done.out
            # it has not removed the addresses by which commands find the running service
            assert get_state_folder(installation.home).find_addresses() is not None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"FLORIN_STORE": ""}, "SQLite supports one process"),
        ({"FLORIN_DEMO": "true"}, "FLORIN_DEMO=false"),
        ({"FLORIN_STORE": "postgresql://user@127.0.0.1:1/none"}, "does not start"),
        ({"FLORIN_HOST": "0.0.0.0"}, "plain text"),
        ({"FLORIN_METRICS_PORT": "65535"}, "not 2 ports"),
    ],
    ids=["sqlite", "demo", "store", "bind", "metrics"],
)
async def test_impossible_serve_configuration_is_refused_in_a_sentence(
    installation, changes, reason
):
    env = {**installation.env, **changes}
    done = await asyncio.to_thread(
        run_florin, "serve", "--workers", "2", home=installation.home, **env
    )
    assert done.status == 1
    assert reason in get_refusal(done)


async def test_why_a_service_does_not_start_is_json_where_the_log_is(installation):
    env = {**installation.env, "FLORIN_STORE": "postgresql://user@127.0.0.1:1/none"}
    env |= {"FLORIN_LOG_FORMAT": "json"}
    for command in (["serve", "--workers", "2"], ["serve"]):
        done = await asyncio.to_thread(run_florin, *command, home=installation.home, **env)
        assert done.status == 1
        result = [json.loads(line) for line in done.err.splitlines()]
        assert any("Florin does not start" in item["message"] for item in result)


async def test_busy_grpc_port_is_reported(installation):
    with await asyncio.to_thread(installation.start_lasting, "serve", "--workers", "2"):
        _, _, port = installation.grpc.rpartition(":")
        env = {**installation.env, "FLORIN_GRPC_PORT": port}
        done = await asyncio.to_thread(
            run_florin, "serve", "--workers", "2", home=installation.home, **env
        )
        assert done.status == 1
        assert f"gRPC cannot listen on 127.0.0.1:{port}" in get_refusal(done)
