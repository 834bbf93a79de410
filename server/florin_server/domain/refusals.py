"""Errors on merchant paths that have different codes in the two wire profiles.

The deployed profile has five codes of its own; the other profile uses the documented codes for the
same cases, with the same HTTP status.
"""

from __future__ import annotations

from florin_server.domain.errors import ApiError, ErrorCode, GrpcStatus


def merchant_not_found_error(*, wcp_profile: bool) -> ApiError:
    """Return the error for an unknown merchant in the path."""
    code = ErrorCode.NOT_FOUND if wcp_profile else ErrorCode.MERCHANT_NOT_FOUND
    return ApiError(code, "Merchant not found")


def settlement_not_found_error(*, wcp_profile: bool) -> ApiError:
    """Return the error for an unknown settlement of the merchant."""
    code = ErrorCode.NOT_FOUND if wcp_profile else ErrorCode.INVALID_PARAMS
    return ApiError(code, "Settlement not found", http=404, grpc=GrpcStatus.NOT_FOUND)


def refund_payment_not_found_error(*, wcp_profile: bool) -> ApiError:
    """Return the error for a refund of an unknown payment."""
    code = ErrorCode.NOT_FOUND if wcp_profile else ErrorCode.PAYMENT_NOT_FOUND
    return ApiError(code, "Payment not found")


def payment_archived_error() -> ApiError:
    """Return the error for a change of a payment that is only in the archive."""
    return ApiError(
        ErrorCode.INVALID_STATE, "Payment is in the archive: the operator can restore it"
    )


def deposit_claim_not_found_error(*, wcp_profile: bool) -> ApiError:
    """Return the error for an unknown claim of the payment."""
    code = ErrorCode.NOT_FOUND if wcp_profile else ErrorCode.INVALID_PARAMS
    return ApiError(code, "Deposit claim not found", http=404, grpc=GrpcStatus.NOT_FOUND)


def missing_idempotency_key_error(*, wcp_profile: bool) -> ApiError:
    """Return the error for a missing Idempotency-Key."""
    code = ErrorCode.MISSING_IDEMPOTENCY_KEY if wcp_profile else ErrorCode.INVALID_PARAMS
    return ApiError(code, "Idempotency-Key is required")


def settlement_asset_conflict_error(*, wcp_profile: bool) -> ApiError:
    """Return the error for a second settlement of the same asset."""
    code = ErrorCode.SETTLEMENT_ASSET_CONFLICT if wcp_profile else ErrorCode.INVALID_STATE
    return ApiError(
        code,
        "Asset already has a settlement",
        details={"reason": "settlement_asset_conflict"},
        http=409,
        grpc=GrpcStatus.ALREADY_EXISTS,
    )


def server_stopping_error(version: int | None) -> ApiError:
    """Return the error of a stream that ends early because this process stops.

    Another process, or the next one, continues it after the version; None if it has no version.
    """
    return ApiError(
        ErrorCode.INTERNAL_ERROR,
        "The server is stopping: watch again after the last version",
        details={} if version is None else {"afterVersion": str(version)},
        # other processes, if any, answer already
        retry_after_s=0,
        unavailable=True,
    )


def upgrade_unfinished() -> ApiError:
    """Return the error while processes of an older release run, which do not support the call."""
    return ApiError(
        ErrorCode.INTERNAL_ERROR,
        "An upgrade of the service is not finished: try again in a few minutes",
        retry_after_s=60,
        unavailable=True,
    )


def bad_gateway_error(*, wcp_profile: bool) -> ApiError:
    """Return the error of a dependency that does not answer.

    The same call can succeed in a moment.
    """
    if wcp_profile:
        return ApiError(ErrorCode.BAD_GATEWAY, retry_after_s=1)
    return ApiError(ErrorCode.INTERNAL_ERROR, unavailable=True, retry_after_s=1)
