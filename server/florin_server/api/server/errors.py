"""gRPC form of errors: a status with ErrorInfo, BadRequest and RetryInfo."""

from __future__ import annotations

import logging
from typing import Any

import grpc
from google.protobuf import any_pb2
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from florin_server.api.server.call import ActiveCall
from florin_server.api.server.field_paths import to_proto_path
from florin_server.api.server.methods import MethodSpec
from florin_server.base.feed import FeedClosed
from florin_server.db.engine.query import StoreUnavailable
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.refusals import bad_gateway_error, server_stopping_error

_log = logging.getLogger(__name__)

DOMAIN = "florin"

_UNAVAILABLE = 503


class GatewayFault(Exception):  # noqa: N818  (carries a status, is none itself)
    """The gateway could not read the request; the payload is the status of the response."""


class DeadlineExceeded(Exception):  # noqa: N818  (nothing went wrong here)
    """The deadline passed before the work started; nothing was done."""


def to_grpc_status(error: ApiError, request_type: Descriptor | None = None) -> status_pb2.Status:
    """Return the status of an error; members are named as in the `request_type` type, if given."""
    status = status_pb2.Status(code=code_pb2.Code.Value(error.grpc_status), message=error.message)
    info = error_details_pb2.ErrorInfo(
        reason=error.code.upper(),
        domain=DOMAIN,
        metadata={**error.details, "code": error.code, "http_status": str(error.http_status)},
    )
    _attach_detail(status, info)
    if error.issues:
        violations = [
            error_details_pb2.BadRequest.FieldViolation(
                field=to_proto_path(request_type, i.field) if request_type else i.field,
                description=i.message,
            )
            for i in error.issues
        ]
        _attach_detail(status, error_details_pb2.BadRequest(field_violations=violations))
    if error.retry_after_s is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.seconds = error.retry_after_s
        _attach_detail(status, retry)
    return status


def _attach_detail(status: status_pb2.Status, detail: Any) -> None:
    packed = any_pb2.Any()
    packed.Pack(detail)
    status.details.append(packed)


async def abort(
    context: grpc.aio.ServicerContext[Any, Any],
    status: status_pb2.Status,
    trailing_metadata: tuple[tuple[str, str], ...],
) -> None:
    """End the call with the status; never returns."""
    converted = rpc_status.to_status(status)
    await context.abort(
        converted.code, converted.details, (*converted.trailing_metadata, *trailing_metadata)
    )


def to_call_status(error: Exception, method: MethodSpec, call: ActiveCall) -> status_pb2.Status:
    """Return the status of an error; internal details go to the log only."""
    if isinstance(error, GatewayFault):
        return _parse_fault_status(error.args[0])
    if isinstance(error, DeadlineExceeded):
        return status_pb2.Status(code=code_pb2.DEADLINE_EXCEEDED, message="Deadline exceeded")
    if isinstance(error, FeedClosed):
        return to_grpc_status(server_stopping_error(error.version))
    if isinstance(error, StoreUnavailable):
        _log.error("%s: %s, request %s", method.name, error, call.request_id)
        error = bad_gateway_error(wcp_profile=False)
    elif not isinstance(error, ApiError):
        _log.exception("%s failed, request %s", method.name, call.request_id, exc_info=error)
        error = ApiError(ErrorCode.INTERNAL_ERROR)
    if error.http_status == _UNAVAILABLE and method.is_relayed and call.caller.wcp_profile:
        error = bad_gateway_error(wcp_profile=True)
    return to_grpc_status(error, method.request_type)


def _parse_fault_status(payload: Any) -> status_pb2.Status:
    """Return the gateway's own status, if a gateway is permitted to report it."""
    status = status_pb2.Status()
    try:
        status.ParseFromString(payload if isinstance(payload, bytes) else payload.encode())
    except DecodeError:
        return to_grpc_status(ApiError(ErrorCode.INVALID_PARAMS))
    for detail in status.details:
        info = error_details_pb2.ErrorInfo()
        if (
            detail.Is(info.DESCRIPTOR)
            and detail.Unpack(info)
            and info.domain == DOMAIN
            and info.metadata.get("code") in {ErrorCode.INVALID_PARAMS, ErrorCode.PARAMS_VALIDATION}
        ):
            return status
    return to_grpc_status(ApiError(ErrorCode.INVALID_PARAMS))
