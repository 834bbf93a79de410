"""Test server errors as a caller of the Python client receives them."""

from __future__ import annotations

import grpc
import pytest
from florin.v1 import errors_pb2
from florin_client import (
    ConflictError,
    DeadlineError,
    FlorinError,
    InvalidRequestError,
    Issue,
    NotFoundError,
    RateLimitedError,
    ServerError,
    UnavailableError,
)
from florin_client.errors import error_of
from florin_server.api.server.errors import to_grpc_status
from florin_server.domain.errors import ApiError as Refusal
from florin_server.domain.errors import ErrorCode, validation_error
from grpc_status import rpc_status


def build_client_error(refusal: Refusal, **more: str) -> FlorinError:
    """Return a server's refusal as the client sees it after the wire."""
    status = rpc_status.to_status(to_grpc_status(refusal))
    return error_of(status.code, status.details, status.trailing_metadata, **more)


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_code_of_the_server_arrives(code):
    error = build_client_error(Refusal(code))
    assert f"ERROR_CODE_{error.code.upper()}" in dict(errors_pb2.ErrorCode.items())
    assert (error.code, error.http_status) == (code, Refusal(code).http_status)
    assert type(error) is not FlorinError


def test_error_carries_the_message_and_details_of_the_server():
    refusal = Refusal(ErrorCode.QUOTE_EXPIRED, details={"reason": "late", "maxAmount": "5"})
    error = build_client_error(refusal, request_id="req_1", idempotency_key="k")
    assert isinstance(error, ConflictError)
    assert dict(error.details) == {"reason": "late", "maxAmount": "5"}
    assert (error.request_id, error.idempotency_key) == ("req_1", "k")
    assert str(error) == f"{refusal.message} (quote_expired, request req_1)"


def test_members_that_break_their_bounds_are_named():
    error = build_client_error(validation_error("amount.value", "is too long"))
    assert isinstance(error, InvalidRequestError)
    assert error.issues == (Issue("amount.value", "is too long"),)


def test_rate_limited_error_carries_retry_after():
    error = build_client_error(Refusal(ErrorCode.RATE_LIMITED, retry_after_s=7))
    assert isinstance(error, RateLimitedError)
    assert error.retry_after_s == 7


def test_the_id_that_the_server_gave_counts():
    error = error_of(grpc.StatusCode.NOT_FOUND, "No", [("request-id", "theirs")], request_id="ours")
    assert isinstance(error, NotFoundError)
    assert error.request_id == "theirs"


def test_missing_response_raises_unavailable_without_a_code():
    error = error_of(grpc.StatusCode.UNAVAILABLE, "Connection refused", [], request_id="req_1")
    assert isinstance(error, UnavailableError)
    assert (error.code, error.http_status) == ("", 0)
    assert str(error) == "Connection refused (request req_1)"


def test_a_deadline_is_a_timeout():
    error = error_of(grpc.StatusCode.DEADLINE_EXCEEDED, "Stream removed", [])
    assert isinstance(error, DeadlineError)
    assert isinstance(error, TimeoutError)
    assert str(error) == "No response in time"


def test_unknown_call_says_that_the_server_is_older():
    error = error_of(grpc.StatusCode.UNIMPLEMENTED, "Method not found!", [], request_id="req_1")
    assert isinstance(error, ServerError)
    assert str(error) == (
        "The server does not know this call: it is older than this client, or no Florin "
        "(request req_1)"
    )


@pytest.mark.parametrize("noise", [b"\xff\xff\xff", b"\x0a\x05abc", "not bytes"])
def test_foreign_error_details_are_ignored(noise):
    error = error_of(grpc.StatusCode.UNKNOWN, "", [("grpc-status-details-bin", noise)])
    assert isinstance(error, ServerError)
    assert (error.code, error.message) == ("", "Unknown")
