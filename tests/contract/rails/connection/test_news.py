"""Test that new blocks are read when announced, and by polling without announcements."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from florin_sandbox.devnet.evm import EvmDevChain, EvmDevSettings
from florin_sandbox.devnet.solana import SolanaDevChain, SolanaDevSettings
from florin_server.rails.connection.jsonrpc import JsonRpcClient, LocalTransport
from florin_server.rails.connection.new_blocks import (
    EARLY_FACTOR,
    FASTEST_S,
    MISSED_MAX,
    REPEAT_FACTOR,
    REPEATS_MAX,
    BlockNotifier,
    BlockWaiter,
)
from florin_server.rails.connection.subscription import BlockSubscription
from florin_server.rails.evm.dialect import NEW_BLOCKS, parse_head_mark
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.solana.dialect import NEW_BLOCKS as NEW_SLOTS
from florin_server.rails.solana.dialect import parse_slot_mark

from tests.support.evm_harness import RELAYER, make_chain_settings, open_lab
from tests.support.until import wait_until

NEVER_S = 3600.0
SOON_S = 10.0  # time that a loaded machine may need for a millisecond's work


async def soon(awaitable):
    async with asyncio.timeout(SOON_S):
        return await awaitable


class Announcing(BlockNotifier):
    """A notifier that signals when announcements are expected, or no longer expected."""

    def __init__(self, poll_s=NEVER_S):
        self.turned = {True: asyncio.Event(), False: asyncio.Event()}
        self.announcements = 0
        super().__init__(poll_s)

    def announce(self):
        self.announcements += 1
        super().announce()

    @property
    def has_announcements(self):
        return self._announced

    @has_announcements.setter
    def has_announcements(self, value):
        self._announced = value
        self.turned[value].set()
        self.turned[not value].clear()

    async def until(self, value):
        await soon(self.turned[value].wait())


@asynccontextmanager
async def evm():
    chain = await EvmDevChain.open(None, EvmDevSettings())
    port = await chain.serve_http()
    try:
        yield JsonRpcClient(LocalTransport(chain.handle)), port
    finally:
        await chain.close()


@asynccontextmanager
async def subscribed(port, call=NEW_BLOCKS, mark=parse_head_mark, news=None):
    news = news or Announcing()
    url = f"ws://127.0.0.1:{port}/"
    subscription = BlockSubscription(url, call, mark, news, retry_s=0.001)
    subscription.start()
    try:
        yield news
    finally:
        await subscription.close()


# waiting


async def test_an_announcement_ends_the_wait():
    news = BlockNotifier(NEVER_S)
    waits = asyncio.create_task(news.wait_for_block())
    news.announce()
    await soon(waits)


async def test_an_announcement_during_a_look_is_not_lost():
    news = BlockNotifier(NEVER_S)
    news.announce()
    await soon(news.wait_for_block())
    news.announce()  # while the settler looks
    await soon(news.wait_for_block())


async def test_every_waiter_receives_an_announcement():
    news = BlockNotifier(NEVER_S)
    waits = [asyncio.create_task(news.wait_for_block(name)) for name in ("", "payouts")]
    await asyncio.sleep(0)
    news.announce()
    for task in waits:
        await soon(task)
    # one waiter looks at the chain while the other is busy
    news.announce()
    await soon(news.wait_for_block())
    await soon(news.wait_for_block("payouts"))


async def test_second_waiter_does_not_hide_blocks_detected_only_by_polling():
    news = BlockNotifier(0.001, has_announcements=True)
    for head in range(1, MISSED_MAX + 1):
        assert not news.silence_event.is_set()
        for name in ("", "payouts"):
            await news.wait_for_block(name)
            news.record_head(head)
    assert news.silence_event.is_set()


async def test_without_announcements_the_clock_ends_the_wait():
    await soon(BlockNotifier(0.001).wait_for_block())
    await soon(BlockNotifier(0.001, has_announcements=True).wait_for_block())


async def test_blocks_detected_only_by_polling_mark_announcements_as_silent():
    news = BlockNotifier(0.001, has_announcements=True)
    for head in range(1, MISSED_MAX + 1):
        assert not news.silence_event.is_set()
        await news.wait_for_block()
        news.record_head(head)
    assert news.silence_event.is_set()


async def test_a_chain_without_new_blocks_is_not_silent():
    news = BlockNotifier(0.001, has_announcements=True)
    for _ in range(3 * MISSED_MAX):
        await news.wait_for_block()
        news.record_head(7)
    assert not news.silence_event.is_set()


async def test_an_announcement_makes_up_for_a_block_that_was_missed():
    news = BlockNotifier(0.001, has_announcements=True)
    for head in range(1, 10):
        await news.wait_for_block()
        news.record_head(2 * head)
        news.announce()
        await news.wait_for_block()
        news.record_head(2 * head + 1)
    assert not news.silence_event.is_set()


# over a socket


async def test_a_new_block_is_announced():
    async with evm() as (control, port), subscribed(port) as news:
        await news.until(True)
        waits = asyncio.create_task(news.wait_for_block())
        await control.call("evm_mine")
        await soon(waits)


async def test_new_final_slots_are_announced():
    chain = await SolanaDevChain.open(None, SolanaDevSettings(slot_s=0.02, finalized_slots=2))
    port = await chain.serve_http()
    async with subscribed(port, NEW_SLOTS, parse_slot_mark) as news:
        await news.until(True)
        for _ in range(3):
            await soon(news.wait_for_block())
    await chain.close()


async def test_lost_connection_is_reestablished():
    async with evm() as (_, port):
        sockets = []
        news = Announcing()

        async def between(request):
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            sockets.append(socket)
            async with (
                aiohttp.ClientSession() as session,
                session.ws_connect(f"ws://127.0.0.1:{port}/") as upstream,
            ):
                await upstream.send_str((await socket.receive()).data)
                await socket.send_str((await upstream.receive()).data)
                await socket.receive()
            return socket

        async with serving(between) as between_port, subscribed(between_port, news=news):
            await news.until(True)
            await sockets[0].close()
            await news.until(False)
            await news.until(True)
            assert len(sockets) == 2


@asynccontextmanager
async def serving(handler):
    application = web.Application()
    application.router.add_get("/", handler)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield runner.addresses[0][1]
    await runner.cleanup()


def answering(text, *then):
    async def handle(request):
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        await socket.send_str(text)
        for item in then:
            await socket.send_str(item)
        await socket.receive()
        return socket

    return handle


@pytest.mark.parametrize(
    "answer",
    ['{"id": 1, "error": {"code": -32601, "message": "no"}}', "<html>", "[]", '{"id": 9}'],
)
async def test_a_node_that_does_not_subscribe_us_is_left(answer, caplog):
    semaphore = asyncio.Semaphore(0)
    handle = answering(answer)

    async def counted(request):
        semaphore.release()
        return await handle(request)

    async with serving(counted) as port, subscribed(port) as news:
        for _ in range(3):  # the subscription is retried
            await soon(semaphore.acquire())
        assert not news.has_announcements
    assert "127.0.0.1 does not announce blocks" in caplog.text


async def test_silent_socket_is_replaced_by_a_new_connection():
    connections = asyncio.Semaphore(0)
    handle = answering('{"id": 1, "result": "0x1"}')

    async def counted(request):
        connections.release()
        return await handle(request)

    async with serving(counted) as port:
        news = Announcing(0.001)
        async with subscribed(port, news=news):
            await soon(connections.acquire())
            await news.until(True)
            head = 0
            while connections.locked():  # polling sees progress but hears no announcement
                head += 1
                await news.wait_for_block()
                news.record_head(head)


async def test_unreadable_message_announces_nothing():
    odd = '{"method": "eth_subscription", "params": {"result": 7}}'
    good = '{"method": "eth_subscription", "params": {"result": {"hash": "0xb1"}}}'
    async with serving(answering('{"id": 1, "result": "0x1"}', odd, odd, good)) as port:
        marks = []

        def mark(result):
            marks.append(parse_head_mark(result))
            return marks[-1]

        async with subscribed(port, mark=mark) as news:
            await wait_until(lambda: marks, [None, None, "0xb1"])
            assert news.announcements == 1


async def test_we_are_not_sent_elsewhere(caplog):
    async def elsewhere(request):
        raise web.HTTPTemporaryRedirect("/inside")

    semaphore = asyncio.Semaphore(0)

    async def counted(request):
        semaphore.release()
        return await elsewhere(request)

    async with serving(counted) as port, subscribed(port):
        for _ in range(2):
            await soon(semaphore.acquire())
    assert "sends us elsewhere" in caplog.text


# the embedded chain's sockets


async def receive_message(socket):
    return await soon(socket.receive_json())


async def test_embedded_chain_announces_each_new_head_once():
    async with (
        evm() as (control, port),
        aiohttp.ClientSession() as session,
        session.ws_connect(f"ws://127.0.0.1:{port}/") as socket,
    ):
        await socket.send_json({"id": 1, "method": "eth_subscribe", "params": ["newHeads"]})
        name = (await receive_message(socket))["result"]
        await control.call("evm_mine")
        first = (await receive_message(socket))["params"]
        assert first["subscription"] == name
        await control.call("evm_mine", {"blocks": 3})
        heads = [
            first["result"],
            *[(await receive_message(socket))["params"]["result"] for _ in range(3)],
        ]
        assert [int(head["number"], 16) for head in heads] == [1, 2, 3, 4]
        for below, above in itertools.pairwise(heads):
            assert above["parentHash"] == below["hash"]
        # blocks that replace others count as new
        await control.call("florin_fault", {"kind": "reorg", "depth": 2})
        again = [(await receive_message(socket))["params"]["result"] for _ in range(3)]
        assert [int(head["number"], 16) for head in again] == [3, 4, 5]
        assert again[0]["parentHash"] == heads[1]["hash"]
        assert again[0]["hash"] != heads[2]["hash"]
        await socket.send_json({"id": 2, "method": "eth_unsubscribe", "params": [name]})
        assert (await receive_message(socket))["result"] is True
        await control.call("evm_mine")
        # the next message is the response: the socket also accepts calls
        await socket.send_json({"id": 3, "method": "eth_blockNumber"})
        assert await receive_message(socket) == {"jsonrpc": "2.0", "id": 3, "result": "0x6"}


async def test_the_embedded_chain_knows_no_other_subscriptions():
    async with (
        evm() as (_, port),
        aiohttp.ClientSession() as session,
        session.ws_connect(f"ws://127.0.0.1:{port}/") as socket,
    ):
        await socket.send_json({"id": 1, "method": "eth_subscribe", "params": ["logs", {}]})
        assert "error" in await receive_message(socket)


async def test_a_rail_hears_of_new_blocks_where_its_settings_say():
    lab = await open_lab()
    port = await lab.chain.serve_http()
    chosen = make_chain_settings(
        rpc_url=f"http://127.0.0.1:{port}", ws_url=f"ws://127.0.0.1:{port}", poll_ms=600_000
    )
    rail = EvmRail(chosen, RELAYER)
    waits = asyncio.create_task(rail.nodes.wait_for_block())
    await wait_until(lambda: rail.nodes.block_notifier.has_announcements)
    await lab.mine()
    await soon(waits)
    await rail.close()
    await lab.rail.close()
    await lab.chain.close()


async def test_looks_follow_the_pace_within_bounds():
    news = BlockNotifier(1.0)
    for claimed, looked_s in ((0.001, FASTEST_S), (0.5, 0.5), (12.0, 1.0), (None, 1.0)):
        news.follow_pace(claimed)
        assert news.poll_s == looked_s


def pauses_s(news: BlockNotifier, heads: list[int]) -> list[float]:
    """Return how long a waiter pauses after each of these heads."""
    results, waiter = [], BlockWaiter()
    for head in heads:
        news.record_head(head)
        results.append(news.get_pause_s(waiter))
    return results


async def test_look_that_finds_no_block_is_repeated_soon_and_not_for_ever():
    news = BlockNotifier(1.0)
    news.follow_pace(0.5)
    before, repeated = 0.5 * EARLY_FACTOR, 0.5 * REPEAT_FACTOR
    assert pauses_s(news, [1, 2, 2, 3]) == [before, before, repeated, before]
    stalled = pauses_s(news, [7] * (REPEATS_MAX + 3))
    assert stalled == [before] + [repeated] * REPEATS_MAX + [0.5, 0.5]


async def test_slow_or_announced_chains_are_looked_at_as_the_settings_say():
    news = BlockNotifier(1.0)
    for block_s in (None, 12.0):
        news.follow_pace(block_s)
        assert pauses_s(news, [1, 1, 2]) == [1.0, 1.0, 1.0]
    news = BlockNotifier(1.0, has_announcements=True)
    news.follow_pace(0.5)
    assert pauses_s(news, [1, 1, 2]) == [5.0, 5.0, 5.0]
