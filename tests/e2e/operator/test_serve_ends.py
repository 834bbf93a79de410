"""How services in processes of their own end, and which of them do not start."""

from __future__ import annotations

import asyncio
import json
import signal

import aiohttp
import pytest
import pytest_asyncio
from florin_server.boot.home import Home

from tests.support import postgres
from tests.support.command import florin, told
from tests.support.processes import Systemd, alive, children, installed
from tests.support.until import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.chosen(), reason="PostgreSQL was not asked for"
    ),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installation(tmp_path_factory):
    async with installed(tmp_path_factory.mktemp("ends")) as found:
        yield found


async def test_a_stop_gives_leases_back_and_leaves_nobody(installation, tmp_path):
    with Systemd.listening(tmp_path) as systemd:
        with await asyncio.to_thread(
            installation.lasting, "serve", "--workers", "2", NOTIFY_SOCKET=systemd.name
        ) as served:
            pids = children(served.process.pid)
            await until(installation.owners)
            served.tell(signal.SIGTERM)
            # a second one does not cut it short
            served.tell(signal.SIGTERM)
            ended = await asyncio.to_thread(served.ended)
        assert ended.status == 0
        await systemd.hears("READY=1", "STOPPING=1")
    assert not any(map(alive, pids))
    assert await installation.owners() == set()
    assert Home(installation.home).addresses() is None


async def test_without_its_supervisor_no_process_stays(installation):
    with await asyncio.to_thread(installation.lasting, "serve", "--workers", "2") as command:
        pids = children(command.process.pid)
        assert len(pids) == 2
        command.process.kill()
        await asyncio.to_thread(command.ended)
        await until(lambda: not any(map(alive, pids)))
    # in order: nobody has to wait for their leases
    assert await installation.owners() == set()


async def test_who_answers_and_who_settles_may_be_others(installation, tmp_path):
    serve = await asyncio.to_thread(
        installation.lasting, "serve", "--no-settling", FLORIN_DRAIN_S="0.1"
    )
    async with aiohttp.ClientSession() as session:
        with serve:
            api = installation.rest(session)
            payment_id = await installation.pay(api)
            assert (await api.status(payment_id))["status"] == "processing"
            with await asyncio.to_thread(installation.lasting, "worker") as worker:
                assert "REST" not in worker.out
                assert await installation.final(api, payment_id) == "succeeded"
                assert await installation.owners()
                done = await asyncio.to_thread(
                    florin, "doctor", home=installation.home, **installation.env
                )
                assert "failing" not in done.out
            # it has not taken what leads commands to who answers
            assert Home(installation.home).addresses() is not None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"FLORIN_STORE": ""}, "SQLite is one process's"),
        ({"FLORIN_DEMO": "true"}, "FLORIN_DEMO=false"),
        ({"FLORIN_STORE": "postgresql://nobody@127.0.0.1:1/none"}, "does not start"),
        ({"FLORIN_HOST": "0.0.0.0"}, "plain text"),
        ({"FLORIN_METRICS_PORT": "65535"}, "no 2 ports"),
    ],
    ids=["sqlite", "demo", "store", "bind", "metrics"],
)
async def test_what_cannot_work_is_told_in_one_sentence(installation, changes, said):
    env = {**installation.env, **changes}
    done = await asyncio.to_thread(florin, "serve", "--workers", "2", home=installation.home, **env)
    assert done.status == 1
    assert said in told(done)


async def test_why_a_service_does_not_start_is_json_where_the_log_is(installation):
    env = {**installation.env, "FLORIN_STORE": "postgresql://nobody@127.0.0.1:1/none"}
    env |= {"FLORIN_LOG_FORMAT": "json"}
    for command in (["serve", "--workers", "2"], ["serve"]):
        done = await asyncio.to_thread(florin, *command, home=installation.home, **env)
        assert done.status == 1
        told = [json.loads(line) for line in done.err.splitlines()]
        assert any("Florin does not start" in one["message"] for one in told)


async def test_a_port_that_is_taken_is_told_whoever_has_it(installation):
    with await asyncio.to_thread(installation.lasting, "serve", "--workers", "2"):
        _, _, port = installation.grpc.rpartition(":")
        env = {**installation.env, "FLORIN_GRPC_PORT": port}
        done = await asyncio.to_thread(
            florin, "serve", "--workers", "2", home=installation.home, **env
        )
        assert done.status == 1
        assert f"gRPC cannot listen on 127.0.0.1:{port}" in told(done)
