"""Test the HTTP form of statuses, for services that describe them and services that do not."""

from __future__ import annotations

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_rest_gateway.errors import RefusedError, to_refused_error
from grpc_rest_gateway.rpc import CallError, UnreachableError

CODES = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ABORTED": 409,
    "ALREADY_EXISTS": 409,
    "RESOURCE_EXHAUSTED": 429,
    "UNIMPLEMENTED": 501,
}
FAILURES = {
    "CANCELLED": 500,
    "UNKNOWN": 500,
    "INTERNAL": 500,
    "DATA_LOSS": 500,
    "DEADLINE_EXCEEDED": 503,
    "UNAVAILABLE": 503,
}


def fail(code: grpc.StatusCode, *details) -> CallError:
    status = status_pb2.Status(code=code.value[0], message="A reason")
    for detail in details:
        status.details.add().Pack(detail)
    packed = [("grpc-status-details-bin", status.SerializeToString())] if details else []
    return CallError(code, "A reason", packed)


def show(error: RefusedError) -> tuple[int, str, str]:
    return error.status, error.code, error.message


def test_every_code_is_an_answer_or_a_failure():
    names = {code.name for code in grpc.StatusCode} - {"OK"}
    assert CODES.keys() | FAILURES.keys() == names


@pytest.mark.parametrize(("name", "status"), CODES.items())
def test_a_code_becomes_its_http_status(name, status):
    error = fail(grpc.StatusCode[name])
    assert show(to_refused_error(error, map_codes=True)) == (status, name.lower(), "A reason")
    assert show(to_refused_error(error)) == (500, "internal_error", "Internal error")


@pytest.mark.parametrize(("name", "status"), FAILURES.items())
def test_a_failure_keeps_its_message_to_itself(name, status):
    error = to_refused_error(fail(grpc.StatusCode[name]), map_codes=True)
    assert show(error) == (status, "internal_error", "Internal error")


def test_a_service_that_does_not_answer_can_be_asked_again():
    error = to_refused_error(UnreachableError(grpc.StatusCode.UNAVAILABLE, ""), map_codes=True)
    assert (error.status, error.headers) == (503, ((b"retry-after", b"1"),))


def test_details_complete_a_code():
    violation = error_details_pb2.BadRequest.FieldViolation(field="a.b", description="is odd")
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.FromMilliseconds(1200)
    details = (
        error_details_pb2.ErrorInfo(reason="TOO_MANY", metadata={"limit": "3"}),
        error_details_pb2.BadRequest(field_violations=[violation]),
        retry,
    )
    error = to_refused_error(fail(grpc.StatusCode.RESOURCE_EXHAUSTED, *details), map_codes=True)
    assert show(error) == (429, "too_many", "A reason")
    assert error.issues == [("a.b", "is odd")]
    assert error.details == {"limit": "3"}
    assert error.headers == ((b"retry-after", b"2"),)


@pytest.mark.parametrize(
    ("text", "status"), [("451", 451), ("200", 500), ("600", 500), ("x", 500), ("", 500)]
)
@pytest.mark.parametrize("map_codes", [True, False])
def test_a_service_can_set_code_and_status(text, status, map_codes):
    info = error_details_pb2.ErrorInfo(metadata={"code": "closed", "http_status": text, "by": "x"})
    error = to_refused_error(fail(grpc.StatusCode.INTERNAL, info), map_codes=map_codes)
    assert show(error) == (status, "closed", "A reason")
    assert error.details == {"by": "x"}
