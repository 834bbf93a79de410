"""Test that servicers of every style behave alike in process and over a channel."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack

import grpc
import pytest
from florin.v1 import gateway_pb2, gateway_pb2_grpc, payment_pb2
from grpc_rest_gateway import CallError, LocalBackend, RemoteBackend

SERVICE = gateway_pb2.DESCRIPTOR.services_by_name["GatewayService"]
STATUS = SERVICE.methods_by_name["GetPaymentStatus"]
WATCH = SERVICE.methods_by_name["WatchPayment"]
ASK = payment_pb2.GetPaymentStatusRequest(payment_id="pay_1")
LOOK = payment_pb2.WatchPaymentRequest(payment_id="pay_1")
ANSWER = payment_pb2.GetPaymentStatusResponse(is_final=True)
CALLER = contextvars.ContextVar("caller", default="anonymous")


def event(version: int) -> payment_pb2.WatchPaymentResponse:
    return payment_pb2.WatchPaymentResponse(version=version)


class Recording(grpc.aio.ServerInterceptor):
    """An interceptor that records calls and sets the caller for the servicer."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    async def intercept_service(self, continuation, handler_call_details):
        self.log.append(f"{self.name} {handler_call_details.method.rpartition('/')[2]}")
        CALLER.set(dict(handler_call_details.invocation_metadata).get("api-key", "anonymous"))
        return await continuation(handler_call_details)


class Bench:
    """A back end of either kind with two handlers."""

    def __init__(self, kind: str, stack: AsyncExitStack) -> None:
        self.kind, self.stack = kind, stack
        self.log: list[str] = []

    async def around(self, unary=None, stream=None) -> LocalBackend | RemoteBackend:
        handlers = {}
        if unary is not None:
            handlers["GetPaymentStatus"] = grpc.unary_unary_rpc_method_handler(
                unary,
                request_deserializer=payment_pb2.GetPaymentStatusRequest.FromString,
                response_serializer=payment_pb2.GetPaymentStatusResponse.SerializeToString,
            )
        if stream is not None:
            handlers["WatchPayment"] = grpc.unary_stream_rpc_method_handler(
                stream,
                request_deserializer=payment_pb2.WatchPaymentRequest.FromString,
                response_serializer=payment_pb2.WatchPaymentResponse.SerializeToString,
            )
        interceptors = [Recording("outer", self.log), Recording("inner", self.log)]
        if self.kind == "local":
            local = LocalBackend(interceptors)
            local.add_registered_method_handlers(SERVICE.full_name, handlers)
            return local
        server = grpc.aio.server(interceptors=interceptors)
        generic = grpc.method_handlers_generic_handler(SERVICE.full_name, handlers)
        server.add_generic_rpc_handlers((generic,))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        self.stack.push_async_callback(server.stop, 0)
        remote = RemoteBackend(f"127.0.0.1:{port}")
        self.stack.push_async_callback(remote.close)
        return remote


@pytest.fixture(params=["local", "remote"])
async def bench(request):
    async with AsyncExitStack() as stack:
        yield Bench(request.param, stack)


async def call(backend, metadata=()):
    return await backend.get_unary(STATUS)(ASK, metadata, 5.0, "ipv4:127.0.0.1:5")


def watch(backend, metadata=(), request=LOOK):
    return backend.get_stream(WATCH)(request, metadata, 5.0, "ipv4:127.0.0.1:5")


async def failure_of(awaitable) -> CallError:
    with pytest.raises(CallError) as failed:
        await awaitable
    return failed.value


async def test_an_answer_comes_with_initial_and_trailing_metadata(bench):
    async def status(request, context):
        assert request == ASK
        assert dict(context.invocation_metadata())["api-key"] == "k"
        # the header turns the deadline into a duration, rounded up to the header's precision
        assert 0 < context.time_remaining() <= 5.1
        assert (context.code(), context.details(), context.trailing_metadata()) == (None, "", ())
        assert not context.cancelled()
        assert not context.done()
        await context.send_initial_metadata((("one", "1"),))
        context.set_trailing_metadata((("two", "2"),))
        return ANSWER

    answer, metadata = await call(await bench.around(status), (("api-key", "k"),))
    assert answer == ANSWER
    assert {("one", "1"), ("two", "2")} <= {tuple(entry) for entry in metadata}
    assert bench.log == ["outer GetPaymentStatus", "inner GetPaymentStatus"]


async def test_metadata_sent_at_both_ends_of_a_stream_is_received_once(bench):
    async def stream(request, context):
        await context.send_initial_metadata((("one", "1"),))
        yield event(1)
        context.set_trailing_metadata((("one", "1"), ("two", "2")))
        if request.payment_id == "refused":
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "no")

    backend = await bench.around(stream=stream)
    messages = watch(backend)
    assert [message.version async for message in messages] == [1]
    assert ours(await messages.metadata()) == [("one", "1"), ("two", "2")]
    await messages.close()
    messages = watch(backend, request=payment_pb2.WatchPaymentRequest(payment_id="refused"))
    assert (await anext(messages)).version == 1
    failure = await failure_of(anext(messages))
    assert ours(failure.metadata) == [("one", "1"), ("two", "2")]
    await messages.close()


class Brief(gateway_pb2_grpc.GatewayServiceServicer):
    """A server with its own threads, whose streams end at once."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def WatchPayment(self, request, context):
        context.add_callback(self.over.set)
        text = (("one", "1"),)
        context.send_initial_metadata(text)
        context.set_trailing_metadata(text)
        return iter(())


async def test_stream_that_ends_early_keeps_its_trailing_metadata():
    brief = Brief()
    with ThreadPoolExecutor(1) as threads:
        server = grpc.server(threads)
        gateway_pb2_grpc.add_GatewayServiceServicer_to_server(brief, server)
        remote = RemoteBackend(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
        server.start()
        try:
            for _ in range(5):
                brief.over.clear()
                messages = watch(remote)
                end = asyncio.ensure_future(anext(messages, "ended"))
                async with asyncio.timeout(5):
                    while not brief.over.is_set():
                        # sent by the event loop, which then sees only the end of the answer
                        await asyncio.sleep(0)
                        brief.over.wait(0.02)
                    assert await end == "ended"
                assert ours(await messages.metadata()) == [("one", "1")]
                await messages.close()
        finally:
            await remote.close()
            server.stop(None).wait()


def ours(metadata) -> list[tuple[str, str]]:
    """Return the servicers' own metadata, without gRPC's additions."""
    return [(key, value) for key, value in metadata if key in {"one", "two"}]


async def test_context_variables_reach_servicers_and_streams(bench):
    async def status(request, context):
        return payment_pb2.GetPaymentStatusResponse(poll_in_ms=len(CALLER.get()))

    async def stream(request, context):
        for _ in range(3):
            yield event(len(CALLER.get()))
            await asyncio.sleep(0)

    backend = await bench.around(status, stream)
    answer, _ = await call(backend, (("api-key", "four"),))
    assert answer.poll_in_ms == 4
    messages = watch(backend, (("api-key", "four"),))
    assert [message.version async for message in messages] == [4, 4, 4]
    await messages.close()


@pytest.mark.parametrize("swallowed", [False, True])
async def test_an_abort_ends_the_call_even_if_it_is_swallowed(bench, swallowed):
    async def status(request, context):
        context.set_trailing_metadata((("kept", "1"),))
        try:
            await context.abort(grpc.StatusCode.NOT_FOUND, "gone")
        except grpc.aio.AbortError:
            assert context.code() is grpc.StatusCode.NOT_FOUND
            if not swallowed:
                raise
        return ANSWER

    failure = await failure_of(call(await bench.around(status)))
    assert (failure.code, failure.message) == (grpc.StatusCode.NOT_FOUND, "gone")
    assert ("kept", "1") in {tuple(entry) for entry in failure.metadata}


async def test_a_code_that_is_set_refuses_the_answer(bench):
    async def status(request, context):
        context.set_code(grpc.StatusCode.ABORTED)
        context.set_details("no")
        return ANSWER

    failure = await failure_of(call(await bench.around(status)))
    assert (failure.code, failure.message) == (grpc.StatusCode.ABORTED, "no")


async def test_a_status_object_ends_the_call(bench):
    class Status(grpc.Status):
        code = grpc.StatusCode.RESOURCE_EXHAUSTED
        details = "later"
        trailing_metadata = (("x-bin", b"\0\xff"),)

    async def status(request, context):
        await context.abort_with_status(Status())

    failure = await failure_of(call(await bench.around(status)))
    assert failure.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert ("x-bin", b"\0\xff") in {tuple(entry) for entry in failure.metadata}


async def test_a_servicer_that_breaks_is_an_unknown_failure(bench):
    async def status(request, context):
        raise LookupError("secret")

    async def stream(request, context):
        yield event(1)
        raise LookupError("secret")

    backend = await bench.around(status, stream)
    assert (await failure_of(call(backend))).code is grpc.StatusCode.UNKNOWN
    messages = watch(backend)
    assert (await anext(messages)).version == 1
    assert (await failure_of(anext(messages))).code is grpc.StatusCode.UNKNOWN
    await messages.close()


async def test_an_unknown_method_is_unimplemented(bench):
    async def drop(continuation, details):
        return None

    async def status(request, context):
        return ANSWER

    backend = await bench.around(status)
    if bench.kind == "local":
        with pytest.raises(KeyError):
            backend.get_stream(WATCH)
        dropping = Recording("none", [])
        dropping.intercept_service = drop
        backend = LocalBackend([dropping])
        backend.add_registered_method_handlers(
            SERVICE.full_name, {"GetPaymentStatus": grpc.unary_unary_rpc_method_handler(status)}
        )
        failing = call(backend)
    else:
        failing = anext(watch(backend))
    assert (await failure_of(failing)).code is grpc.StatusCode.UNIMPLEMENTED


async def test_a_stream_may_be_written_by_a_coroutine(bench):
    async def stream(request, context):
        await context.write(event(1))
        await context.write(event(2))

    messages = watch(await bench.around(stream=stream))
    assert [message.version async for message in messages] == [1, 2]
    await messages.close()


async def test_a_coroutine_may_refuse_a_stream(bench):
    async def stream(request, context):
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, "no")

    messages = watch(await bench.around(stream=stream))
    assert (await failure_of(anext(messages))).code is grpc.StatusCode.PERMISSION_DENIED
    await messages.close()


async def test_a_closed_stream_is_cleaned_up_in_the_servicer(bench):
    cleaned = asyncio.Event()

    async def stream(request, context):
        try:
            yield event(1)
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    messages = watch(await bench.around(stream=stream))
    assert (await anext(messages)).version == 1
    await messages.close()
    async with asyncio.timeout(5):
        await cleaned.wait()


async def test_a_cancelled_call_is_cancelled_in_the_servicer(bench):
    entered, cancelled = asyncio.Event(), asyncio.Event()

    async def status(request, context):
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    task = asyncio.ensure_future(call(await bench.around(status)))
    async with asyncio.timeout(5):
        await entered.wait()
        task.cancel()
        await cancelled.wait()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_done_callback_runs_when_the_call_ends(bench):
    reported_event = asyncio.Event()

    async def status(request, context):
        context.add_done_callback(lambda _: reported_event.set())
        return ANSWER

    await call(await bench.around(status))
    async with asyncio.timeout(5):
        await reported_event.wait()


async def test_a_channel_knows_whether_its_server_is_there(bench):
    async def status(request, context):
        return ANSWER

    if bench.kind == "remote":
        assert await (await bench.around(status)).is_ready()
        nowhere = RemoteBackend("127.0.0.1:1")
        assert not await nowhere.is_ready(0.2)
        await nowhere.close()
