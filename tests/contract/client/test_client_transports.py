"""Test the Python client against a failing server: which calls it retries, and how."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from florin.v1 import listing_pb2, merchant_pb2, merchant_pb2_grpc, payment_pb2, refund_pb2
from florin_client import DeadlineError, RateLimitedError, Retries, UnavailableError
from florin_client.aio import AsyncMerchant, AsyncTransport
from florin_client.setup import ClientConfig
from florin_client.sync import Merchant, SyncTransport
from florin_server.api.server.errors import abort, to_grpc_status
from florin_server.domain.errors import ApiError, ErrorCode

from tests.support.authority import CertificateAuthority

ORDER: Any = {"amount": ("iso4217/USD", 1250)}
DOWN = ApiError(ErrorCode.INTERNAL_ERROR, unavailable=True)
SUCCEEDED = payment_pb2.PAYMENT_STATUS_SUCCEEDED


def state(version: int, *, final: bool = False) -> payment_pb2.WatchPaymentResponse:
    status = SUCCEEDED if final else payment_pb2.PAYMENT_STATUS_PROCESSING
    status_response = payment_pb2.GetPaymentStatusResponse(status=status, is_final=final)
    return payment_pb2.WatchPaymentResponse(version=version, payment=status_response)


@dataclass
class Failing:
    """A server that plays a list in order: an error, a response, or a closed connection."""

    says: list[Any]
    sent: list[dict[str, str]] = field(default_factory=list)
    requests: list[Any] = field(default_factory=list)

    async def answer(self, request: Any, context: Any) -> Any:
        self.note(request, context)
        return await self.say(self.says.pop(0), context)

    async def stream(self, request: Any, context: Any) -> AsyncIterator[Any]:
        self.note(request, context)
        while self.says:
            text = self.says.pop(0)
            if text is StopIteration:
                return
            yield await self.say(text, context)

    def note(self, request: Any, context: Any) -> None:
        self.requests.append(request)
        self.sent.append(dict(context.invocation_metadata()))

    async def say(self, text: Any, context: Any) -> Any:
        if isinstance(text, ApiError):
            await abort(context, to_grpc_status(text), ())
        if text is asyncio.Future:
            await asyncio.Future()
        return text


@dataclass
class Lab:
    """A client of either kind; its waits are recorded and cost no time."""

    server: Failing
    kind: str
    setup: ClientConfig
    waited: list[float] = field(default_factory=list)

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)

    async def await_(self, seconds: float) -> None:
        self.waited.append(seconds)

    async def ask(self, name: str, *args: Any, **options: Any) -> Any:
        """Call a merchant method; return its response, or all items of a stream or list."""
        if self.kind == "sync":
            return await asyncio.to_thread(self._ask, name, args, options)
        transport = AsyncTransport(self.setup, self.await_)
        try:
            result = getattr(AsyncMerchant(transport), name)(*args, **options)
            return [item async for item in result] if hasattr(result, "__aiter__") else await result
        finally:
            await transport.close()

    def _ask(self, name: str, args: Any, options: Any) -> Any:
        transport = SyncTransport(self.setup, self.wait)
        try:
            result = getattr(Merchant(transport), name)(*args, **options)
            return list(result) if hasattr(result, "__iter__") else result
        finally:
            transport.close()


@asynccontextmanager
async def served(
    failing: Failing, credentials: grpc.ServerCredentials | None = None
) -> AsyncIterator[str]:
    server = grpc.aio.server()

    class Servicer(merchant_pb2_grpc.MerchantServiceServicer):
        def __getattribute__(self, name: str) -> Any:
            if name in {"WatchPayment", "WatchRefund"}:
                return failing.stream
            return failing.answer if name[0].isupper() else super().__getattribute__(name)

    Servicer.__abstractmethods__ = frozenset()
    merchant_pb2_grpc.add_MerchantServiceServicer_to_server(Servicer(), server)
    place = "127.0.0.1:0"
    port = (
        server.add_secure_port(place, credentials)
        if credentials
        else server.add_insecure_port(place)
    )
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


@pytest.fixture(params=["sync", "aio"])
async def lab(request) -> AsyncIterator[Callable[..., Lab]]:
    failing = Failing([])
    async with served(failing) as target:

        def build_lab(*says: Any, **more: Any) -> Lab:
            failing.says = list(says)
            values = {"timeout_s": 30.0, "retries": Retries(), **more}
            return Lab(
                failing, request.param, ClientConfig(target, {"api-key": "k"}, True, None, **values)
            )

        yield build_lab


async def test_create_payment_is_retried_with_the_same_idempotency_key(lab):
    created = merchant_pb2.CreatePaymentResponse(payment_id="pay_1")
    item = lab(DOWN, DOWN, created)
    assert await item.ask("create_payment", **ORDER) == created
    assert len(item.server.sent) == 3
    (key,) = {sent["idempotency-key"] for sent in item.server.sent}
    (request_id,) = {sent["request-id"] for sent in item.server.sent}
    assert key
    assert request_id
    assert [sent["api-key"] for sent in item.server.sent] == ["k"] * 3
    assert 0 < item.waited[0] <= 0.2 < sum(item.waited) <= 0.6
    again = lab(created)
    await again.ask("create_payment", **ORDER)
    assert again.server.sent[-1]["idempotency-key"] != key


async def test_the_servers_own_time_is_waited_for(lab):
    item = lab(
        ApiError(ErrorCode.RATE_LIMITED, retry_after_s=7),
        merchant_pb2.PaymentDetail(payment_id="pay_1"),
    )
    assert (await item.ask("get_payment", "pay_1")).payment_id == "pay_1"
    assert item.waited == [7]
    assert "idempotency-key" not in item.server.sent[0]


async def test_rate_limited_is_raised_when_the_timeout_leaves_no_retry(lab):
    item = lab(ApiError(ErrorCode.RATE_LIMITED, retry_after_s=7))
    with pytest.raises(RateLimitedError) as caught:
        await item.ask("get_payment", "pay_1", timeout=5)
    assert (caught.value.code, caught.value.retry_after_s) == ("rate_limited", 7)
    assert item.waited == []


async def test_refusal_is_raised_without_a_retry(lab):
    item = lab(ApiError(ErrorCode.PAYMENT_NOT_FOUND))
    with pytest.raises(Exception, match="Payment not found") as caught:
        await item.ask("get_payment", "pay_1")
    assert type(caught.value).__name__ == "NotFoundError"
    assert (len(item.server.requests), item.waited) == (1, [])


async def test_unavailable_server_error_carries_the_idempotency_key(lab):
    item = lab(*[DOWN] * 3, retries=Retries(patience_s=0))
    with pytest.raises(UnavailableError) as caught:
        await item.ask("create_payment", **ORDER)
    assert caught.value.idempotency_key == item.server.sent[0]["idempotency-key"]
    assert len(item.server.requests) == 1


async def test_no_answer_ends_with_the_timeout(lab):
    item = lab(asyncio.Future)
    with pytest.raises(DeadlineError) as caught:
        await item.ask("create_payment", **ORDER, timeout=0.1)
    assert caught.value.idempotency_key
    assert caught.value.request_id


async def test_stream_resumes_after_the_last_version_and_yields_each_change_once(lab):
    item = lab(state(0), state(1), DOWN, state(1), DOWN, state(2, final=True), StopIteration)
    result = await item.ask("watch_payment", "pay_1")
    assert [update.version for update in result] == [0, 1, 2]
    requests = [(r.HasField("after_version"), r.after_version) for r in item.server.requests]
    assert requests == [(False, 0), (True, 1), (True, 1)]


async def test_a_stream_that_is_lost_after_the_final_state_is_over(lab):
    item = lab(state(0), state(1, final=True), DOWN)
    assert len(await item.ask("watch_payment", "pay_1")) == 2
    assert (len(item.server.requests), item.waited) == (1, [])


async def test_a_stream_that_ends_too_early_is_taken_up(lab):
    item = lab(state(0), StopIteration, StopIteration, state(1, final=True), StopIteration)
    result = await item.ask("watch_payment", "pay_1")
    assert [update.version for update in result] == [0, 1]
    assert Counter(item.waited) == {0.2: 2}


async def test_the_final_status_is_waited_for(lab):
    item = lab(state(0), DOWN, state(1, final=True), StopIteration)
    assert (await item.ask("wait_final", "pay_1")).status == SUCCEEDED
    with pytest.raises(DeadlineError):
        await lab(state(0), asyncio.Future).ask("wait_final", "pay_1", timeout=0.1)


async def test_client_waits_for_payments_of_several_merchants(lab):
    item = lab(state(0), DOWN, state(1, final=True), StopIteration)
    values = {"merchant_id": "mrch_2", "timeout": 20}
    assert (await item.ask("wait_final", "pay_1", **values)).status == SUCCEEDED
    assert [sent["merchant-id"] for sent in item.server.sent] == ["mrch_2"] * 2
    paid = refund_pb2.Refund(status=refund_pb2.REFUND_STATUS_SUCCEEDED)
    item = lab(refund_pb2.WatchRefundResponse(refund=paid), StopIteration)
    assert (await item.ask("wait_refund_final", "pay_1", **values)).status == paid.status
    assert item.server.sent[-1]["merchant-id"] == "mrch_2"


def page(*ids: str, **more: Any) -> listing_pb2.ListPaymentsResponse:
    rows = [listing_pb2.PaymentRow(payment_id=text) for text in ids]
    return listing_pb2.ListPaymentsResponse(data=rows, **more)


async def test_a_list_is_read_page_by_page(lab):
    item = lab(page("a", "b", next_cursor="2"), DOWN, page("c"))
    rows = await item.ask("list_merchant_payments", limit=2)
    assert [row.payment_id for row in rows] == ["a", "b", "c"]
    assert [request.cursor for request in item.server.requests] == ["", "2", "2"]


@pytest.mark.parametrize("kind", ["sync", "aio"])
async def test_it_speaks_tls_to_whom_its_authority_vouches_for(tmp_path, kind):
    ours, theirs = (CertificateAuthority(tmp_path, name) for name in ("ours", "theirs"))
    certificate, key = ours.issue("127.0.0.1")
    credentials = grpc.ssl_server_credentials([(key.read_bytes(), certificate.read_bytes())])
    detail = merchant_pb2.PaymentDetail(payment_id="pay_1")
    once = {"timeout_s": 10.0, "retries": Retries(patience_s=0)}
    async with served(Failing([detail]), credentials) as target:
        for authority in (theirs, ours):
            setup = ClientConfig(target, {"api-key": "k"}, False, authority.ca.read_bytes(), **once)
            asking = Lab(Failing([]), kind, setup).ask("get_payment", "pay_1")
            if authority is ours:
                assert await asking == detail
                continue
            with pytest.raises(UnavailableError):
                await asking
