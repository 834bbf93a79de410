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

from tests.support.api import Refused, grpc_metadata, refused
from tests.support.desk import ORDER, Desk, opened
from tests.support.held_answers import nothing_held
from tests.support.json import plain
from tests.support.until import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    async with opened(tmp_path_factory.mktemp("watched"), confirmations=2) as desk:
        yield desk


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(desk):
    async with grpc.aio.insecure_channel(desk.service.grpc.operator_target) as channel:
        yield operator_pb2_grpc.OperatorServiceStub(channel)


def token(desk: Desk) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {desk.service.secrets.operator_token}"),)


def watch_refund(desk: Desk, payment_id: str, metadata: Any = None, refund_id: str = "") -> Any:
    request = refund_pb2.WatchRefundRequest(payment_id=payment_id, refund_id=refund_id)
    stub = merchant_pb2_grpc.MerchantServiceStub(desk.channel)
    return stub.WatchRefund(request, metadata=metadata or desk.grpc.merchant, timeout=30)


def watch_payout(desk: Desk, operator: Any, payout_id: str, metadata: Any = None) -> Any:
    request = payout_pb2.WatchPayoutRequest(payout_id=payout_id)
    return operator.WatchPayout(request, metadata=metadata or token(desk), timeout=30)


async def read_to_end(call: Any) -> None:
    """Read a stream of which messages were read before; AioRpcError unless it ends with OK."""
    while await call.read() is not grpc.aio.EOF:
        pass


async def refusal(stream: Any) -> tuple[int, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stream.read()
    error = refused(caught.value)
    return error.http, error.code


async def paid(desk: Desk) -> str:
    offer = await desk.offer()
    await desk.confirm(offer)
    last = asyncio.create_task(desk.final(offer.payment_id))
    await until(last.done, meanwhile=desk.chain.mine)
    assert last.result()["status"] == "succeeded"
    return offer.payment_id


class Paused:
    """The treasury's key rests, so that what is asked for waits."""

    def __init__(self, desk: Desk, operator: Any) -> None:
        self._desk, self._operator = desk, operator

    async def _all(self) -> list[str]:
        request = system_pb2.ListExecutorsRequest()
        found = await self._operator.ListExecutors(request, metadata=token(self._desk))
        return [one.id for one in found.executors]

    async def __aenter__(self) -> Self:
        for one in await self._all():
            request = system_pb2.PauseExecutorRequest(executor_id=one)
            await self._operator.PauseExecutor(request, metadata=token(self._desk))
        return self

    async def __aexit__(self, *_: object) -> None:
        for one in await self._all():
            request = system_pb2.ResumeExecutorRequest(executor_id=one)
            await self._operator.ResumeExecutor(request, metadata=token(self._desk))


async def test_a_refund_is_followed_until_the_buyer_has_it(desk, operator):
    payment_id = await paid(desk)
    async with Paused(desk, operator):
        asked = await desk.grpc.refund(payment_id)
        stream = watch_refund(desk, payment_id)
        refunds = aiter(stream)
        payouts = aiter(watch_payout(desk, operator, asked["refundId"]))
        states = [plain((await anext(refunds)).refund)]
        money = [(await anext(payouts)).payout]
    states.append(plain((await anext(refunds)).refund))
    money.append((await anext(payouts)).payout)
    await desk.chain.mine()
    states += [plain(one.refund) async for one in refunds]
    money += [one.payout async for one in payouts]
    assert [one["status"] for one in states] == ["pending", "processing", "succeeded"]
    assert {one["refundId"] for one in states} == {asked["refundId"]}
    assert [one.get("txId") for one in states] == [None, states[2]["txId"], states[2]["txId"]]
    assert "completedAt" not in states[1]
    assert states[-1] == (await desk.grpc.detail(payment_id))["refund"]
    assert await stream.code() is grpc.StatusCode.OK
    kinds = [payout_pb2.PayoutStatus.Name(one.status) for one in money]
    assert kinds == [f"PAYOUT_STATUS_{name}" for name in ("WAITING", "SUBMITTED", "DONE")]
    assert {(one.payout_id, one.payment_id) for one in money} == {(asked["refundId"], payment_id)}
    assert money[-1].tx_id == states[-1]["txId"]
    # who comes later is told the end, and that it is the end
    late = watch_refund(desk, payment_id)
    assert [plain(one.refund) async for one in late] == [states[-1]]


async def test_a_refund_that_the_operator_calls_off_has_failed(desk, operator):
    payment_id = await paid(desk)
    async with Paused(desk, operator):
        asked = await desk.grpc.refund(payment_id)
        stream = aiter(watch_refund(desk, payment_id))
        payout = aiter(watch_payout(desk, operator, asked["refundId"]))
        assert plain((await anext(stream)).refund)["status"] == "pending"
        assert (await anext(payout)).payout.status == payout_pb2.PAYOUT_STATUS_WAITING
        refuse = payout_pb2.RefusePayoutRequest(payout_id=asked["refundId"])
        await operator.RefusePayout(refuse, metadata=token(desk))
        assert [plain(one.refund)["status"] async for one in stream] == ["failed"]
        (last,) = [one.payout async for one in payout]
        assert last.status == payout_pb2.PAYOUT_STATUS_REFUSED


async def test_older_refund_is_followed_by_its_id(desk, operator):
    payment_id = await paid(desk)
    part = {"unit": "iso4217/USD", "value": "400"}
    async with Paused(desk, operator):
        older, newer = [await desk.grpc.refund(payment_id, amount=part) for _ in range(2)]
        stream = aiter(watch_refund(desk, payment_id, refund_id=older["refundId"]))
        assert plain((await anext(stream)).refund)["status"] == "pending"
        # the newer one ends, which the stream of the older does not report
        refuse = payout_pb2.RefusePayoutRequest(payout_id=newer["refundId"])
        await operator.RefusePayout(refuse, metadata=token(desk))
        newest = [plain(one.refund) async for one in watch_refund(desk, payment_id)]
        assert [(one["refundId"], one["status"]) for one in newest] == [
            (newer["refundId"], "failed")
        ]
    states = [plain((await anext(stream)).refund)]
    await desk.chain.mine()
    states += [plain(one.refund) async for one in stream]
    assert {one["refundId"] for one in states} == {older["refundId"]}
    assert [one["status"] for one in states] == ["processing", "succeeded"]
    other = await paid(desk)
    await desk.grpc.refund(other)
    for unknown in (older["refundId"], "rfnd_unknown"):
        stream = watch_refund(desk, other, refund_id=unknown)
        assert await refusal(stream) == (400, "invalid_params")


async def test_amount_of_a_failed_refund_is_refunded_by_another(desk, operator):
    """Reads, the chain and the books tell both."""
    payment_id = await paid(desk)
    detail = await desk.rest.detail(payment_id)
    payer, whole = detail["buyer"]["accountCaip10"], detail["info"]["optionAmount"]
    held = await desk.chain.balance(payer.rpartition(":")[2])
    async with Paused(desk, operator):
        failed = await desk.rest.refund(payment_id)
        refuse = payout_pb2.RefusePayoutRequest(payout_id=failed["refundId"])
        await operator.RefusePayout(refuse, metadata=token(desk))
    detail = await desk.rest.detail(payment_id)
    assert detail["refund"]["status"] == "failed"
    assert detail["refunded"]["amount"]["value"] == "0"
    assert detail["refunded"]["refundable"]["value"] == whole["value"]
    # a repeated request must not pay again what the operator called off
    with pytest.raises(Refused) as caught:
        await desk.rest.refund(payment_id)
    assert (caught.value.http, caught.value.code) == (409, "already_refunded")
    amount = {"unit": whole["unit"], "value": whole["value"]}
    again = await desk.rest.refund(payment_id, amount=amount)
    last = asyncio.create_task(desk.refunded(payment_id))
    await until(last.done, meanwhile=desk.chain.mine)
    detail = await desk.rest.detail(payment_id)
    assert [(one["refundId"], one["status"]) for one in detail["refunds"]] == [
        (failed["refundId"], "failed"),
        (again["refundId"], "succeeded"),
    ]
    assert detail["refunded"]["amount"]["value"] == whole["value"]
    back = await desk.chain.balance(payer.rpartition(":")[2]) - held
    assert back == int(whole["value"])
    request = ledger_pb2.ListEntriesRequest(payment_id=payment_id)
    booked = (await operator.ListEntries(request, metadata=token(desk))).entries
    assert [one.journal for one in booked if one.journal.startswith("refund:")] == [
        f"refund:{again['refundId']}"
    ]


async def test_a_simulated_refund_is_over_at_once(desk):
    payment_id = (await desk.grpc.create(ORDER))["paymentId"]
    await desk.grpc.simulate(payment_id, "succeeded")
    await desk.grpc.refund(payment_id)
    (only,) = [plain(one.refund) async for one in watch_refund(desk, payment_id)]
    assert only["status"] == "succeeded"


async def test_what_is_not_there_is_refused(desk, operator):
    payment_id = (await desk.grpc.create(ORDER))["paymentId"]
    assert await refusal(watch_refund(desk, payment_id)) == (400, "invalid_state")
    assert await refusal(watch_refund(desk, "pay_unknown")) == (404, "payment_not_found")
    assert await refusal(watch_refund(desk, "")) == (404, "payment_not_found")
    assert await refusal(watch_payout(desk, operator, "pout_unknown")) == (400, "invalid_params")
    assert await refusal(watch_payout(desk, operator, "")) == (400, "params_validation")


async def test_refunds_are_told_to_their_merchant_only(desk, operator):
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
        assert desk.service.app.payouts.followers == 1
        stream.cancel()
        await until(lambda: desk.service.app.payouts.followers, 0)
    await nothing_held(desk)


async def test_streams_end_unavailable_with_the_service_and_not_as_if_they_were_final(tmp_path):
    async with (
        opened(tmp_path, confirmations=2) as desk,
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
            assert refused(caught.value).http == 503
        await stop
