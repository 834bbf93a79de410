"""Two services on one database: what one changes the other learns of, with time standing still.

Sweeps and the look at counters wait for the clock, so that nothing but hints can tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import pytest_asyncio
from florin_server.boot.role import ANSWERS
from florin_server.boot.service import Service
from florin_server.flows.accounts import keys
from florin_server.flows.operator import executors
from florin_server.flows.screening import lists
from florin_server.store.accounts import keys as key_store
from florin_server.store.engine.opening import open_store

from tests.support import postgres
from tests.support.desk import CREATE, ORDER
from tests.support.own_chain import CHAIN
from tests.support.pair import Pair, paired
from tests.support.service import held
from tests.support.until import PATIENCE_S, until

pytestmark = [
    pytest.mark.long,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.chosen(), reason="PostgreSQL was not asked for"
    ),
]

REVOKED = (401, "invalid_api_key")
ADMITTED = (400, "params_validation")
SWEEP_S, LOOK_S, AGAIN_S = 1.0, 0.5, 0.2


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def two(tmp_path_factory):
    folders = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    async with paired(*folders) as pair:
        await until(lambda: all(one.app.hints.listening for one in (pair.desk.service, pair.other)))
        yield pair


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def silent(tmp_path_factory):
    """Two that use no notifications."""
    folders = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    async with paired(*folders, database={"notify": False}) as pair:
        yield pair


@asynccontextmanager
async def watching(pair: Pair) -> AsyncIterator[tuple[str, list[asyncio.Task[Any]]]]:
    """A payment that somebody watches at the first service over REST, and somebody over gRPC."""
    payment_id = (await pair.there.create(ORDER))["paymentId"]

    async def last(api: Any) -> str:
        return [state["status"] async for state in api.watch(payment_id)][-1]

    tasks = [asyncio.create_task(last(api)) for api in (pair.desk.rest, pair.desk.grpc)]
    try:
        await held(pair.desk.service, 2)
        yield payment_id, tasks
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def seen(watchers: list[asyncio.Task[Any]]) -> list[str]:
    """What they saw last; nobody waits for ever for what is never told."""
    async with asyncio.timeout(PATIENCE_S):
        return await asyncio.gather(*watchers)


async def sent(service: Service) -> float:
    """How many hints it has sent or lost."""
    told = service.app.meters.registry.get_sample_value
    return sum(told("florin_hints_total", {"hint": one}) or 0 for one in ("sent", "dropped"))


def ignored(service: Service) -> float:
    return (
        service.app.meters.registry.get_sample_value("florin_hints_total", {"hint": "ignored"})
        or 0.0
    )


async def test_whoever_watches_sees_what_the_other_changed(two):
    async with watching(two) as (payment_id, watchers):
        await two.there.merchant_cancel(payment_id)
        assert await seen(watchers) == ["cancelled", "cancelled"]


async def test_without_notifications_a_sweep_finds_it(silent):
    assert not silent.desk.service.app.hints.on
    async with watching(silent) as (payment_id, watchers):
        await silent.there.merchant_cancel(payment_id)
        assert not any(one.done() for one in watchers)
        silent.desk.clock.advance(SWEEP_S)
        assert await seen(watchers) == ["cancelled", "cancelled"]


async def test_a_listener_that_was_cut_off_looks_at_everything(two):
    dsn, app = two.desk.service.settings.store.get_secret_value(), two.desk.service.app
    async with watching(two) as (payment_id, watchers):
        cut = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'florin-listen' AND datname = current_database()"
        )
        await postgres.commands(dsn, cut)
        await until(lambda: not app.hints.listening)
        before = await sent(two.other)
        await two.there.merchant_cancel(payment_id)
        # told while nobody listened
        await until(lambda: sent(two.other), before + 1)
        assert not any(one.done() for one in watchers)
        # less than until the next sweep
        two.desk.clock.advance(AGAIN_S)
        assert await seen(watchers) == ["cancelled", "cancelled"]
    await until(lambda: app.hints.listening and two.other.app.hints.listening)


async def test_what_is_paused_here_is_paused_there(two):
    account = two.desk.service.app.settlers[CHAIN].executors[0].account
    there = two.other.app.executors[account]
    assert not there.paused
    await executors.pause(two.desk.service.app, account)
    await until(lambda: there.paused)
    await executors.resume(two.desk.service.app, account)
    await until(lambda: not there.paused)


async def test_without_notifications_a_pause_is_found_in_half_a_second(silent):
    account = silent.desk.service.app.settlers[CHAIN].executors[0].account
    there = silent.other.app.executors[account]
    await executors.pause(silent.desk.service.app, account)
    assert not there.paused
    silent.desk.clock.advance(LOOK_S)
    await until(lambda: there.paused)


async def test_the_settler_wakes_for_what_the_other_accepted(two, monkeypatch):
    settler, woken = two.desk.service.app.settlers[CHAIN], asyncio.Event()
    assert settler.executors[0].leads
    monkeypatch.setattr(settler, "wake", woken.set)
    await two.confirmed()
    await asyncio.wait_for(woken.wait(), PATIENCE_S)


async def test_who_only_answers_wakes_the_settler_of_the_other(tmp_path, monkeypatch):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    async with paired(tmp_path / "one", tmp_path / "other", role=ANSWERS) as two:
        await until(lambda: all(one.app.hints.listening for one in (two.desk.service, two.other)))
        settler, woken = two.desk.service.app.settlers[CHAIN], asyncio.Event()
        wake = settler.wake
        monkeypatch.setattr(settler, "wake", lambda: (woken.set(), wake()))
        watched = two.other.app.hub.watch(await two.confirmed())
        await asyncio.wait_for(woken.wait(), PATIENCE_S)
        async with asyncio.timeout(PATIENCE_S):
            seen = [payment.status async for payment in watched]
        assert seen[-1] == "succeeded"


async def knock(pair: Pair, secret: str, merchant: str) -> tuple[int, str]:
    """What the second service makes of a key, and of a call with nothing in it."""
    headers = {"Api-Key": secret, "Merchant-Id": merchant, "Content-Type": "application/json"}
    url = f"{pair.other.http_url}/v1/payments"
    async with pair.desk.session.post(url, data="{}", headers=headers) as answer:
        return answer.status, (await answer.json())["code"]


async def test_a_key_that_is_revoked_here_is_refused_there(two):
    tenant = await two.desk.tenant()
    assert await knock(two, tenant.secret, tenant.merchant.id) == ADMITTED
    await keys.revoke(two.desk.service.app, tenant.key_id)
    await until(lambda: knock(two, tenant.secret, tenant.merchant.id), REVOKED)


async def test_silent_stream_of_a_key_that_is_revoked_here_ends_there(two):
    tenant = await two.desk.tenant()
    answer = await two.desk.ask("POST", CREATE, tenant.headers, ORDER)
    url = f"{two.other.http_url}/v1/payments/{answer.body['paymentId']}/events"
    async with two.desk.session.get(url, headers=tenant.headers) as stream:
        assert stream.status == 200
        await stream.content.readuntil(b"data:")
        await keys.revoke(two.desk.service.app, tenant.key_id)
        async with asyncio.timeout(PATIENCE_S):
            assert b"data:" not in await stream.content.read()
    async with two.desk.session.get(url, headers=tenant.headers) as again:
        assert again.status == 401


async def test_what_no_service_changed_is_found_in_half_a_second(silent):
    """As a command does that works on the store itself."""
    tenant = await silent.desk.tenant()
    assert await knock(silent, tenant.secret, tenant.merchant.id) == ADMITTED
    aside = await open_store(postgres.of(silent.desk.service.home.path))
    try:
        await aside.write(key_store.revoke_key(tenant.key_id, 1))
    finally:
        await aside.close()
    assert await knock(silent, tenant.secret, tenant.merchant.id) == ADMITTED
    silent.desk.clock.advance(LOOK_S)
    await until(lambda: knock(silent, tenant.secret, tenant.merchant.id), REVOKED)


async def test_a_list_that_is_imported_here_is_in_force_there(two):
    bad = f"{CHAIN}:0x{'66' * 20}"
    assert not await two.other.app.screening.lists_account(bad)
    begun = lists.Import()
    source = lists.Source("ofac", "00" * 32, None)
    app = two.desk.service.app
    await lists.add_part(app, begun, source, 0, [bad.rpartition(":")[2]])
    await lists.finish(app, begun, force=False)
    await until(lambda: two.other.app.screening.lists_account(bad))


async def test_whoever_floods_keeps_nobody_from_anything(two):
    """Somebody else with access to the database, who may read nothing."""
    dsn = two.desk.service.settings.store.get_secret_value()
    async with watching(two) as (payment_id, watchers):
        before = ignored(two.desk.service)
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
        told = [f"NOTIFY florin, '{one}'" for one in lies + believable]
        await postgres.commands(dsn, *told * 200)
        await two.there.merchant_cancel(payment_id)
        assert await seen(watchers) == ["cancelled", "cancelled"]
        await until(lambda: ignored(two.desk.service) - before >= 200 * len(lies))
    assert await two.desk.service.workers.problems() == {}
