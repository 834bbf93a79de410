"""How a refused call looks in gRPC: a status with ErrorInfo, BadRequest and RetryInfo."""

from __future__ import annotations

import logging
from typing import Any

import grpc
from google.protobuf import any_pb2
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.refusals import dependency_down, stopping
from florin_server.feed import FeedClosed
from florin_server.rpc.server.call import Call
from florin_server.rpc.server.field_paths import to_proto_path
from florin_server.rpc.server.methods import Method
from florin_server.store.engine.query import StoreUnavailable

_log = logging.getLogger(__name__)

DOMAIN = "florin"
# the gateway found a fault in a request; it is told after the caller is known
GATEWAY_FAULT = "gateway-fault-bin"

_UNAVAILABLE = 503


class GatewayFault(Exception):  # noqa: N818  (carries a status, is none itself)
    """The gateway could not read the request; the payload is the status to answer."""


class TooLate(Exception):  # noqa: N818  (nothing went wrong here)
    """The deadline passed before the work began; nothing was done."""


def status_of(error: FlorinError, request: Descriptor | None = None) -> status_pb2.Status:
    """The status that tells an error; members are named as in the `request`, if that is known."""
    status = status_pb2.Status(code=code_pb2.Code.Value(error.grpc), message=error.message)
    info = error_details_pb2.ErrorInfo(
        reason=error.code.upper(),
        domain=DOMAIN,
        metadata={**error.details, "code": error.code, "http_status": str(error.http)},
    )
    _attach(status, info)
    if error.issues:
        violations = [
            error_details_pb2.BadRequest.FieldViolation(
                field=to_proto_path(request, i.field) if request else i.field,
                description=i.message,
            )
            for i in error.issues
        ]
        _attach(status, error_details_pb2.BadRequest(field_violations=violations))
    if error.retry_after_s is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.seconds = error.retry_after_s
        _attach(status, retry)
    return status


def _attach(status: status_pb2.Status, detail: Any) -> None:
    packed = any_pb2.Any()
    packed.Pack(detail)
    status.details.append(packed)


async def abort(
    context: grpc.aio.ServicerContext[Any, Any],
    status: status_pb2.Status,
    trailing: tuple[tuple[str, str], ...],
) -> None:
    """Ends the call with the status; never returns."""
    converted = rpc_status.to_status(status)
    await context.abort(
        converted.code, converted.details, (*converted.trailing_metadata, *trailing)
    )


def to_status(error: Exception, method: Method, call: Call) -> status_pb2.Status:
    """The status that tells an error; what is not ours to tell goes to the log only."""
    if isinstance(error, GatewayFault):
        return _fault_status(error.args[0])
    if isinstance(error, TooLate):
        return status_pb2.Status(code=code_pb2.DEADLINE_EXCEEDED, message="Deadline exceeded")
    if isinstance(error, FeedClosed):
        return status_of(stopping(error.version))
    if isinstance(error, StoreUnavailable):
        _log.error("%s: %s, request %s", method.name, error, call.request_id)
        error = dependency_down(wcp_profile=False)
    elif not isinstance(error, FlorinError):
        _log.exception("%s failed, request %s", method.name, call.request_id, exc_info=error)
        error = FlorinError(Code.INTERNAL_ERROR)
    if error.http == _UNAVAILABLE and method.relays and call.caller.wcp_profile:
        error = dependency_down(wcp_profile=True)
    return status_of(error, method.request)


def _fault_status(payload: Any) -> status_pb2.Status:
    """The gateway's own status, if it is one that a gateway may tell."""
    status = status_pb2.Status()
    try:
        status.ParseFromString(payload if isinstance(payload, bytes) else payload.encode())
    except DecodeError:
        return status_of(FlorinError(Code.INVALID_PARAMS))
    for detail in status.details:
        info = error_details_pb2.ErrorInfo()
        if (
            detail.Is(info.DESCRIPTOR)
            and detail.Unpack(info)
            and info.domain == DOMAIN
            and info.metadata.get("code") in {Code.INVALID_PARAMS, Code.PARAMS_VALIDATION}
        ):
            return status
    return status_of(FlorinError(Code.INVALID_PARAMS))
