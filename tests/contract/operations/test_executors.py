"""The operator pauses executors, inspects waiting payments, and resumes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from florin.v1 import condition_pb2, system_pb2
from florin_server.money.payments.service.checkout import find_payment
from florin_server.money.payments.service.ways import list_ways

from tests.support.api import ApiCallError, RestApi
from tests.support.chain import ChainClient
from tests.support.installation import open_operator
from tests.support.payment_flow import ORDER, PRICE, follow_payment
from tests.support.service import run_service
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

LIST = system_pb2.ListExecutorsRequest()


async def executor_of(operator) -> system_pb2.Executor:
    """Return the executor that settles; the other one pays out."""
    relayer = (await chain_of(operator)).relayer
    executors = (await operator.call("ListExecutors", LIST)).executors
    (executor,) = [item for item in executors if item.id.endswith(relayer)]
    assert len(executors) == 2
    return executor


async def pause(operator) -> system_pb2.Executor:
    request = system_pb2.PauseExecutorRequest(executor_id=(await executor_of(operator)).id)
    return await operator.call("PauseExecutor", request)


async def resume(operator) -> system_pb2.Executor:
    request = system_pb2.ResumeExecutorRequest(executor_id=(await executor_of(operator)).id)
    return await operator.call("ResumeExecutor", request)


async def chain_of(operator) -> system_pb2.ChainStatus:
    status = await operator.call("GetSystemStatus", system_pb2.GetSystemStatusRequest())
    return status.chains[0]


async def healthy(operator) -> bool:
    """Return True once the settler has started."""

    async def started() -> bool:
        return (await chain_of(operator)).problem != "starting"

    await wait_until(started)
    return (await chain_of(operator)).healthy


async def offered(api: RestApi, wallet: EvmTestWallet) -> tuple[str, dict[str, Any]]:
    """Return a payment and its option: none is offered while the relayer is paused."""
    payment_id = (await api.create(ORDER))["paymentId"]
    (option,) = (await api.options(payment_id, [wallet.account]))["options"]
    return payment_id, option


async def confirmed(
    api: RestApi, wallet: EvmTestWallet, payment_id: str, option: dict[str, Any]
) -> None:
    answer = await api.confirm(payment_id, option["id"], wallet.execute_all(option))
    assert answer["status"] == "processing"


async def test_executor_reports_its_state(service):
    async with open_operator(service) as operator:
        executor = await executor_of(operator)
        (rail,) = service.app.rails.values()
        assert executor.id == f"eip155:31337:{rail.senders[0]}"
        assert (executor.paused, executor.HasField("paused_at")) == (False, False)
        assert executor.open_transactions == 0
        assert await healthy(operator)
        paused = await pause(operator)
        assert (paused.id, paused.paused) == (executor.id, True)
        assert await executor_of(operator) == paused == await pause(operator)
        chain = await chain_of(operator)
        assert (chain.healthy, chain.problem) == (False, "paused by the operator")
        (wrong,) = [
            condition
            for condition in chain.conditions
            if condition.state != condition_pb2.CONDITION_STATE_OK
        ]
        assert wrong.state == condition_pb2.CONDITION_STATE_NOTICE
        assert (wrong.name, wrong.reason) == ("settlement_paused", "paused by the operator")
        assert wrong.since.ToMicroseconds() >= paused.paused_at.ToMicroseconds()
        assert await resume(operator) == await resume(operator) == executor
        assert (await chain_of(operator)).problem == ""


async def test_accepted_payments_wait_while_their_executor_is_paused(service, rest, chain, wallet):
    async with open_operator(service) as operator:
        payment_id, option = await offered(rest, wallet)
        await pause(operator)
        await confirmed(rest, wallet, payment_id, option)
        # the page says that nothing could be sent yet
        state = await rest.call("GET", f"/{payment_id}/state", {})
        assert state["confirmations"]["seen"] == 0
        assert state["isDelayed"]
        held = await chain.balance(wallet.address)
        relayer = (await chain_of(operator)).relayer
        sent = await chain.ask("eth_getTransactionCount", relayer, "pending")
        # another wallet's options take blocks and turns of the settler, which sends nothing
        for _ in range(3):
            other = (await rest.create(ORDER))["paymentId"]
            assert (await rest.options(other, [EvmTestWallet().account]))["options"] == []
        assert (await rest.status(payment_id))["status"] == "processing"
        assert (await executor_of(operator)).open_transactions == 0
        assert await chain.ask("eth_getTransactionCount", relayer, "pending") == sent
        watch = asyncio.create_task(follow_payment(rest, payment_id))
        await resume(operator)
        assert (await asyncio.wait_for(watch, 20))[-1]["status"] == "succeeded"
        assert await chain.balance(wallet.address) == held - PRICE


async def test_executor_reports_how_long_its_coin_lasts(service, rest, chain, wallet):
    async with open_operator(service) as operator:
        before = (await executor_of(operator)).runway
        assert (before.transactions, before.HasField("items_left")) == (0, False)
        payment_id, option = await offered(rest, wallet)
        await confirmed(rest, wallet, payment_id, option)
        await follow_payment(rest, payment_id)
        # figures are at most a minute old
        service.app.clock.advance(61)

        async def settled() -> bool:
            return (await executor_of(operator)).runway.transactions == 1

        await wait_until(settled)
        executor = await executor_of(operator)
        runway = executor.runway
        assert (runway.account, runway.items) == (executor.id, 1)
        assert runway.asset == "eip155:31337/slip44:60"
        cost = int(runway.transaction_cost)
        assert 0 < cost < int(runway.balance)
        assert runway.items_left == int(runway.balance) // cost
        assert not runway.HasField("seconds_left")
        service.app.clock.advance(3600)

        async def paced() -> bool:
            return (await executor_of(operator)).runway.HasField("seconds_left")

        await wait_until(paced)


async def test_a_pause_survives_a_restart(tmp_path, session):
    wallet = EvmTestWallet()
    async with run_service(tmp_path / "home") as service, open_operator(service) as operator:
        env = service.home.read_demo_env()
        api = RestApi(session, env["FLORIN_BASE_URL"], env)
        payment_id, option = await offered(api, wallet)
        await pause(operator)
        await confirmed(api, wallet, payment_id, option)
    async with run_service(tmp_path / "home") as service, open_operator(service) as operator:
        env = service.home.read_demo_env()
        api = RestApi(session, env["FLORIN_BASE_URL"], env)
        chain = ChainClient(
            session, env["FLORIN_EVM_RPC_URL"], env["FLORIN_EVM_ASSET"].split(":")[-1]
        )
        held = await chain.balance(wallet.address)
        assert (await executor_of(operator)).paused
        assert not await healthy(operator)
        assert "paused by the operator" in (await chain_of(operator)).problem
        assert (await api.status(payment_id))["status"] == "processing"
        assert await chain.balance(wallet.address) == held
        await resume(operator)
        assert (await asyncio.wait_for(follow_payment(api, payment_id), 20))[-1][
            "status"
        ] == "succeeded"
        assert await chain.balance(wallet.address) == held - PRICE


async def test_chain_with_a_paused_relayer_is_not_offered(service, rest):
    """A signature for it could lapse before the operator resumes."""
    account = EvmTestWallet().account
    async with open_operator(service) as operator:
        payment_id = (await rest.create(ORDER))["paymentId"]
        assert len((await rest.options(payment_id, [account]))["options"]) == 1
        payment = await find_payment(service.app, payment_id)
        assert [way.asset.symbol for way in list_ways(service.app, payment)] == ["tUSD"]
        await pause(operator)
        assert (await rest.options(payment_id, [account]))["options"] == []
        # nor does the page list what it accepts
        assert list_ways(service.app, payment) == []
        await resume(operator)
        assert len((await rest.options(payment_id, [account]))["options"]) == 1
        assert len(list_ways(service.app, payment)) == 1


@pytest.mark.parametrize("method", ["PauseExecutor", "ResumeExecutor"])
@pytest.mark.parametrize(
    "executor_id", ["eip155:31337:0x" + "11" * 20, "eip155:1:{address}", "{address}", "everything"]
)
async def test_an_executor_that_is_not_there(service, method, executor_id):
    (rail,) = service.app.rails.values()
    request = getattr(system_pb2, f"{method}Request")(
        executor_id=executor_id.format(address=rail.senders[0])
    )
    async with open_operator(service) as operator:
        with pytest.raises(ApiCallError) as caught:
            await operator.call(method, request)
        assert (caught.value.http, caught.value.code) == (404, "executor_not_found")
        assert not (await executor_of(operator)).paused
