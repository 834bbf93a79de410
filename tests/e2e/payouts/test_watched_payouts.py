"""A refund and a payout are followed to their end over gRPC."""

from __future__ import annotations

import asyncio
from typing import Any, Self

import grpc
import pytest
import pytest_asyncio
from florin.v1 import (
    ledger_pb2,
    merchant_pb2_grpc,
    operator_pb2_grpc,
    payout_pb2,
    refund_pb2,
    system_pb2,
)

from tests.support.api import ApiCallError, grpc_metadata, to_api_call_error
from tests.support.json import to_json
from tests.support.open_responses import count_followed_payouts, wait_no_open_responses
from tests.support.service_harness import ORDER, ServiceHarness, open_service
from tests.support.until import wait_until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("watched"), confirmations=2) as desk:
        yield desk


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(desk):
    async with grpc.aio.insecure_channel(desk.service.grpc.operator_target) as channel:
        yield operator_pb2_grpc.OperatorServiceStub(channel)


def token(desk: ServiceHarness) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {desk.service.secrets.operator_token}"),)


def watch_refund(
    desk: ServiceHarness, payment_id: str, metadata: Any = None, refund_id: str = ""
) -> Any:
    request = refund_pb2.WatchRefundRequest(payment_id=payment_id, refund_id=refund_id)
    stub = merchant_pb2_grpc.MerchantServiceStub(desk.channel)
    return stub.WatchRefund(request, metadata=metadata or desk.grpc.merchant, timeout=30)


def watch_payout(desk: ServiceHarness, operator: Any, payout_id: str, metadata: Any = None) -> Any:
    request = payout_pb2.WatchPayoutRequest(payout_id=payout_id)
    return operator.WatchPayout(request, metadata=metadata or token(desk), timeout=30)


async def read_to_end(call: Any) -> None:
    """Read the rest of a stream that was read before; AioRpcError unless it ends with OK."""
    while await call.read() is not grpc.aio.EOF:
        pass


async def refusal(stream: Any) -> tuple[int, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stream.read()
    error = to_api_call_error(caught.value)
    return error.http, error.code


async def paid(desk: ServiceHarness) -> str:
    offer = await desk.offer()
    await desk.confirm(offer)
    last = asyncio.create_task(desk.wait_final(offer.payment_id))
    await wait_until(last.done, meanwhile=desk.chain.mine)
    assert last.result()["status"] == "succeeded"
    return offer.payment_id


class Paused:
    """The treasury's key is paused, so that requested payouts wait."""

    def __init__(self, desk: ServiceHarness, operator: Any) -> None:
        self._desk, self._operator = desk, operator

    async def _all(self) -> list[str]:
        request = system_pb2.ListExecutorsRequest()
        list_executors = await self._operator.ListExecutors(request, metadata=token(self._desk))
        return [executor.id for executor in list_executors.executors]

    async def __aenter__(self) -> Self:
        for text in await self._all():
            request = system_pb2.PauseExecutorRequest(executor_id=text)
            await self._operator.PauseExecutor(request, metadata=token(self._desk))
        return self

    async def __aexit__(self, *_: object) -> None:
        for text in await self._all():
            request = system_pb2.ResumeExecutorRequest(executor_id=text)
            await self._operator.ResumeExecutor(request, metadata=token(self._desk))


async def test_a_refund_is_followed_until_the_buyer_has_it(desk, operator):
    payment_id = await paid(desk)
    async with Paused(desk, operator):
        request = await desk.grpc.refund(payment_id)
        stream = watch_refund(desk, payment_id)
        refunds = aiter(stream)
        payouts = aiter(watch_payout(desk, operator, request["refundId"]))
        states = [to_json((await anext(refunds)).refund)]
        money = [(await anext(payouts)).payout]
    states.append(to_json((await anext(refunds)).refund))
    money.append((await anext(payouts)).payout)
    await desk.chain.mine()
    states += [to_json(refund.refund) async for refund in refunds]
    money += [payout.payout async for payout in payouts]
    assert [state["status"] for state in states] == ["pending", "processing", "succeeded"]
    assert {state["refundId"] for state in states} == {request["refundId"]}
    assert [state.get("txId") for state in states] == [None, states[2]["txId"], states[2]["txId"]]
    assert "completedAt" not in states[1]
    assert states[-1] == (await desk.grpc.detail(payment_id))["refund"]
    assert await stream.code() is grpc.StatusCode.OK
    kinds = [payout_pb2.PayoutStatus.Name(item.status) for item in money]
    assert kinds == [f"PAYOUT_STATUS_{name}" for name in ("WAITING", "SUBMITTED", "DONE")]
    assert {(item.payout_id, item.payment_id) for item in money} == {
        (request["refundId"], payment_id)
    }
    assert money[-1].tx_id == states[-1]["txId"]
    # a later watcher gets the final state, marked as final
    late = watch_refund(desk, payment_id)
    assert [to_json(item.refund) async for item in late] == [states[-1]]


async def test_a_refund_that_the_operator_calls_off_has_failed(desk, operator):
    payment_id = await paid(desk)
    async with Paused(desk, operator):
        request = await desk.grpc.refund(payment_id)
        stream = aiter(watch_refund(desk, payment_id))
        payout = aiter(watch_payout(desk, operator, request["refundId"]))
        assert to_json((await anext(stream)).refund)["status"] == "pending"
        assert (await anext(payout)).payout.status == payout_pb2.PAYOUT_STATUS_WAITING
        refuse = payout_pb2.RefusePayoutRequest(payout_id=request["refundId"])
        await operator.RefusePayout(refuse, metadata=token(desk))
        assert [to_json(item.refund)["status"] async for item in stream] == ["failed"]
        (last,) = [item.payout async for item in payout]
        assert last.status == payout_pb2.PAYOUT_STATUS_REFUSED


async def test_older_refund_is_followed_by_its_id(desk, operator):
    payment_id = await paid(desk)
    part = {"unit": "iso4217/USD", "value": "400"}
    async with Paused(desk, operator):
        older, newer = [await desk.grpc.refund(payment_id, amount=part) for _ in range(2)]
        stream = aiter(watch_refund(desk, payment_id, refund_id=older["refundId"]))
        assert to_json((await anext(stream)).refund)["status"] == "pending"
        # the newer one ends, which the stream of the older does not report
        refuse = payout_pb2.RefusePayoutRequest(payout_id=newer["refundId"])
        await operator.RefusePayout(refuse, metadata=token(desk))
        newest = [to_json(item.refund) async for item in watch_refund(desk, payment_id)]
        assert [(item["refundId"], item["status"]) for item in newest] == [
            (newer["refundId"], "failed")
        ]
    states = [to_json((await anext(stream)).refund)]
    await desk.chain.mine()
    states += [to_json(item.refund) async for item in stream]
    assert {state["refundId"] for state in states} == {older["refundId"]}
    assert [state["status"] for state in states] == ["processing", "succeeded"]
    other = await paid(desk)
    await desk.grpc.refund(other)
    for unknown in (older["refundId"], "rfnd_unknown"):
        stream = watch_refund(desk, other, refund_id=unknown)
        assert await refusal(stream) == (400, "invalid_params")


async def test_amount_of_a_failed_refund_is_refunded_by_another(desk, operator):
    """Reads, the chain and the books show both."""
    payment_id = await paid(desk)
    detail = await desk.rest.detail(payment_id)
    payer, total = detail["buyer"]["accountCaip10"], detail["info"]["optionAmount"]
    held = await desk.chain.balance(payer.rpartition(":")[2])
    async with Paused(desk, operator):
        failed = await desk.rest.refund(payment_id)
        refuse = payout_pb2.RefusePayoutRequest(payout_id=failed["refundId"])
        await operator.RefusePayout(refuse, metadata=token(desk))
    detail = await desk.rest.detail(payment_id)
    assert detail["refund"]["status"] == "failed"
    assert detail["refunded"]["amount"]["value"] == "0"
    assert detail["refunded"]["refundable"]["value"] == total["value"]
    # a repeated request must not pay again after the operator called it off
    with pytest.raises(ApiCallError) as caught:
        await desk.rest.refund(payment_id)
    assert (caught.value.http, caught.value.code) == (409, "already_refunded")
    amount = {"unit": total["unit"], "value": total["value"]}
    again = await desk.rest.refund(payment_id, amount=amount)
    last = asyncio.create_task(desk.wait_refunded(payment_id))
    await wait_until(last.done, meanwhile=desk.chain.mine)
    detail = await desk.rest.detail(payment_id)
    assert [(refund["refundId"], refund["status"]) for refund in detail["refunds"]] == [
        (failed["refundId"], "failed"),
        (again["refundId"], "succeeded"),
    ]
    assert detail["refunded"]["amount"]["value"] == total["value"]
    back = await desk.chain.balance(payer.rpartition(":")[2]) - held
    assert back == int(total["value"])
    request = ledger_pb2.ListEntriesRequest(payment_id=payment_id)
    booked = (await operator.ListEntries(request, metadata=token(desk))).entries
    assert [item.journal for item in booked if item.journal.startswith("refund:")] == [
        f"refund:{again['refundId']}"
    ]


async def test_a_simulated_refund_is_over_at_once(desk):
    payment_id = (await desk.grpc.create(ORDER))["paymentId"]
    await desk.grpc.simulate(payment_id, "succeeded")
    await desk.grpc.refund(payment_id)
    (only,) = [to_json(item.refund) async for item in watch_refund(desk, payment_id)]
    assert only["status"] == "succeeded"


async def test_watch_of_a_missing_refund_or_payout_is_refused(desk, operator):
    payment_id = (await desk.grpc.create(ORDER))["paymentId"]
    assert await refusal(watch_refund(desk, payment_id)) == (400, "invalid_state")
    assert await refusal(watch_refund(desk, "pay_unknown")) == (404, "payment_not_found")
    assert await refusal(watch_refund(desk, "")) == (404, "payment_not_found")
    assert await refusal(watch_payout(desk, operator, "pout_unknown")) == (400, "invalid_params")
    assert await refusal(watch_payout(desk, operator, "")) == (400, "params_validation")


async def test_refund_is_watched_only_by_its_merchant(desk, operator):
    payment_id = (await desk.grpc.create(ORDER))["paymentId"]
    await desk.grpc.simulate(payment_id, "succeeded")
    refund_id = (await desk.grpc.refund(payment_id))["refundId"]
    other = await desk.tenant()
    theirs = grpc_metadata(other.headers)
    assert await refusal(watch_refund(desk, payment_id, theirs)) == (404, "payment_not_found")
    assert (await refusal(watch_refund(desk, payment_id, desk.grpc.wallet)))[0] == 401
    wrong = (("authorization", "Bearer x"),)
    assert await refusal(watch_payout(desk, operator, refund_id, wrong)) == (401, "unauthorized")
    public = operator_pb2_grpc.OperatorServiceStub(desk.channel)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await watch_payout(desk, public, refund_id).read()
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_stream_that_is_left_leaves_nothing_behind(desk, operator):
    payment_id = await paid(desk)
    async with Paused(desk, operator):
        await desk.grpc.refund(payment_id)
        stream = watch_refund(desk, payment_id)
        await stream.read()
        assert count_followed_payouts(desk) == 1
        stream.cancel()
        await wait_until(lambda: count_followed_payouts(desk), 0)
    await wait_no_open_responses(desk)


async def test_streams_end_unavailable_with_the_service_and_not_as_if_they_were_final(tmp_path):
    async with (
        open_service(tmp_path, confirmations=2) as desk,
        grpc.aio.insecure_channel(desk.service.grpc.operator_target) as channel,
    ):
        operator = operator_pb2_grpc.OperatorServiceStub(channel)
        payment_id = await paid(desk)
        async with Paused(desk, operator):
            refund_id = (await desk.grpc.refund(payment_id))["refundId"]
            streams = watch_refund(desk, payment_id), watch_payout(desk, operator, refund_id)
            for stream in streams:
                await stream.read()
        stop = asyncio.create_task(desk.service.stop())
        for stream in streams:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await read_to_end(stream)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
            assert to_api_call_error(caught.value).http == 503
        await stop
