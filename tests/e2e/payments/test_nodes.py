"""A chain that is read from two nodes: what keeps a payment open, and who is told."""

from __future__ import annotations

import pytest
import pytest_asyncio
from florin.v1 import condition_pb2, system_pb2
from florin_server.boot.chains.keys import Keyring
from florin_server.cli.service import doctor
from florin_server.devnet.evm import EvmDevChain, EvmDevSettings
from florin_server.rails.connection import health
from florin_server.rails.connection.connection import Connection
from florin_server.rails.connection.jsonrpc import JsonRpc, LocalTransport
from florin_server.rails.evm.sending.transactions import Signer
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.types import RailUnavailable, Shortage
from florin_server.workers.settlement.settle import ChainSettler

from tests.support.desk import ORDER, opened
from tests.support.installation import operator_of
from tests.support.own_chain import CHAIN, CHAIN_ID, own_chain
from tests.support.proxy import FaultyProxy
from tests.support.until import until
from tests.support.wallet import Wallet

pytestmark = pytest.mark.asyncio(loop_scope="module")


def settings(*proxies: FaultyProxy) -> EvmChain:
    names = ("127.0.0.1", "localhost")
    urls = [p.url.replace("127.0.0.1", n) for p, n in zip(proxies, names, strict=True)]
    return own_chain(*urls)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def own(tmp_path_factory):
    chain = await EvmDevChain.open(None, EvmDevSettings(chain_id=CHAIN_ID))
    try:
        async with FaultyProxy(chain.handle) as first, FaultyProxy(chain.handle) as second:
            home = tmp_path_factory.mktemp("nodes")
            async with opened(home, chains=(settings(first, second),)) as desk:
                control = JsonRpc(LocalTransport(chain.handle))
                relayer = Signer(desk.service.secrets.relayer_key).address
                purse = {"accounts": [relayer], "nativeWei": hex(10**20), "tokenUnits": "0x0"}
                await control.call("florin_faucet", purse)
                # it looked before there was coin
                desk.clock.advance(31)
                state = desk.service.app.chains[CHAIN]
                await until(lambda: state.funds_read_at_us and not state.unfunded)
                yield desk, (first, second), control
    finally:
        await chain.close()


async def status_of(desk) -> system_pb2.ChainStatus:
    async with operator_of(desk.service) as operator:
        status = await operator.ask("GetSystemStatus", system_pb2.GetSystemStatusRequest())
    (found,) = [chain for chain in status.chains if chain.chain_id == CHAIN]
    return found


async def told_by_doctor(desk) -> list[tuple[str, str]]:
    """Each line of the doctor about the chain, and what is wrong."""
    settings = desk.service.settings
    keys = Keyring(settings, desk.service.secrets)
    return [finding async for finding in doctor.of_chain(settings.chains[0], keys)]


async def ordered(desk, control) -> tuple[Wallet, dict[str, str], str]:
    """A wallet with money, the headers of its app, and the id of a payment."""
    wallet = Wallet(CHAIN)
    purse = {"accounts": [wallet.address], "nativeWei": "0x0", "tokenUnits": hex(10**9)}
    await control.call("florin_faucet", purse)
    tenant, app = await desk.tenant(), await desk.wallet_app()
    made = (await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)).body["paymentId"]
    return wallet, app, made


async def test_the_operator_sees_each_node_by_its_host(own):
    desk, _, _ = own
    status = await status_of(desk)
    assert [node.name for node in status.nodes] == ["127.0.0.1", "localhost"]
    assert [node.problem for node in status.nodes] == ["", ""]
    found = await told_by_doctor(desk)
    names = [what.split(" at block")[0] for what, _ in found]
    assert names == [f"{CHAIN} Own", "node 127.0.0.1", "node localhost"]
    assert [wrong for _, wrong in found] == ["", "", ""]
    assert "secret" not in str(status) + str(found)


async def test_a_chain_that_stalls_is_told_and_not_offered_until_it_goes_on(own, monkeypatch):
    desk, _, control = own
    wallet, app, made = await ordered(desk, control)
    path = f"/v1/gateway/payment/{made}"

    async def stalled() -> tuple[int, str]:
        found = {one.name: one for one in (await status_of(desk)).conditions}["chain_stalled"]
        return found.state, found.reason

    async def options() -> list[str]:
        answer = await desk.ask("POST", path + "/options", app, {"accounts": [wallet.account]})
        assert answer.status == 200
        return [one["id"] for one in answer.body["options"]]

    offered = await options()
    assert offered
    with monkeypatch.context() as patched:
        told = "no node has told a new block for 7 min"
        patched.setattr(Connection, "stalled", property(lambda _: told))
        assert await options() == []
        assert await stalled() == (condition_pb2.CONDITION_STATE_CRITICAL, told)
    assert await options() == offered
    assert await stalled() == (condition_pb2.CONDITION_STATE_OK, "")


async def test_chain_whose_settlement_fails_for_minutes_is_not_offered_until_it_works(
    own, monkeypatch
):
    desk, _, control = own
    wallet, app, made = await ordered(desk, control)

    async def options() -> list[str]:
        path = f"/v1/gateway/payment/{made}/options"
        answer = await desk.ask("POST", path, app, {"accounts": [wallet.account]})
        assert answer.status == 200
        return [one["id"] for one in answer.body["options"]]

    async def reason() -> str:
        found = {one.name: one for one in (await status_of(desk)).conditions}
        return str(found["settlement_failing"].reason)

    async def fail_with(patched, error: Exception, told: str) -> None:
        async def turn(_: ChainSettler) -> None:
            raise error

        async def seen() -> bool:
            await control.call("evm_mine")
            return told in await reason()

        patched.setattr(ChainSettler, "_turn", turn)
        await until(seen)

    assert await options()
    with monkeypatch.context() as patched:
        # what one item of one payer fails with keeps nobody from paying
        await fail_with(patched, ValueError("an item"), "an item")
        desk.clock.advance(200)
        assert await options()
        await fail_with(patched, RailUnavailable("no receipts"), "no receipts")
        assert await options()
        desk.clock.advance(200)
        assert await options() == []
        assert "failed for 3 min; not offered until it works" in await reason()

    async def works() -> bool:
        await control.call("evm_mine")
        return bool(await options())

    await until(works)
    assert await reason() == ""


async def test_server_clock_behind_all_chains_is_reported(own, monkeypatch):
    desk, _, _ = own

    async def reason() -> str:
        async with operator_of(desk.service) as operator:
            status = await operator.ask("GetSystemStatus", system_pb2.GetSystemStatusRequest())
        return {one.name: one.reason for one in status.conditions}["clock_wrong"]

    assert await reason() == ""
    late_us = desk.clock.now_us() - 2 * 10**15
    monkeypatch.setattr(type(desk.clock), "now_us", lambda _: late_us)
    assert "behind the newest blocks" in await reason()


async def test_chain_without_coin_is_not_offered_and_pages_until_there_is_some(own, monkeypatch):
    desk, _, control = own
    wallet, app, made = await ordered(desk, control)
    relayer = Signer(desk.service.secrets.relayer_key).address
    rail, state = desk.service.app.rails[CHAIN], desk.service.app.chains[CHAIN]
    shortages = rail.relay.shortages
    held: list[Shortage] = []

    async def counted() -> tuple[Shortage, ...]:
        return tuple(held) or await shortages()

    async def options() -> list[str]:
        path = f"/v1/gateway/payment/{made}/options"
        answer = await desk.ask("POST", path, app, {"accounts": [wallet.account]})
        assert answer.status == 200
        return [one["id"] for one in answer.body["options"]]

    async def conditions() -> dict[str, condition_pb2.Condition]:
        return {one.name: one for one in (await status_of(desk)).conditions}

    async def offered(*, wanted: bool) -> bool:
        # the settler looks every few seconds
        desk.clock.advance(31)
        await control.call("evm_mine")
        return bool(await options()) is wanted

    monkeypatch.setattr(rail.relay, "shortages", counted)
    # little coin is a warning, and keeps nobody from paying
    held[:] = [Shortage(f"{relayer} has too little coin", is_empty=False)]
    await until(lambda: state.shortages == tuple(held) or offered(wanted=False))
    assert await options()
    assert (await conditions())["relayer_empty"].state == condition_pb2.CONDITION_STATE_OK
    held[:] = [Shortage(f"{relayer} has no coin", is_empty=True)]
    await until(lambda: offered(wanted=False))
    found = (await conditions())["relayer_empty"]
    assert found.state == condition_pb2.CONDITION_STATE_CRITICAL
    assert found.reason == f"{relayer} has no coin; not offered until there is coin"
    assert (await conditions())["relayer_funds_low"].state == condition_pb2.CONDITION_STATE_OK
    held.clear()
    await until(lambda: offered(wanted=True))
    assert (await conditions())["relayer_empty"].state == condition_pb2.CONDITION_STATE_OK


async def test_a_payment_ends_when_two_nodes_tell_so_and_not_before(own, monkeypatch):
    # one that comes back is asked again soon
    monkeypatch.setattr(health, "BACKOFF_MAX_S", 0.05)
    desk, (first, second), control = own
    wallet, app, made = await ordered(desk, control)
    path = f"/v1/gateway/payment/{made}"
    offered = await desk.ask("POST", path + "/options", app, {"accounts": [wallet.account]})
    (option,) = offered.body["options"]
    second.down()
    results = [{"type": "walletRpc", "data": wallet.execute_all(option)}]
    body = {"optionId": option["id"], "results": results}
    confirmed = await desk.ask("POST", path + "/confirm", app, body)
    assert confirmed.body["status"] == "processing"
    # the first node has it in a block, at final depth

    async def disagreeing() -> system_pb2.ChainStatus | None:
        now = await status_of(desk)
        return now if "2 have to agree" in now.problem else None

    status = await until(disagreeing)
    assert not status.healthy
    assert [bool(node.problem) for node in status.nodes] == [False, True]
    _, *nodes = await told_by_doctor(desk)
    assert [bool(wrong) for _, wrong in nodes] == [False, True]
    assert "eth_getTransactionReceipt" in first.asked
    assert (await desk.ask("GET", path + "/status", app)).body["status"] == "processing"

    second.up()
    assert (await desk.ended(made))["status"] == "succeeded"
    assert (await status_of(desk)).problem == ""
