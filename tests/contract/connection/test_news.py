"""New blocks are looked for when they are announced, and without announcements all the same."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from florin_server.devnet.evm import EvmDevChain, EvmDevSettings
from florin_server.devnet.solana import SolanaDevChain, SolanaDevSettings
from florin_server.rails.connection.jsonrpc import JsonRpc, LocalTransport
from florin_server.rails.connection.new_blocks import (
    BEFORE_BLOCK,
    FASTEST_S,
    MISSED_MAX,
    REPEATED,
    REPEATS_MAX,
    News,
    Waiter,
)
from florin_server.rails.connection.subscription import Subscription
from florin_server.rails.evm.family import NEW_BLOCKS, block_mark
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.solana.family import NEW_BLOCKS as NEW_SLOTS
from florin_server.rails.solana.family import slot_mark

from tests.support.evm_lab import RELAYER, open_lab, settings
from tests.support.until import until

NEVER_S = 3600.0
SOON_S = 10.0  # what a loaded machine may need for what takes a millisecond


async def soon(awaitable):
    async with asyncio.timeout(SOON_S):
        return await awaitable


class Announcing(News):
    """Tells when announcements are expected, or not any more."""

    def __init__(self, poll_s=NEVER_S):
        self.turned = {True: asyncio.Event(), False: asyncio.Event()}
        self.announcements = 0
        super().__init__(poll_s)

    def announce(self):
        self.announcements += 1
        super().announce()

    @property
    def announced(self):
        return self._announced

    @announced.setter
    def announced(self, value):
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
        yield JsonRpc(LocalTransport(chain.handle)), port
    finally:
        await chain.close()


@asynccontextmanager
async def subscribed(port, call=NEW_BLOCKS, mark=block_mark, news=None):
    news = news or Announcing()
    url = f"ws://127.0.0.1:{port}/"
    subscription = Subscription(url, call, mark, news, retry_s=0.001)
    subscription.start()
    try:
        yield news
    finally:
        await subscription.close()


# waiting


async def test_an_announcement_ends_the_wait():
    news = News(NEVER_S)
    waits = asyncio.create_task(news.wait())
    news.announce()
    await soon(waits)


async def test_an_announcement_during_a_look_is_not_lost():
    news = News(NEVER_S)
    news.announce()
    await soon(news.wait())
    news.announce()  # while the settler looks
    await soon(news.wait())


async def test_everybody_who_waits_hears_of_an_announcement():
    news = News(NEVER_S)
    waits = [asyncio.create_task(news.wait(name)) for name in ("", "payouts")]
    await asyncio.sleep(0)
    news.announce()
    for one in waits:
        await soon(one)
    # one of them looks, while the other is away
    news.announce()
    await soon(news.wait())
    await soon(news.wait("payouts"))


async def test_a_second_look_does_not_hide_what_polling_alone_found():
    news = News(0.001, announced=True)
    for head in range(1, MISSED_MAX + 1):
        assert not news.silent.is_set()
        for name in ("", "payouts"):
            await news.wait(name)
            news.saw(head)
    assert news.silent.is_set()


async def test_without_announcements_the_clock_ends_the_wait():
    await soon(News(0.001).wait())
    await soon(News(0.001, announced=True).wait())


async def test_blocks_that_only_polling_found_speak_against_announcements():
    news = News(0.001, announced=True)
    for head in range(1, MISSED_MAX + 1):
        assert not news.silent.is_set()
        await news.wait()
        news.saw(head)
    assert news.silent.is_set()


async def test_a_chain_without_new_blocks_is_not_silent():
    news = News(0.001, announced=True)
    for _ in range(3 * MISSED_MAX):
        await news.wait()
        news.saw(7)
    assert not news.silent.is_set()


async def test_an_announcement_makes_up_for_a_block_that_was_missed():
    news = News(0.001, announced=True)
    for head in range(1, 10):
        await news.wait()
        news.saw(2 * head)
        news.announce()
        await news.wait()
        news.saw(2 * head + 1)
    assert not news.silent.is_set()


# over a socket


async def test_a_new_block_is_announced():
    async with evm() as (control, port), subscribed(port) as news:
        await news.until(True)
        waits = asyncio.create_task(news.wait())
        await control.call("evm_mine")
        await soon(waits)


async def test_new_final_slots_are_announced():
    chain = await SolanaDevChain.open(None, SolanaDevSettings(slot_s=0.02, finalized_slots=2))
    port = await chain.serve_http()
    async with subscribed(port, NEW_SLOTS, slot_mark) as news:
        await news.until(True)
        for _ in range(3):
            await soon(news.wait())
    await chain.close()


async def test_a_lost_connection_is_made_again():
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
        for one in then:
            await socket.send_str(one)
        await socket.receive()
        return socket

    return handle


@pytest.mark.parametrize(
    "answer",
    ['{"id": 1, "error": {"code": -32601, "message": "no"}}', "<html>", "[]", '{"id": 9}'],
)
async def test_a_node_that_does_not_subscribe_us_is_left(answer, caplog):
    asked = asyncio.Semaphore(0)
    handle = answering(answer)

    async def counted(request):
        asked.release()
        return await handle(request)

    async with serving(counted) as port, subscribed(port) as news:
        for _ in range(3):  # it is tried again
            await soon(asked.acquire())
        assert not news.announced
    assert "127.0.0.1 does not announce blocks" in caplog.text


async def test_a_silent_socket_is_left_for_a_new_one():
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
            while connections.locked():  # polling sees progress, and hears nothing
                head += 1
                await news.wait()
                news.saw(head)


async def test_what_cannot_be_read_announces_nothing():
    odd = '{"method": "eth_subscription", "params": {"result": 7}}'
    good = '{"method": "eth_subscription", "params": {"result": {"hash": "0xb1"}}}'
    async with serving(answering('{"id": 1, "result": "0x1"}', odd, odd, good)) as port:
        marks = []

        def mark(told):
            marks.append(block_mark(told))
            return marks[-1]

        async with subscribed(port, mark=mark) as news:
            await until(lambda: marks, [None, None, "0xb1"])
            assert news.announcements == 1


async def test_we_are_not_sent_elsewhere(caplog):
    async def elsewhere(request):
        raise web.HTTPTemporaryRedirect("/inside")

    asked = asyncio.Semaphore(0)

    async def counted(request):
        asked.release()
        return await elsewhere(request)

    async with serving(counted) as port, subscribed(port):
        for _ in range(2):
            await soon(asked.acquire())
    assert "sends us elsewhere" in caplog.text


# the embedded chain's sockets


async def told(socket):
    return await soon(socket.receive_json())


async def test_the_embedded_chain_tells_each_new_head_once():
    async with (
        evm() as (control, port),
        aiohttp.ClientSession() as session,
        session.ws_connect(f"ws://127.0.0.1:{port}/") as socket,
    ):
        await socket.send_json({"id": 1, "method": "eth_subscribe", "params": ["newHeads"]})
        name = (await told(socket))["result"]
        await control.call("evm_mine")
        first = (await told(socket))["params"]
        assert first["subscription"] == name
        await control.call("evm_mine", {"blocks": 3})
        heads = [first["result"], *[(await told(socket))["params"]["result"] for _ in range(3)]]
        assert [int(head["number"], 16) for head in heads] == [1, 2, 3, 4]
        for below, above in itertools.pairwise(heads):
            assert above["parentHash"] == below["hash"]
        # blocks that replace others are new
        await control.call("florin_fault", {"kind": "reorg", "depth": 2})
        again = [(await told(socket))["params"]["result"] for _ in range(3)]
        assert [int(head["number"], 16) for head in again] == [3, 4, 5]
        assert again[0]["parentHash"] == heads[1]["hash"]
        assert again[0]["hash"] != heads[2]["hash"]
        await socket.send_json({"id": 2, "method": "eth_unsubscribe", "params": [name]})
        assert (await told(socket))["result"] is True
        await control.call("evm_mine")
        # the next that comes is an answer: calls work here too
        await socket.send_json({"id": 3, "method": "eth_blockNumber"})
        assert await told(socket) == {"jsonrpc": "2.0", "id": 3, "result": "0x6"}


async def test_the_embedded_chain_knows_no_other_subscriptions():
    async with (
        evm() as (_, port),
        aiohttp.ClientSession() as session,
        session.ws_connect(f"ws://127.0.0.1:{port}/") as socket,
    ):
        await socket.send_json({"id": 1, "method": "eth_subscribe", "params": ["logs", {}]})
        assert "error" in await told(socket)


async def test_a_rail_hears_of_new_blocks_where_its_settings_say():
    lab = await open_lab()
    port = await lab.chain.serve_http()
    chosen = settings(
        rpc_url=f"http://127.0.0.1:{port}", ws_url=f"ws://127.0.0.1:{port}", poll_ms=600_000
    )
    rail = EvmRail(chosen, RELAYER)
    waits = asyncio.create_task(rail.nodes.wait_for_block())
    await until(lambda: rail.nodes.news.announced)
    await lab.mine()
    await soon(waits)
    await rail.close()
    await lab.rail.close()
    await lab.chain.close()


async def test_looks_follow_the_pace_within_bounds():
    news = News(1.0)
    for claimed, looked_s in ((0.001, FASTEST_S), (0.5, 0.5), (12.0, 1.0), (None, 1.0)):
        news.follow_pace(claimed)
        assert news.poll_s == looked_s


def pauses_s(news: News, heads: list[int]) -> list[float]:
    """How long somebody waits after each of these heads."""
    found, waiter = [], Waiter()
    for head in heads:
        news.saw(head)
        found.append(news.pause_s(waiter))
    return found


async def test_look_that_finds_no_block_is_repeated_soon_and_not_for_ever():
    news = News(1.0)
    news.follow_pace(0.5)
    before, repeated = 0.5 * BEFORE_BLOCK, 0.5 * REPEATED
    assert pauses_s(news, [1, 2, 2, 3]) == [before, before, repeated, before]
    stalled = pauses_s(news, [7] * (REPEATS_MAX + 3))
    assert stalled == [before] + [repeated] * REPEATS_MAX + [0.5, 0.5]


async def test_slow_or_announced_chains_are_looked_at_as_the_settings_say():
    news = News(1.0)
    for block_s in (None, 12.0):
        news.follow_pace(block_s)
        assert pauses_s(news, [1, 1, 2]) == [1.0, 1.0, 1.0]
    news = News(1.0, announced=True)
    news.follow_pace(0.5)
    assert pauses_s(news, [1, 1, 2]) == [5.0, 5.0, 5.0]
