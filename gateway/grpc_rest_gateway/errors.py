"""Convert a failed RPC, or a fault found by the gateway, to a REST error response.

The server sends code, HTTP status and details in google.rpc.ErrorInfo, invalid members in
BadRequest, and the wait in RetryInfo. A status without an HTTP status gets that of its gRPC code,
or is an internal failure, as the settings say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import grpc
import orjson
from google.protobuf.descriptor import Descriptor
from google.rpc import code_pb2, error_details_pb2, status_pb2

from grpc_rest_gateway.fieldpaths import to_json_path
from grpc_rest_gateway.rpc import CallError, Metadata, UnreachableError

FAULT_KEY = "gateway-fault-bin"
STATUS_KEY = "grpc-status-details-bin"

INVALID_PARAMS = "invalid_params"
PARAMS_VALIDATION = "params_validation"
INTERNAL_ERROR = "internal_error"
HEADER_NOT_ASCII = "header_not_ascii"

# of the codes with which servers answer callers; the others are failures, and only the log has
# their cause
_HTTP_STATUS_BY_CODE = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ABORTED: 409,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.UNIMPLEMENTED: 501,
}


class RequestIssue(NamedTuple):
    """One fault of a request: JSON path of the member, e.g. `amount.value`, and the reason."""

    field: str
    message: str


class RefusedError(Exception):
    """A request that is answered with an error body.

    `headers` are further response headers, `metadata` is the metadata of the server.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        issues: Sequence[RequestIssue] = (),
        details: Mapping[str, str] | None = None,
        headers: Iterable[tuple[bytes, bytes]] = (),
        metadata: Metadata = (),
    ) -> None:
        self.status = status
        self.code = code
        self.message = message
        self.issues = issues
        self.details: Mapping[str, str] = details or {}
        self.headers = tuple(headers)
        self.metadata = metadata
        super().__init__(f"{status} {code}: {message}")

    def encode_body(self, request_id: str) -> bytes:
        """Return the JSON error body."""
        return encode_error_body(self.code, self.message, request_id, self.issues, self.details)

    def to_rpc_status(self, domain: str) -> bytes:
        """Return a serialized google.rpc.Status, to be returned once the caller is known."""
        info = error_details_pb2.ErrorInfo(
            reason=self.code.upper(),
            domain=domain,
            metadata={**self.details, "code": self.code, "http_status": str(self.status)},
        )
        status = status_pb2.Status(code=code_pb2.INVALID_ARGUMENT, message=self.message)
        status.details.add().Pack(info)
        if self.issues:
            bad = error_details_pb2.BadRequest()
            for issue in self.issues:
                bad.field_violations.add(field=issue.field, description=issue.message)
            status.details.add().Pack(bad)
        return bytes(status.SerializeToString())


def make_invalid_body_error(issues: Sequence[RequestIssue]) -> RefusedError:
    """Return the error for a body whose members violate the schema."""
    field, message = issues[0]
    return RefusedError(
        400, PARAMS_VALIDATION, f"Validation error: {field}: {message}", issues=issues
    )


def make_unreadable_body_error(reason: str) -> RefusedError:
    """Return the error for a body that is not strict JSON, or not of the type of the route."""
    return RefusedError(400, PARAMS_VALIDATION, f"Validation error: the body {reason}")


def make_invalid_parameter_error(name: str, message: str) -> RefusedError:
    """Return the error for a path or query parameter that cannot be parsed."""
    return RefusedError(
        400, INVALID_PARAMS, f"{name} {message}", issues=[RequestIssue(name, message)]
    )


def make_internal_error(status: int = 500, metadata: Metadata = ()) -> RefusedError:
    """Return the error for an internal failure; only the log has its cause."""
    return RefusedError(status, INTERNAL_ERROR, "Internal error", metadata=metadata)


def to_refused_error(
    error: CallError, request: Descriptor | None = None, *, map_codes: bool = False
) -> RefusedError:
    """Return the error for a failed RPC; members of its `request` are named as in JSON.

    With `map_codes`, a status without an HTTP status gets that of its gRPC code.
    """
    packed = next((value for key, value in error.metadata if key == STATUS_KEY), None)
    details = _parse_details(packed if isinstance(packed, bytes) else b"", request)
    status_text = details.members.get("http_status", "")
    if "code" in details.members:
        has_status = status_text.isdecimal() and 400 <= int(status_text) <= 599
        return _make_service_error(
            int(status_text) if has_status else 500, details.members["code"], details, error
        )
    if isinstance(error, UnreachableError):
        return RefusedError(
            503,
            INTERNAL_ERROR,
            "The service behind this gateway does not answer",
            headers=[(b"retry-after", b"1")],
            metadata=error.metadata,
        )
    if error.code in {grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE}:
        return make_internal_error(503, error.metadata)
    if map_codes and error.code in _HTTP_STATUS_BY_CODE:
        code = (details.reason or error.code.name).lower()
        return _make_service_error(_HTTP_STATUS_BY_CODE[error.code], code, details, error)
    return make_internal_error(500, error.metadata)


class _StatusDetails(NamedTuple):
    """The details of a google.rpc.Status: `members` are the metadata of its ErrorInfo."""

    message: str
    reason: str
    members: Mapping[str, str]
    issues: Sequence[RequestIssue]
    headers: Sequence[tuple[bytes, bytes]]


def _parse_details(packed: bytes, request: Descriptor | None) -> _StatusDetails:
    status = status_pb2.Status.FromString(packed)
    info = error_details_pb2.ErrorInfo()
    issues: list[RequestIssue] = []
    headers: list[tuple[bytes, bytes]] = []
    for detail in status.details:
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            info = error_details_pb2.ErrorInfo.FromString(detail.value)
        elif detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
            bad = error_details_pb2.BadRequest.FromString(detail.value)
            issues += [
                RequestIssue(to_json_path(request, v.field) if request else v.field, v.description)
                for v in bad.field_violations
            ]
        elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
            delay = error_details_pb2.RetryInfo.FromString(detail.value).retry_delay
            pause_s = max(1, delay.seconds + (1 if delay.nanos > 0 else 0))
            headers.append((b"retry-after", b"%d" % pause_s))
    return _StatusDetails(status.message, info.reason, dict(info.metadata), issues, headers)


def _make_service_error(
    http_status: int, code: str, details: _StatusDetails, error: CallError
) -> RefusedError:
    return RefusedError(
        http_status,
        code,
        details.message or error.message,
        issues=details.issues,
        details={k: v for k, v in details.members.items() if k not in {"code", "http_status"}},
        headers=details.headers,
        metadata=error.metadata,
    )


def encode_error_body(
    code: str,
    message: str,
    request_id: str,
    issues: Iterable[RequestIssue] = (),
    details: Mapping[str, str] | None = None,
) -> bytes:
    """Return the JSON body shared by all error responses."""
    body: dict[str, object] = {"code": code, "message": message}
    if shown := [issue._asdict() for issue in issues]:
        body["issues"] = shown
    if details:
        body["details"] = dict(details)
    body["requestId"] = request_id
    return orjson.dumps(body)
