"""Errors of the service as answers of plain routes."""

from __future__ import annotations

from grpc_rest_gateway.errors import RefusedError, RequestIssue

from florin_server.domain.errors import ApiError


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
