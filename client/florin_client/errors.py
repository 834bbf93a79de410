"""Errors of the client, as exceptions.

    FlorinError
    ├── InvalidRequestError      the request is malformed, or names an object that does not exist
    ├── AuthenticationError      the credentials are missing, unknown or revoked
    ├── ForbiddenError           the credential does not permit this call
    ├── NotFoundError            no such payment, merchant or settlement for this caller
    ├── ConflictError            a key, a quote or a payment is bound to something else
    ├── StateError               the state of the payment does not permit this call
    ├── RateLimitedError         the caller exceeded its rate limit
    ├── UnavailableError         the server, or a dependency of it, is down
    ├── DeadlineError            no response in time; also a TimeoutError
    └── ServerError              any other error

Each exception has the `code` of the error reference, the request id, and further details from the
server. Codes can be added: compare only with codes that you know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

DOMAIN = "florin"
_DETAILS_KEY = "grpc-status-details-bin"
_OWN_METADATA = frozenset({"code", "http_status"})


@dataclass(frozen=True, slots=True)
class Issue:
    """An invalid member of the request."""

    field: str
    message: str


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """The content of an error response.

    `code` is in lower snake case, empty if the response is not Florin's own; `http_status` is 0
    then. `details` are facts for programs. `retry_after_s` is the wait before the next attempt, if
    the server gives it. With `idempotency_key`, you can safely repeat a call that may have had its
    effect.
    """

    message: str
    code: str = ""
    request_id: str = ""
    http_status: int = 0
    status: grpc.StatusCode = grpc.StatusCode.UNKNOWN
    details: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    issues: tuple[Issue, ...] = ()
    retry_after_s: float | None = None
    idempotency_key: str | None = None


class FlorinError(Exception):
    """A call that was refused, or got no response."""

    def __init__(self, info: ErrorInfo) -> None:
        self.info = info
        super().__init__(info.message)

    @property
    def code(self) -> str:
        """Return the error code, e.g. `quote_expired`.

        It is empty if the response is not Florin's own.
        """
        return self.info.code

    @property
    def message(self) -> str:
        """Return the error message for people."""
        return self.info.message

    @property
    def request_id(self) -> str:
        """Return the id of the request in the server's log."""
        return self.info.request_id

    @property
    def status(self) -> grpc.StatusCode:
        """Return the status of the gRPC call."""
        return self.info.status

    @property
    def http_status(self) -> int:
        """Return the HTTP status of the REST API; 0 if the response is not Florin's own."""
        return self.info.http_status

    @property
    def details(self) -> Mapping[str, str]:
        """Return facts for programs, by name."""
        return self.info.details

    @property
    def issues(self) -> tuple[Issue, ...]:
        """Return the invalid members of the request."""
        return self.info.issues

    @property
    def retry_after_s(self) -> float | None:
        """Return the seconds to wait before the next attempt; None if the server gives none."""
        return self.info.retry_after_s

    @property
    def idempotency_key(self) -> str | None:
        """Return the idempotency key of the call; None if it can be repeated without a key."""
        return self.info.idempotency_key

    def __str__(self) -> str:
        """Return the message, with code and request id."""
        parts = [self.code, self.request_id and f"request {self.request_id}"]
        return f"{self.message} ({', '.join(filter(None, parts))})" if any(parts) else self.message


class InvalidRequestError(FlorinError):
    """The request is malformed, or names an object that does not exist."""


class AuthenticationError(FlorinError):
    """The credentials are missing, unknown or revoked."""


class ForbiddenError(FlorinError):
    """The credential does not permit this call."""


class NotFoundError(FlorinError):
    """No such payment, merchant or settlement for this caller."""


class ConflictError(FlorinError):
    """A key, a quote or a payment is bound to something else."""


class StateError(FlorinError):
    """The current state of the payment does not permit this call."""


class RateLimitedError(FlorinError):
    """The caller exceeded its rate limit."""


class UnavailableError(FlorinError):
    """The server, or a dependency of it, is down."""


class DeadlineError(FlorinError, TimeoutError):
    """No response in time. A call that changes data may have had its effect all the same."""


class ServerError(FlorinError):
    """Any other error: a fault of the server, or of the network in between."""


_ERROR_CLASSES: Mapping[grpc.StatusCode, type[FlorinError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequestError,
    grpc.StatusCode.OUT_OF_RANGE: InvalidRequestError,
    grpc.StatusCode.UNAUTHENTICATED: AuthenticationError,
    grpc.StatusCode.PERMISSION_DENIED: ForbiddenError,
    grpc.StatusCode.NOT_FOUND: NotFoundError,
    grpc.StatusCode.ALREADY_EXISTS: ConflictError,
    grpc.StatusCode.ABORTED: ConflictError,
    grpc.StatusCode.FAILED_PRECONDITION: StateError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: RateLimitedError,
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineError,
}


def error_of(
    status: grpc.StatusCode,
    message: str,
    trailing: Iterable[tuple[str, str | bytes]],
    *,
    request_id: str = "",
    idempotency_key: str | None = None,
) -> FlorinError:
    """Return the exception for a failed call.

    `trailing` is its metadata, the ids are the caller's.
    """
    metadata = dict(trailing)
    info, issues, retry_after_s = _parse_details(metadata.get(_DETAILS_KEY, b""))
    answered = metadata.get("request-id", request_id)
    http_status = info.get("http_status", "")
    facts = {name: text for name, text in info.items() if name not in _OWN_METADATA}
    if not info and status is grpc.StatusCode.DEADLINE_EXCEEDED:
        message = "No response in time"
    elif not info and status is grpc.StatusCode.UNIMPLEMENTED:
        message = "The server does not know this call: it is older than this client, or no Florin"
    error_info = ErrorInfo(
        message=message or status.name.replace("_", " ").capitalize(),
        code=info.get("code", ""),
        request_id=answered if isinstance(answered, str) else request_id,
        http_status=int(http_status) if http_status.isdecimal() else 0,
        status=status,
        details=MappingProxyType(facts),
        issues=issues,
        retry_after_s=retry_after_s,
        idempotency_key=idempotency_key,
    )
    return _ERROR_CLASSES.get(status, ServerError)(error_info)


def _parse_details(
    packed: str | bytes,
) -> tuple[Mapping[str, str], tuple[Issue, ...], float | None]:
    """Parse ErrorInfo, BadRequest and RetryInfo; empty if the response is not Florin's own."""
    facts: Mapping[str, str] = {}
    issues: list[Issue] = []
    retry_after_s = None
    status = status_pb2.Status()
    try:
        status.ParseFromString(packed if isinstance(packed, bytes) else packed.encode("latin-1"))
        for detail in status.details:
            info = error_details_pb2.ErrorInfo()
            bad, retry = error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
            if detail.Unpack(info) and info.domain == DOMAIN:
                facts = dict(info.metadata)
            elif detail.Unpack(bad):
                issues += [
                    Issue(field_violation.field, field_violation.description)
                    for field_violation in bad.field_violations
                ]
            elif detail.Unpack(retry):
                retry_after_s = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
    except DecodeError:
        return {}, (), None
    return facts, tuple(issues), retry_after_s
