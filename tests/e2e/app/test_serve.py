"""`florin serve --workers 2`: two processes on the same ports, and their supervisor."""

from __future__ import annotations

import asyncio
import re
import signal

import aiohttp
import pytest
import pytest_asyncio

from tests.support import postgres
from tests.support.command import run_florin
from tests.support.own_chain import CHAIN
from tests.support.processes import SystemdSocket, kill_process, list_children, open_installation
from tests.support.service_harness import ORDER
from tests.support.steady_load import SteadyLoad
from tests.support.until import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
    ),
]


A_SECOND, RELOADS = 100, 2


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installation(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    # a file that an attacker may have put into the service's working directory
    (folder / "orjson.py").write_text(f"open({str(folder / 'hijacked')!r}, 'w')")
    async with open_installation(folder) as found_installation:
        yield found_installation


@pytest.fixture(scope="module")
def systemd(tmp_path_factory):
    with SystemdSocket.listening(tmp_path_factory.mktemp("systemd")) as listener:
        yield listener


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(installation, systemd):
    """Run the service in two processes."""
    more = {"NOTIFY_SOCKET": systemd.name, "FLORIN_METRICS_PORT": "0"}
    with await asyncio.to_thread(
        installation.start_lasting, "serve", "--workers", "2", **more
    ) as command:
        await systemd.wait_states("READY=1")
        yield command


@pytest_asyncio.fixture(loop_scope="module")
async def api(installation, served):
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield installation.rest(session)


async def test_a_payment_succeeds_through_two_processes(installation, served, api):
    assert len(list_children(served.process.pid)) == 2
    for _ in range(4):
        payment_id = await installation.pay(api)
        assert await installation.final(api, payment_id) == "succeeded"


async def test_modules_in_the_folder_where_it_is_started_are_not_loaded(installation, served):
    assert len(list_children(served.process.pid)) == 2
    assert not installation.home.with_name("hijacked").exists()


async def test_each_process_serves_its_own_metrics(served):
    urls = re.findall(r"http://127\.0\.0\.1:\d+/metrics", served.out)
    assert len(set(urls)) == 2
    async with aiohttp.ClientSession() as session:
        for url in urls:
            async with session.get(url) as answer:
                assert "florin_" in await answer.text()


async def test_commands_find_all_of_them(installation, served):
    async def read_problems() -> list[str]:
        done = await asyncio.to_thread(
            run_florin, "doctor", home=installation.home, **installation.env
        )
        assert "is running" in done.out
        # a process that has just started reports this until its workers' first turn
        return [line for line in done.out.splitlines() if "settlement_" in line]

    await wait_until(read_problems, [])
    result = await asyncio.to_thread(
        run_florin, "executors", "list", home=installation.home, **installation.env
    )
    assert CHAIN in result.out


async def test_a_reload_under_load_fails_no_request(installation, served, api, systemd):
    payment_id = (await api.create(ORDER))["paymentId"]
    load, before = (
        SteadyLoad(installation, A_SECOND, payment_id),
        set(list_children(served.process.pid)),
    )
    reloaded = installation.count("the reload is complete")
    async with load.running():
        for number in range(RELOADS):
            served.send_signal(signal.SIGHUP)
            await installation.wait_logged("the reload is complete", reloaded + number + 1)
    assert load.failures == []
    assert min(load.response_count.values()) > 0
    now = set(list_children(served.process.pid))
    assert len(now) == 2
    assert not now & before
    await systemd.wait_states(*["RELOADING=1", "READY=1"] * RELOADS)


async def test_killed_process_is_restarted_and_its_lease_is_taken_over(installation, served, api):
    # a replaced process has released its lease, and its successor takes it
    before = await wait_until(installation.owners)
    ended, answers = (installation.count(item) for item in ("ended by signal 9", ") answers"))
    for number, pid in enumerate(list_children(served.process.pid), 1):
        kill_process(pid)
        # the other one answers
        payment_id = await installation.pay(api)
        await installation.wait_logged("was ended by signal 9", ended + number)
        assert await installation.final(api, payment_id) == "succeeded"
        await wait_until(lambda: len(list_children(served.process.pid)), 2)
        await installation.wait_logged(") answers", answers + number)

    async def taken_over() -> bool:
        owners = await installation.owners()
        return bool(owners) and not owners & before

    # from the process that had it
    await wait_until(taken_over)


async def test_broken_settings_end_a_reload_and_nothing_else(installation, served, api, systemd):
    before = list_children(served.process.pid)
    (installation.home / "florin.toml").write_text("quote_s = -1\n")
    try:
        served.send_signal(signal.SIGHUP)
        await installation.wait_logged("did not restart", 1)
    finally:
        (installation.home / "florin.toml").unlink()
    assert installation.count("FLORIN_QUOTE_S") == 1
    await systemd.wait_states("RELOADING=1", "READY=1")
    assert list_children(served.process.pid) == before
    payment_id = await installation.pay(api)
    assert await installation.final(api, payment_id) == "succeeded"
