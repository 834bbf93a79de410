"""The form of gRPC metadata: ambiguous metadata is refused, unknown metadata ignored."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from florin.v1 import gateway_pb2_grpc, payment_pb2
from florin_server.api.server import metadata
from florin_server.domain.errors import ApiError
from google.rpc import code_pb2, error_details_pb2, status_pb2

from tests.support.api import to_api_call_error
from tests.support.service_harness import ServiceHarness

UNKNOWN = (404, "payment_not_found")
PARAMS, NOT_ASCII = (400, "invalid_params"), (400, "header_not_ascii")

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def get_refusal(desk: ServiceHarness, *sent: tuple[str, str | bytes]) -> tuple[int, str]:
    """Return the refusal of a call with this metadata, besides a wallet's own."""
    stub = gateway_pb2_grpc.GatewayServiceStub(desk.channel)
    request = payment_pb2.GetPaymentStatusRequest(payment_id="pay_0")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.GetPaymentStatus(request, metadata=(*desk.grpc.wallet, *sent))
    error = to_api_call_error(caught.value)
    return error.http, error.code


def form(*sent: tuple[str, str | bytes]) -> tuple[int, str] | None:
    """Return the server's refusal of metadata that this library's clients never send, or None."""
    try:
        metadata.parse_metadata(sent)
    except ApiError as error:
        return error.http_status, str(error.code)
    return None


@pytest.mark.parametrize("name", sorted(metadata.KNOWN_KEYS))
async def test_duplicate_reserved_metadata_key_is_refused(desk, name):
    assert await get_refusal(desk, (name, "x"), (name, "x")) == PARAMS
    # an empty one counts
    assert form((name, ""), (name, "x")) == PARAMS


async def test_unknown_names_may_come_twice_and_hold_anything(desk):
    assert await get_refusal(desk, ("x-other", "a"), ("x-other", "b")) == UNKNOWN
    assert (
        await get_refusal(desk, ("x-other-bin", b"\x00\xff\r\n"), ("x-other-bin", b"")) == UNKNOWN
    )


@pytest.mark.parametrize("name", sorted(metadata.KNOWN_KEYS - {"request-id"}))
async def test_values_are_printable_ascii(name):
    for value in ("\x00", "a\x00b", "a\r\nb", "a\n", "\t", "\x7f", "café", b"caf\xc3\xa9", b"\xff"):
        assert form((name, value)) == NOT_ASCII, value
    assert form((name, "".join(map(chr, range(0x20, 0x7F))))) is None


async def test_an_id_of_the_callers_own_that_cannot_be_repeated_is_replaced(desk):
    assert form(("request-id", b"caf\xc3\xa9")) is None
    stub = gateway_pb2_grpc.GatewayServiceStub(desk.channel)
    request = payment_pb2.GetPaymentStatusRequest(payment_id="pay_0")
    for sent, stored in (("mine-1", True), ("not mine", False), ("x" * 65, False)):
        call = stub.GetPaymentStatus(request, metadata=(*desk.grpc.wallet, ("request-id", sent)))
        with pytest.raises(grpc.aio.AioRpcError):
            await call
        answered = dict(await call.trailing_metadata())["request-id"]
        assert (answered == sent) is stored
        assert metadata.find_request_id([("request-id", answered)]) == answered


@pytest.mark.parametrize("name", ["api-key", "app-id", "pay-version", "idempotency-key"])
async def test_binary_variant_of_a_reserved_key_is_ignored(desk, name):
    assert await get_refusal(desk, (f"{name}-bin", b"x"), (f"{name}-bin", b"\x00")) == UNKNOWN


def status(code: str, domain: str = "florin", **facts: str) -> bytes:
    created_status = status_pb2.Status(code=code_pb2.INVALID_ARGUMENT, message="forged")
    about = error_details_pb2.ErrorInfo(
        reason=code.upper(), domain=domain, metadata={"code": code, **facts}
    )
    created_status.details.add().Pack(about)
    return bytes(created_status.SerializeToString())


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (b"", PARAMS),
        (b"\xff\xff", PARAMS),
        (status("payment_expired", http_status="410"), PARAMS),
        (status("params_validation", "else", http_status="400"), PARAMS),
        (status("params_validation", http_status="400"), (400, "params_validation")),
    ],
)
async def test_gateway_fault_is_returned_only_with_a_permitted_code(desk, fault, expected):
    assert await get_refusal(desk, ("gateway-fault-bin", fault)) == expected


async def test_metadata_beyond_eight_kibibytes_is_refused(desk):
    assert await get_refusal(desk, ("x-other", "x" * 6_500)) == UNKNOWN
    stub: Any = gateway_pb2_grpc.GatewayServiceStub(desk.channel)
    request = payment_pb2.GetPaymentStatusRequest(payment_id="pay_0")
    for size in (8_192, 12_000, 15_000):
        for _ in range(5):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.GetPaymentStatus(
                    request, metadata=(*desk.grpc.wallet, ("x-other", "x" * size))
                )
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    # the channel stays usable
    assert await get_refusal(desk) == UNKNOWN
