"""How a refused call looks in gRPC: a status with ErrorInfo, BadRequest and RetryInfo."""

from __future__ import annotations

from typing import Any

import grpc
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from florin_server.domain.errors import FlorinError

DOMAIN = "florin"
# the gateway found a fault in a request; it is told after the caller is known
GATEWAY_FAULT = "gateway-fault-bin"


def status_of(error: FlorinError) -> status_pb2.Status:
    """The status that tells an error."""
    status = status_pb2.Status(code=code_pb2.Code.Value(error.grpc), message=error.message)
    info = error_details_pb2.ErrorInfo(
        reason=error.code.upper(),
        domain=DOMAIN,
        metadata={"code": error.code, "http_status": str(error.http), **error.details},
    )
    _attach(status, info)
    if error.issues:
        violations = [
            error_details_pb2.BadRequest.FieldViolation(field=i.field, description=i.message)
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
