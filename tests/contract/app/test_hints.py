"""Two services on one database: each learns of the other's changes while time is stopped.

Sweeps and the polls of counters wait for the clock, so that only hints can notify.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import pytest_asyncio
from florin_server.accounts.service import keys
from florin_server.accounts.store import keys as key_store
from florin_server.app.role import SERVER_ROLE
from florin_server.app.service import FlorinService
from florin_server.base.topics import Topic
from florin_server.compliance.screening.service import lists
from florin_server.money.open_store import open_store
from florin_server.operations.service import executors

from tests.support import postgres
from tests.support.own_chain import CHAIN
from tests.support.service import wait_open_responses
from tests.support.service_harness import CREATE, ORDER
from tests.support.service_pair import ServicePair, open_pair
from tests.support.until import PATIENCE_S, wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
    ),
]

REVOKED = (401, "invalid_api_key")
ADMITTED = (400, "params_validation")
SWEEP_S, LOOK_S, AGAIN_S = 1.0, 0.5, 0.2


def list_listening(pair: ServicePair) -> list[bool]:
    """Return whether each service receives notifications."""
    services = (pair.service.service, pair.other)
    return [service.app.notifier.bus.is_listening for service in services]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def two(tmp_path_factory):
    folders = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    async with open_pair(*folders) as pair:
        await wait_until(lambda: list_listening(pair), [True, True])
        yield pair


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def silent(tmp_path_factory):
    """Open two services that use no notifications."""
    folders = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    async with open_pair(*folders, database={"notify": False}) as pair:
        yield pair


@asynccontextmanager
async def watching(pair: ServicePair) -> AsyncIterator[tuple[str, list[asyncio.Task[Any]]]]:
    """Watch a payment at the first service, over REST and over gRPC."""
    payment_id = (await pair.second_api.create(ORDER))["paymentId"]

    async def last(api: Any) -> str:
        return [state["status"] async for state in api.watch(payment_id)][-1]

    tasks = [asyncio.create_task(last(api)) for api in (pair.service.rest, pair.service.grpc)]
    try:
        await wait_open_responses(pair.service.service, 2)
        yield payment_id, tasks
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def seen(watchers: list[asyncio.Task[Any]]) -> list[str]:
    """Return the last states that the watchers saw; fail after a timeout."""
    async with asyncio.timeout(PATIENCE_S):
        return await asyncio.gather(*watchers)


async def sent(service: FlorinService) -> float:
    """Return how many hints it has sent or lost."""
    get_sample_value = service.app.meters.registry.get_sample_value
    return sum(
        get_sample_value("florin_hints_total", {"hint": item}) or 0 for item in ("sent", "dropped")
    )


def ignored(service: FlorinService) -> float:
    return (
        service.app.meters.registry.get_sample_value("florin_hints_total", {"hint": "ignored"})
        or 0.0
    )


async def test_watchers_of_both_services_see_a_change(two):
    async with watching(two) as (payment_id, watchers):
        await two.second_api.merchant_cancel(payment_id)
        assert await seen(watchers) == ["cancelled", "cancelled"]


async def test_without_notifications_a_sweep_finds_it(silent):
    assert not silent.service.service.app.notifier.bus.is_enabled
    async with watching(silent) as (payment_id, watchers):
        await silent.second_api.merchant_cancel(payment_id)
        assert not any(task.done() for task in watchers)
        silent.service.clock.advance(SWEEP_S)
        assert await seen(watchers) == ["cancelled", "cancelled"]


async def test_a_listener_that_was_cut_off_looks_at_everything(two):
    dsn = two.service.service.settings.store.get_secret_value()
    async with watching(two) as (payment_id, watchers):
        cut = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'florin-listen' AND datname = current_database()"
        )
        await postgres.run_commands(dsn, cut)
        await wait_until(lambda: list_listening(two), [False, False])
        before = await sent(two.other)
        await two.second_api.merchant_cancel(payment_id)
        # sent while no service listened
        await wait_until(lambda: sent(two.other), before + 1)
        assert not any(task.done() for task in watchers)
        # less than until the next sweep
        two.service.clock.advance(AGAIN_S)
        assert await seen(watchers) == ["cancelled", "cancelled"]
    await wait_until(lambda: list_listening(two), [True, True])


async def test_executor_paused_on_a_service_is_paused_on_its_peer(two):
    account = two.service.service.app.settlers[CHAIN].executors[0].account
    there = two.other.app.executors[account]
    assert not there.is_paused
    await executors.pause(two.service.service.app, account)
    await wait_until(lambda: there.is_paused)
    await executors.resume(two.service.service.app, account)
    await wait_until(lambda: not there.is_paused)


async def test_pause_is_detected_within_half_a_second_without_notifications(silent):
    account = silent.service.service.app.settlers[CHAIN].executors[0].account
    there = silent.other.app.executors[account]
    await executors.pause(silent.service.service.app, account)
    assert not there.is_paused
    silent.service.clock.advance(LOOK_S)
    await wait_until(lambda: there.is_paused)


async def test_settler_wakes_for_a_payment_accepted_by_its_peer(two):
    settler, woken = two.service.service.app.settlers[CHAIN], asyncio.Event()
    assert settler.executors[0].has_lease
    unsubscribe = two.service.service.app.notifier.subscribe(Topic.SETTLEMENT, woken, CHAIN)
    await two.create_confirmed()
    await asyncio.wait_for(woken.wait(), PATIENCE_S)
    unsubscribe()


async def test_server_role_wakes_the_settler_of_its_peer(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    async with open_pair(tmp_path / "one", tmp_path / "other", role=SERVER_ROLE) as two:
        await wait_until(lambda: list_listening(two), [True, True])
        woken = asyncio.Event()
        two.service.service.app.notifier.subscribe(Topic.SETTLEMENT, woken, CHAIN)
        watched = two.other.app.notifier.payments.watch(await two.create_confirmed())
        await asyncio.wait_for(woken.wait(), PATIENCE_S)
        async with asyncio.timeout(PATIENCE_S):
            seen = [payment.status async for payment in watched]
        assert seen[-1] == "succeeded"


async def knock(pair: ServicePair, secret: str, merchant: str) -> tuple[int, str]:
    """Return the second service's answer to a key, for a call with an empty body."""
    headers = {"Api-Key": secret, "Merchant-Id": merchant, "Content-Type": "application/json"}
    url = f"{pair.other.http_url}/v1/payments"
    async with pair.service.session.post(url, data="{}", headers=headers) as answer:
        return answer.status, (await answer.json())["code"]


async def test_a_key_that_is_revoked_here_is_refused_there(two):
    tenant = await two.service.tenant()
    assert await knock(two, tenant.secret, tenant.merchant.id) == ADMITTED
    await keys.revoke(two.service.service.app, tenant.key_id)
    await wait_until(lambda: knock(two, tenant.secret, tenant.merchant.id), REVOKED)


async def test_silent_stream_of_a_key_that_is_revoked_here_ends_there(two):
    tenant = await two.service.tenant()
    answer = await two.service.ask("POST", CREATE, tenant.headers, ORDER)
    url = f"{two.other.http_url}/v1/payments/{answer.body['paymentId']}/events"
    async with two.service.session.get(url, headers=tenant.headers) as stream:
        assert stream.status == 200
        await stream.content.readuntil(b"data:")
        await keys.revoke(two.service.service.app, tenant.key_id)
        async with asyncio.timeout(PATIENCE_S):
            assert b"data:" not in await stream.content.read()
    async with two.service.session.get(url, headers=tenant.headers) as again:
        assert again.status == 401


async def test_direct_store_change_is_detected_within_half_a_second(silent):
    """A command that works on the store itself makes such changes."""
    tenant = await silent.service.tenant()
    assert await knock(silent, tenant.secret, tenant.merchant.id) == ADMITTED
    aside = await open_store(postgres.get_database(silent.service.service.home.path))
    try:
        await aside.write(key_store.revoke_key(tenant.key_id, 1))
    finally:
        await aside.close()
    assert await knock(silent, tenant.secret, tenant.merchant.id) == ADMITTED
    silent.service.clock.advance(LOOK_S)
    await wait_until(lambda: knock(silent, tenant.secret, tenant.merchant.id), REVOKED)


async def test_a_list_that_is_imported_here_is_in_force_there(two):
    bad = f"{CHAIN}:0x{'66' * 20}"
    assert not await two.other.app.screening.is_listed(bad)
    screening_import = lists.ScreeningImport()
    source = lists.ScreeningListSource("ofac", "00" * 32, None)
    app = two.service.service.app
    await lists.add_part(app, screening_import, source, 0, [bad.rpartition(":")[2]])
    await lists.finish_import(app, screening_import, force=False)
    await wait_until(lambda: two.other.app.screening.is_listed(bad))


async def test_flood_of_forged_notifications_disturbs_no_watcher(two):
    """Another user of the database, which has no right to read anything."""
    dsn = two.service.service.settings.store.get_secret_value()
    async with watching(two) as (payment_id, watchers):
        before = ignored(two.service.service)
        lies = [
            "",
            "[" * 7999,
            "2 0123456789abcdef w",
            f"1 0123456789abcdef p:{'9' * 40}:{payment_id}",
            "1 0123456789abcdef p:-1:x",
        ]
        believable = [
            f"1 0123456789abcdef p:999999999999999999:{payment_id} w g s:{CHAIN} r:{CHAIN}",
            "1 0123456789abcdef s:eip155:1 r:solana:none o:pout_none",
            "1 0123456789abcdef " + " ".join(f"p:1:pay_{n:027}" for n in range(200)),
        ]
        result = [f"NOTIFY florin, '{text}'" for text in lies + believable]
        await postgres.run_commands(dsn, *result * 200)
        await two.second_api.merchant_cancel(payment_id)
        assert await seen(watchers) == ["cancelled", "cancelled"]
        await wait_until(lambda: ignored(two.service.service) - before >= 200 * len(lies))
    assert await two.service.service.workers.find_problems() == {}
