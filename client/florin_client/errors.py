"""What goes wrong, as exceptions.

    FlorinError
    ├── InvalidRequestError      the request is malformed, or names what does not exist
    ├── AuthenticationError      the credentials are missing, unknown or revoked
    ├── ForbiddenError           the credential may not do this
    ├── NotFoundError            no such payment, merchant or settlement for this caller
    ├── ConflictError            a key, a price or a payment is bound to something else
    ├── StateError               the payment does not allow this now
    ├── RateLimitedError         the caller is over its rate
    ├── UnavailableError         the server, or something that it needs, is down
    ├── DeadlineError            no answer in time; also a TimeoutError
    └── ServerError              anything else

Each of them has the `code` that the reference of errors tells, the id of the request, and what the
server said beyond that. Codes may be added, so that callers compare with those they know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

DOMAIN = "florin"
_DETAILS = "grpc-status-details-bin"
_OWN = frozenset({"code", "http_status"})


@dataclass(frozen=True, slots=True)
class Issue:
    """A member of the request that breaks its bounds."""

    field: str
    message: str


@dataclass(frozen=True, slots=True)
class Told:
    """What a refusal says.

    `code` is in lower snake case, empty if the answer is not Florin's own; `http_status` is 0 then.
    `details` are facts for programs. `retry_after_s` says when it is worth asking again, where the
    server knows. With `idempotency_key` a call can be repeated that may have been carried out.
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
    """A call was refused, or got no answer."""

    def __init__(self, told: Told) -> None:
        self.told = told
        super().__init__(told.message)

    @property
    def code(self) -> str:
        """Why, e.g. `quote_expired`; empty if Florin itself did not answer."""
        return self.told.code

    @property
    def message(self) -> str:
        """The same for people."""
        return self.told.message

    @property
    def request_id(self) -> str:
        """The id under which the server's log knows the request."""
        return self.told.request_id

    @property
    def status(self) -> grpc.StatusCode:
        """The status of the gRPC call."""
        return self.told.status

    @property
    def http_status(self) -> int:
        """What REST answers in its place; 0 if Florin itself did not answer."""
        return self.told.http_status

    @property
    def details(self) -> Mapping[str, str]:
        """Facts for programs, by their name."""
        return self.told.details

    @property
    def issues(self) -> tuple[Issue, ...]:
        """Members of the request that break their bounds."""
        return self.told.issues

    @property
    def retry_after_s(self) -> float | None:
        """Seconds until it is worth asking again; None if the server does not know."""
        return self.told.retry_after_s

    @property
    def idempotency_key(self) -> str | None:
        """The key that the call was made with; None if it needs none to be repeated."""
        return self.told.idempotency_key

    def __str__(self) -> str:
        """The message, with code and request id."""
        known = [self.code, self.request_id and f"request {self.request_id}"]
        return f"{self.message} ({', '.join(filter(None, known))})" if any(known) else self.message


class InvalidRequestError(FlorinError):
    """The request is malformed, or names what does not exist."""


class AuthenticationError(FlorinError):
    """The credentials are missing, unknown or revoked."""


class ForbiddenError(FlorinError):
    """The credential may not do this."""


class NotFoundError(FlorinError):
    """No such payment, merchant or settlement for this caller."""


class ConflictError(FlorinError):
    """A key, a price or a payment is bound to something else."""


class StateError(FlorinError):
    """The payment does not allow this now."""


class RateLimitedError(FlorinError):
    """The caller is over its rate."""


class UnavailableError(FlorinError):
    """The server, or something that it needs, is down."""


class DeadlineError(FlorinError, TimeoutError):
    """No answer in time. A call that changes something may have been carried out all the same."""


class ServerError(FlorinError):
    """Anything else: a fault of the server, or of what lies between."""


_KINDS: Mapping[grpc.StatusCode, type[FlorinError]] = {
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
    """The exception that a failed call is; `trailing` is its metadata, the ids are the caller's."""
    metadata = dict(trailing)
    info, issues, retry_after_s = _details(metadata.get(_DETAILS, b""))
    answered = metadata.get("request-id", request_id)
    http_status = info.get("http_status", "")
    facts = {name: text for name, text in info.items() if name not in _OWN}
    if not info and status is grpc.StatusCode.DEADLINE_EXCEEDED:
        message = "No answer in time"
    told = Told(
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
    return _KINDS.get(status, ServerError)(told)


def _details(packed: str | bytes) -> tuple[Mapping[str, str], tuple[Issue, ...], float | None]:
    """What ErrorInfo, BadRequest and RetryInfo say; nothing where the answer is not Florin's."""
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
                issues += [Issue(one.field, one.description) for one in bad.field_violations]
            elif detail.Unpack(retry):
                retry_after_s = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
    except DecodeError:
        return {}, (), None
    return facts, tuple(issues), retry_after_s
