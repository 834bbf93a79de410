"""Errors of the service as answers of plain routes, and the rate limit of pages."""

from __future__ import annotations

from grpc_rest_gateway.errors import RefusedError, RequestIssue
from grpc_rest_gateway.plain import PlainRequest

from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.limits.context import LimitContext


def to_refused_error(error: ApiError) -> RefusedError:
    """Return an error of the service as the gateway answers it."""
    wait_s = error.retry_after_s
    return RefusedError(
        error.http_status,
        error.code,
        error.message,
        issues=[RequestIssue(issue.field, issue.message) for issue in error.issues],
        details=error.details,
        headers=[] if wait_s is None else [(b"retry-after", b"%d" % wait_s)],
    )


def check_page_rate(app: LimitContext, request: PlainRequest) -> None:
    """Count a request of pages; RefusedError above the rate limit."""
    if wait_s := app.limits.count_page(request.peer):
        raise to_refused_error(ApiError(ErrorCode.RATE_LIMITED, retry_after_s=wait_s))
