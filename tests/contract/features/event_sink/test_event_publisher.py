"""Test the publisher against a broker that dies, loses answers and refuses events."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import nkeys
import pytest
from florin_server.domain.quarantine import QuarantinedItemKind
from florin_server.features.event_sink.service import nats_broker
from florin_server.features.event_sink.service.broker import BrokerUnavailable
from florin_server.features.event_sink.service.nats_broker import NatsBroker
from florin_server.features.event_sink.store import queue
from florin_server.features.monitoring.service import quarantine as items
from florin_server.operations.store import quarantine as stored
from nats.aio.client import Client

from tests.support.event_sink import SinkHarness, list_ids, list_places, make_options
from tests.support.nats_accounts import NatsAccount, NatsKey
from tests.support.nats_server import NatsServer, serve_nats
from tests.support.tcp_relay import TcpRelay
from tests.support.until import PATIENCE_S, wait_until

pytestmark = pytest.mark.long

# longer than any test waits
LONG_S = 600.0


@pytest.fixture
async def broker(tmp_path):
    async with serve_nats(tmp_path / "nats") as server:
        yield server


@pytest.fixture
async def sink(shop, broker, tmp_path):
    harness = SinkHarness(shop, tmp_path, broker.url)
    await harness.start()
    return harness


async def test_events_are_published_in_order_with_ids_of_webhooks(sink, broker):
    created = await sink.create()
    await sink.cancel(created)
    async with sink.publish():
        await sink.wait_published()
    first, second = await broker.list_messages()
    number = created.id.removeprefix("pay_")
    assert list_ids([first, second]) == [f"evt_{number}_0", f"evt_{number}_1"]
    assert first.subject == "florin.events.test.mer_1.payment.created"
    assert second.subject == "florin.events.test.mer_1.payment.cancelled"
    assert second.headers["Florin-Merchant-Id"] == "mer_1"
    assert (second.headers["Florin-Mode"], second.headers["Florin-Sequence"]) == ("test", "1")
    body = json.loads(second.data)
    assert (body["type"], body["data"]["payment_id"]) == ("payment.cancelled", created.id)
    assert sink.problem == ""


async def test_events_are_queued_only_while_the_sink_is_on(shop, sink, tmp_path):
    await SinkHarness(shop, tmp_path, "", revision=2).start()
    created = await sink.create()
    assert await sink.count_waiting() == 0
    again = SinkHarness(shop, tmp_path, sink.core.settings.event_sink.url, revision=3)
    await again.start()
    await again.start()
    await sink.cancel(created)
    (pending,) = await shop.read(queue.list_due(sink.clock.now_us(), 10))
    assert (pending.payment_id, pending.place, pending.newest) == (created.id, 0, 1)


async def test_merchant_id_is_a_single_token_of_the_subject(sink, broker):
    await sink.create(merchant_id="shop.*>1 é")
    async with sink.publish():
        await sink.wait_published()
    (message,) = await broker.list_messages()
    assert message.subject == "florin.events.test.shop%2E%2A%3E1%20%C3%A9.payment.created"


async def test_connection_that_is_lost_ends_all_waits_for_an_answer(broker):
    lost: list[bool] = []
    async with TcpRelay(broker.port) as relay:
        url = f"nats://127.0.0.1:{relay.port}"
        options = make_options(url, creates_stream=False, timeout_s=LONG_S)
        connection = await NatsBroker.connect(options)
        relay.cut(b"STREAM.INFO", lambda: lost.append(True))
        assert await connection.find_problem() == ""
        await connection.close()
        relay.cut(b"STREAM.INFO", lambda: lost.append(True))
        with pytest.raises(BrokerUnavailable, match="the connection is lost"):
            await NatsBroker.connect(replace(options, creates_stream=True))
    assert lost == [True, True]


@pytest.mark.parametrize("more", [0, 6])
async def test_connection_that_is_lost_while_events_are_sent_ends_all_waits(
    broker, more, monkeypatch
):
    client = Client()
    monkeypatch.setattr(nats_broker, "Client", lambda: client)
    await broker.add_stream()
    events: list[asyncio.Task[None]] = []
    async with TcpRelay(broker.port) as relay:
        url = f"nats://127.0.0.1:{relay.port}"
        connection = await NatsBroker.connect(make_options(url, timeout_s=LONG_S))
        relay.stalled = True

        async def send() -> None:
            publish = connection.publish("florin.events.a", bytes(500_000), {})
            events.append(asyncio.create_task(publish))
            for _ in range(50):
                await asyncio.sleep(0)

        # the system's buffers are full, then the client's, too
        while not client.pending_data_size:
            await send()
        for _ in range(more):
            await send()
        loss = asyncio.create_task(connection.wait_lost())
        relay.refuse()
        async with asyncio.timeout(PATIENCE_S):
            errors = await asyncio.gather(*events, return_exceptions=True)
            await loss
    assert [type(error) for error in errors] == [BrokerUnavailable] * len(events)


async def test_event_is_stored_once_after_its_acknowledgement_was_lost(shop, broker, tmp_path):
    await broker.add_stream()
    lost: list[bool] = []
    async with TcpRelay(broker.port) as relay:
        # the loss itself ends the wait for the acknowledgement
        url = f"nats://127.0.0.1:{relay.port}"
        sink = SinkHarness(shop, tmp_path, url, timeout_s=LONG_S)
        await sink.start()
        payment = await sink.create()
        relay.cut(b'"seq":', lambda: lost.append(True))
        async with sink.publish():
            await sink.wait_problem("the connection is lost")
            assert lost
            assert await sink.count_waiting() == 1
            assert len(await broker.list_messages()) == 1
            await sink.wait_published()
    assert list_places(await broker.list_messages()) == {payment.id: [0]}


async def test_event_that_ends_connections_holds_no_other_and_is_reported(shop, broker, tmp_path):
    await broker.add_stream()
    async with TcpRelay(broker.port) as relay:
        url = f"nats://127.0.0.1:{relay.port}"
        sink = SinkHarness(shop, tmp_path, url, timeout_s=LONG_S)
        await sink.start()
        poison = await sink.create()
        payments = [await sink.create() for _ in range(3)]
        ends_connections = True

        def cut_again() -> None:
            if ends_connections:
                relay.cut(poison.id.encode(), cut_again)

        cut_again()
        async with sink.publish():
            await sink.wait_waiting_below(2)
            await sink.wait_problem("does not store some events: the connection is lost")
            # of a payment that is published
            await sink.cancel(payments[0])
            await sink.wait_waiting_below(2)
            assert sink.problem
            ends_connections = False
            await sink.wait_published()
            await wait_until(lambda: sink.problem, "")
    places = list_places(await broker.list_messages())
    assert places == {payment.id: [0] for payment in (poison, *payments)} | {payments[0].id: [0, 1]}


async def test_lost_connection_is_reported_at_once_while_nothing_is_published(sink, broker):
    async with sink.publish():
        await sink.create()
        await sink.wait_published()
        broker.kill()
        # no clock is advanced
        await wait_until(lambda: "cannot be reached" in sink.problem and "refused" in sink.problem)


async def test_broker_that_returns_gets_every_event(sink, broker):
    async with sink.publish():
        first = await sink.create()
        await sink.wait_published()
        broker.kill()
        later = [await sink.create() for _ in range(100)]
        await sink.cancel(first)
        await sink.wait_problem("the event sink cannot be reached")
        assert await sink.count_waiting() == 101
        await broker.start()
        await sink.wait_published()
        assert sink.problem == ""
    places = list_places(await broker.list_messages())
    assert places == {first.id: [0, 1], **{payment.id: [0] for payment in later}}


async def test_event_that_is_too_large_for_the_broker_stops_no_other(shop, tmp_path):
    async with serve_nats(tmp_path / "small", "max_payload: 4000") as broker:
        sink = SinkHarness(shop, tmp_path, broker.url)
        await sink.start()
        await sink.core.quarantine.load()
        large = await sink.create(reference_id="x" * 8000)
        small = await sink.create()
        async with sink.publish():
            await sink.wait_published()
            (item,) = await shop.read(stored.list_items(10, include_closed=False))
            assert item.kind is QuarantinedItemKind.DELIVERY
            assert item.subject == f"event_sink/{large.id}"
            assert "raise its max_payload" in item.reason
            assert list_places(await broker.list_messages()) == {small.id: [0]}


async def test_event_that_is_too_large_for_the_stream_is_published_after_a_retry(
    shop, sink, broker
):
    await broker.add_stream(max_msg_size=4000)
    await sink.core.quarantine.load()
    large = await sink.create(reference_id="x" * 8000)
    small = await sink.create()
    async with sink.publish():
        await sink.wait_published()
        (item,) = await shop.read(stored.list_items(10, include_closed=False))
        assert "raise its max_msg_size" in item.reason
        await sink.cancel(small)
        async with broker.connect() as client:
            stream = client.jetstream()
            config = (await stream.stream_info("florin_events")).config
            await stream.update_stream(replace(config, max_msg_size=-1))
        await items.retry(sink.core, item.id)
        await sink.wait_published()
    assert list_places(await broker.list_messages()) == {small.id: [0, 1], large.id: [0]}


async def test_missing_stream_is_reported_by_name_until_it_exists(shop, broker, tmp_path):
    sink = SinkHarness(shop, tmp_path, broker.url, creates_stream=False)
    await sink.start()
    payment = await sink.create()
    async with sink.publish():
        await sink.wait_problem("create stream florin_events")
        await broker.add_stream()
        await sink.wait_published()
    assert list_places(await broker.list_messages()) == {payment.id: [0]}


async def test_subject_that_may_not_be_published_holds_no_other(shop, tmp_path):
    permissions = (
        'authorization { users = [{ user: "florin", password: "secret-1", permissions: '
        '{ publish: { deny: ["florin.events.test.mer_2.>"] } } }, '
        '{ user: "reader", password: "secret-2" }] }'
    )
    async with serve_nats(tmp_path / "users", permissions) as broker:
        access = {"user": "florin", "password": "secret-1"}
        sink = SinkHarness(shop, tmp_path, broker.url, **access)
        await sink.start()
        await sink.create(merchant_id="mer_2")
        payment = await sink.create()
        async with sink.publish():
            await sink.wait_problem("did not acknowledge")
            assert await sink.count_waiting() == 1
        messages = await broker.list_messages(user="reader", password="secret-2")
        assert list_places(messages) == {payment.id: [0]}


async def test_wrong_password_is_reported(shop, tmp_path):
    users = 'authorization { user: "florin", password: "secret-1" }'
    async with serve_nats(tmp_path / "users", users) as broker:
        sink = SinkHarness(shop, tmp_path, broker.url, user="florin", password="wrong")
        async with sink.publish():
            await sink.wait_problem("uthorization")


async def test_renewed_credentials_of_an_account_are_used_without_a_restart(shop, tmp_path):
    account, path = NatsAccount.create(), tmp_path / "florin.creds"
    NatsAccount.create().write_credentials(path)
    async with serve_nats(tmp_path / "accounts", account.options) as broker:
        sink = SinkHarness(shop, tmp_path, broker.url, credentials=path)
        await sink.start()
        payment = await sink.create()
        async with sink.publish():
            await sink.wait_problem("uthorization")
            path.write_text("renewed now")
            await sink.wait_problem("it has no user's key")
            account.write_credentials(path)
            await sink.wait_published()
        messages = await broker.list_messages(user_credentials=str(path))
    assert list_places(messages) == {payment.id: [0]}


async def test_seed_of_an_nkey_gives_access(shop, tmp_path):
    key, path = NatsKey.create(nkeys.PREFIX_BYTE_USER), tmp_path / "florin.nk"
    path.write_text(f"{key.seed}\n")
    users = f'authorization {{ users = [{{ nkey: "{key.public}" }}] }}'
    async with serve_nats(tmp_path / "users", users) as broker:
        sink = SinkHarness(shop, tmp_path, broker.url, credentials=path)
        await sink.start()
        payment = await sink.create()
        async with sink.publish():
            await sink.wait_published()
        messages = await broker.list_messages(nkeys_seed=str(path))
    assert list_places(messages) == {payment.id: [0]}


async def test_second_process_publishes_once_the_lease_is_free(shop, sink, broker, tmp_path):
    dead = NatsServer(tmp_path / "dead")
    standby = SinkHarness(shop, tmp_path, broker.url, hosts=[dead.url])
    async with sink.publish("first"):
        await sink.create()
        await sink.wait_published()
        # SQLite has one process, which takes any lease
        if not shop.is_exclusive:
            async with standby.publish("second"):
                await sink.create()
                await sink.wait_published()
                assert standby.problem == ""
    async with standby.publish("second"):
        await standby.wait_problem("cannot be reached")


async def test_publisher_uses_any_host_that_answers(shop, broker, tmp_path):
    dead = NatsServer(tmp_path / "dead")
    sink = SinkHarness(shop, tmp_path, broker.url, hosts=[dead.url, broker.url])
    await sink.start()
    await sink.create()
    async with sink.publish():
        await sink.wait_published()
    assert len(await broker.list_messages()) == 1
    assert "secret" not in repr(make_options(broker.url, password="secret"))
