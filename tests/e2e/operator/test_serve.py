"""`florin serve --workers 2`: two processes on the same ports, and who looks after them."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
from contextlib import suppress

import aiohttp
import pytest
import pytest_asyncio
from florin_server.boot.home import Home

from tests.support import postgres
from tests.support.command import florin, told
from tests.support.desk import ORDER
from tests.support.own_chain import CHAIN
from tests.support.processes import alive, children, installed, kill
from tests.support.steady_load import SteadyLoad
from tests.support.until import until

pytestmark = [
    pytest.mark.long,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.chosen(), reason="PostgreSQL was not asked for"
    ),
]


A_SECOND, RELOADS = 200, 2


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installation(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    # what somebody may have put where the service is started, and may write
    (folder / "orjson.py").write_text(f"open({str(folder / 'hijacked')!r}, 'w')")
    async with installed(folder) as found:
        yield found


@pytest.fixture(scope="module")
def systemd(tmp_path_factory):
    """Hears what the supervisor tells."""
    name = str(tmp_path_factory.mktemp("systemd") / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(name)
        listener.setblocking(False)
        yield listener


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(installation, systemd):
    """The service in two processes."""
    more = {"NOTIFY_SOCKET": systemd.getsockname(), "FLORIN_METRICS_PORT": "0"}
    with await asyncio.to_thread(
        installation.lasting, "serve", "--workers", "2", **more
    ) as command:
        yield command


def heard(systemd: socket.socket) -> list[str]:
    """The states that were told since it was asked last."""
    found = []
    with suppress(BlockingIOError):
        while True:
            found.append(systemd.recv(1000).decode().partition("\n")[0])
    return found


@pytest_asyncio.fixture(loop_scope="module")
async def api(installation, served):
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield installation.rest(session)


async def final(api, payment_id: str) -> str:
    states = [state async for state in api.watch(payment_id)]
    return str(states[-1]["status"])


async def test_a_payment_succeeds_through_two_processes(installation, served, api, systemd):
    assert len(children(served.process.pid)) == 2
    assert heard(systemd) == ["READY=1"]
    for _ in range(4):
        payment_id = await installation.pay(api)
        assert await final(api, payment_id) == "succeeded"


async def test_modules_in_the_folder_where_it_is_started_are_not_loaded(installation, served):
    assert len(children(served.process.pid)) == 2
    assert not installation.home.with_name("hijacked").exists()


async def test_each_process_tells_metrics_of_its_own(served):
    urls = re.findall(r"http://127\.0\.0\.1:\d+/metrics", served.out)
    assert len(set(urls)) == 2
    async with aiohttp.ClientSession() as session:
        for url in urls:
            async with session.get(url) as answer:
                assert "florin_" in await answer.text()


async def test_commands_find_all_of_them(installation, served):
    done = await asyncio.to_thread(florin, "doctor", home=installation.home, **installation.env)
    assert "is running" in done.out
    assert "settlement_" not in done.out, done.out
    found = await asyncio.to_thread(
        florin, "executors", "list", home=installation.home, **installation.env
    )
    assert CHAIN in found.out


async def test_a_reload_under_load_fails_no_request(installation, served, api, systemd):
    payment_id = (await api.create(ORDER))["paymentId"]
    load, before = SteadyLoad(installation, A_SECOND, payment_id), set(children(served.process.pid))
    async with load.running():
        for number in range(RELOADS):
            served.tell(signal.SIGHUP)
            await installation.logged("all processes are new", number + 1)
    assert load.failed == []
    assert min(load.answered.values()) > 0
    now = set(children(served.process.pid))
    assert len(now) == 2
    assert not now & before
    assert heard(systemd) == ["RELOADING=1", "READY=1"] * RELOADS


async def test_one_that_is_killed_is_started_again_and_its_lease_is_taken_over(
    installation, served, api
):
    before = await installation.owners()
    for number, pid in enumerate(children(served.process.pid), 1):
        kill(pid)
        # the other one answers
        payment_id = await installation.pay(api)
        await installation.logged("was ended by signal 9", number)
        assert await final(api, payment_id) == "succeeded"
        await until(lambda: len(children(served.process.pid)), 2)
        await installation.logged(") answers", 2 + 2 * RELOADS + number)

    async def taken_over() -> bool:
        owners = await installation.owners()
        return bool(owners) and not owners & before

    # whichever of the two had it
    assert before
    await until(taken_over)


async def test_broken_settings_end_a_reload_and_nothing_else(installation, served, api):
    before = children(served.process.pid)
    (installation.home / "florin.toml").write_text("quote_s = -1\n")
    try:
        served.tell(signal.SIGHUP)
        await installation.logged("did not start anew", 1)
    finally:
        (installation.home / "florin.toml").unlink()
    assert installation.count("FLORIN_QUOTE_S") == 1
    assert children(served.process.pid) == before
    payment_id = await installation.pay(api)
    assert await final(api, payment_id) == "succeeded"


async def test_a_stop_gives_leases_back_and_leaves_nobody(installation, served, systemd):
    pids = children(served.process.pid)
    assert await installation.owners()
    served.tell(signal.SIGTERM)
    # a second one does not cut it short
    served.tell(signal.SIGTERM)
    ended = await asyncio.to_thread(served.ended)
    assert ended.status == 0
    # after what a reload that failed has told
    assert heard(systemd) == ["RELOADING=1", "READY=1", "STOPPING=1"]
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
                assert await final(api, payment_id) == "succeeded"
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


async def test_a_port_that_is_taken_is_told_whoever_has_it(installation):
    with await asyncio.to_thread(installation.lasting, "serve", "--workers", "2"):
        _, _, port = installation.grpc.rpartition(":")
        env = {**installation.env, "FLORIN_GRPC_PORT": port}
        done = await asyncio.to_thread(
            florin, "serve", "--workers", "2", home=installation.home, **env
        )
        assert done.status == 1
        assert f"gRPC cannot listen on 127.0.0.1:{port}" in told(done)
