"""A chain that is read from two nodes: which failures keep a payment open, and their reports."""

from __future__ import annotations

import pytest
import pytest_asyncio
from florin.v1 import condition_pb2, system_pb2
from florin_sandbox.devnet.evm import EvmDevChain, EvmDevSettings
from florin_server.app.chains.keys import ChainKeyring
from florin_server.cli.service import doctor
from florin_server.money.settlement.worker.settle import ChainSettler
from florin_server.rails.connection import health
from florin_server.rails.connection.connection import ChainConnection
from florin_server.rails.connection.jsonrpc import JsonRpcClient, LocalTransport
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.types import GasShortage, RailUnavailable

from tests.support.installation import open_operator
from tests.support.own_chain import CHAIN, CHAIN_ID, make_own_chain
from tests.support.proxy import FaultyNodeProxy
from tests.support.service_harness import ORDER, open_service
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")


def settings(*proxies: FaultyNodeProxy) -> EvmChainSettings:
    names = ("127.0.0.1", "localhost")
    urls = [p.url.replace("127.0.0.1", n) for p, n in zip(proxies, names, strict=True)]
    return make_own_chain(*urls)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def own(tmp_path_factory):
    chain = await EvmDevChain.open(None, EvmDevSettings(chain_id=CHAIN_ID))
    try:
        async with FaultyNodeProxy(chain.handle) as first, FaultyNodeProxy(chain.handle) as second:
            home = tmp_path_factory.mktemp("nodes")
            async with open_service(home, chains=(settings(first, second),)) as desk:
                control = JsonRpcClient(LocalTransport(chain.handle))
                relayer = EvmSigner(desk.service.secrets.relayer_key).address
                purse = {"accounts": [relayer], "nativeWei": hex(10**20), "tokenUnits": "0x0"}
                await control.call("florin_faucet", purse)
                # it looked before there was coin
                desk.clock.advance(31)
                state = desk.service.app.chains[CHAIN]
                await wait_until(lambda: state.funds_read_at_us and not state.funding_problem)
                yield desk, (first, second), control
    finally:
        await chain.close()


async def status_of(desk) -> system_pb2.ChainStatus:
    async with open_operator(desk.service) as operator:
        status = await operator.call("GetSystemStatus", system_pb2.GetSystemStatusRequest())
    (result,) = [chain for chain in status.chains if chain.chain_id == CHAIN]
    return result


async def read_doctor_report(desk) -> list[tuple[str, str]]:
    """Return each line of the doctor about the chain, and the problem in it."""
    settings = desk.service.settings
    keys = ChainKeyring(settings, desk.service.secrets)
    return [finding async for finding in doctor.check_chain(settings.chains[0], keys)]


async def ordered(desk, control) -> tuple[EvmTestWallet, dict[str, str], str]:
    """Return a wallet with money, the headers of its app, and the id of a payment."""
    wallet = EvmTestWallet(CHAIN)
    purse = {"accounts": [wallet.address], "nativeWei": "0x0", "tokenUnits": hex(10**9)}
    await control.call("florin_faucet", purse)
    tenant, app = await desk.tenant(), await desk.wallet_app()
    payment_id = (await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)).body["paymentId"]
    return wallet, app, payment_id


async def test_the_operator_sees_each_node_by_its_host(own):
    desk, _, _ = own
    status = await status_of(desk)
    assert [node.name for node in status.nodes] == ["127.0.0.1", "localhost"]
    assert [node.problem for node in status.nodes] == ["", ""]
    results = await read_doctor_report(desk)
    names = [what.split(" at block")[0] for what, _ in results]
    assert names == [f"{CHAIN} Own", "node 127.0.0.1", "node localhost"]
    assert [wrong for _, wrong in results] == ["", "", ""]
    assert "secret" not in str(status) + str(results)


async def test_stalled_chain_is_reported_and_not_offered_until_it_recovers(own, monkeypatch):
    desk, _, control = own
    wallet, app, created = await ordered(desk, control)
    path = f"/v1/gateway/payment/{created}"

    async def stalled() -> tuple[int, str]:
        condition = {
            each_condition.name: each_condition
            for each_condition in (await status_of(desk)).conditions
        }["chain_stalled"]
        return condition.state, condition.reason

    async def options() -> list[str]:
        answer = await desk.ask("POST", path + "/options", app, {"accounts": [wallet.account]})
        assert answer.status == 200
        return [option["id"] for option in answer.body["options"]]

    offered = await options()
    assert offered
    with monkeypatch.context() as patched:
        output = "no node has reported a new block for 7 min"
        patched.setattr(ChainConnection, "stall_problem", property(lambda _: output))
        assert await options() == []
        assert await stalled() == (condition_pb2.CONDITION_STATE_CRITICAL, output)
    assert await options() == offered
    assert await stalled() == (condition_pb2.CONDITION_STATE_OK, "")


async def test_chain_whose_settlement_fails_for_minutes_is_not_offered_until_it_works(
    own, monkeypatch
):
    desk, _, control = own
    wallet, app, created = await ordered(desk, control)

    async def options() -> list[str]:
        path = f"/v1/gateway/payment/{created}/options"
        answer = await desk.ask("POST", path, app, {"accounts": [wallet.account]})
        assert answer.status == 200
        return [option["id"] for option in answer.body["options"]]

    async def reason() -> str:
        conditions = {condition.name: condition for condition in (await status_of(desk)).conditions}
        return str(conditions["settlement_failing"].reason)

    async def fail_with(patched, error: Exception, output: str) -> None:
        async def turn(_: ChainSettler) -> None:
            raise error

        async def seen() -> bool:
            await control.call("evm_mine")
            return output in await reason()

        patched.setattr(ChainSettler, "_run_turn", turn)
        await wait_until(seen)

    assert await options()
    with monkeypatch.context() as patched:
        # the failure of one item of one payer stops no other payer
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

    await wait_until(works)
    assert await reason() == ""


async def test_server_clock_behind_all_chains_is_reported(own, monkeypatch):
    desk, _, _ = own

    async def reason() -> str:
        async with open_operator(desk.service) as operator:
            status = await operator.call("GetSystemStatus", system_pb2.GetSystemStatusRequest())
        return {condition.name: condition.reason for condition in status.conditions}["clock_wrong"]

    assert await reason() == ""
    late_us = desk.clock.now_us() - 2 * 10**15
    monkeypatch.setattr(type(desk.clock), "now_us", lambda _: late_us)
    assert "behind the newest blocks" in await reason()


async def test_chain_without_coin_is_not_offered_and_pages_until_there_is_some(own, monkeypatch):
    desk, _, control = own
    wallet, app, created = await ordered(desk, control)
    relayer = EvmSigner(desk.service.secrets.relayer_key).address
    rail, state = desk.service.app.rails[CHAIN], desk.service.app.chains[CHAIN]
    shortages = rail.relay.list_shortages
    held: list[GasShortage] = []

    async def counted() -> tuple[GasShortage, ...]:
        return tuple(held) or await shortages()

    async def options() -> list[str]:
        path = f"/v1/gateway/payment/{created}/options"
        answer = await desk.ask("POST", path, app, {"accounts": [wallet.account]})
        assert answer.status == 200
        return [option["id"] for option in answer.body["options"]]

    async def conditions() -> dict[str, condition_pb2.Condition]:
        return {
            each_condition.name: each_condition
            for each_condition in (await status_of(desk)).conditions
        }

    async def offered(*, has_options: bool) -> bool:
        # the settler polls every few seconds
        desk.clock.advance(31)
        await control.call("evm_mine")
        return bool(await options()) is has_options

    monkeypatch.setattr(rail.relay, "list_shortages", counted)
    # little coin is a warning, and stops no payment
    held[:] = [GasShortage(f"{relayer} has too little coin", is_empty=False)]
    await wait_until(lambda: state.shortages == tuple(held) or offered(has_options=False))
    assert await options()
    assert (await conditions())["relayer_empty"].state == condition_pb2.CONDITION_STATE_OK
    held[:] = [GasShortage(f"{relayer} has no coin", is_empty=True)]
    await wait_until(lambda: offered(has_options=False))
    condition = (await conditions())["relayer_empty"]
    assert condition.state == condition_pb2.CONDITION_STATE_CRITICAL
    assert (
        condition.reason
        == f"{relayer} has no coin; not offered until a relayer key has native coin"
    )
    assert (await conditions())["relayer_funds_low"].state == condition_pb2.CONDITION_STATE_OK
    held.clear()
    await wait_until(lambda: offered(has_options=True))
    assert (await conditions())["relayer_empty"].state == condition_pb2.CONDITION_STATE_OK


async def test_payment_succeeds_only_once_two_nodes_agree(own, monkeypatch):
    # a node that comes back is asked again soon
    monkeypatch.setattr(health, "BACKOFF_MAX_S", 0.05)
    desk, (first, second), control = own
    wallet, app, created = await ordered(desk, control)
    path = f"/v1/gateway/payment/{created}"
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
        return now if "2 must agree" in now.problem else None

    status = await wait_until(disagreeing)
    assert not status.healthy
    assert [bool(node.problem) for node in status.nodes] == [False, True]
    _, *nodes = await read_doctor_report(desk)
    assert [bool(wrong) for _, wrong in nodes] == [False, True]
    assert "eth_getTransactionReceipt" in first.methods
    assert (await desk.ask("GET", path + "/status", app)).body["status"] == "processing"

    second.up()
    assert (await desk.wait_ended(created))["status"] == "succeeded"
    assert (await status_of(desk)).problem == ""
