"""Every way a call can be refused: code, gRPC status, HTTP status and sentence, in one table.

Codes and HTTP statuses are those of the documented API; `tests/unit` proves that the table covers
the ErrorCode enum of the protos.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class GrpcStatus(StrEnum):
    """The gRPC statuses in use, by name, so that the domain needs no grpc."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    ABORTED = "ABORTED"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    INTERNAL = "INTERNAL"
    UNAVAILABLE = "UNAVAILABLE"


class ErrorCode(StrEnum):
    """Error codes as they stand in a REST error body."""

    RATE_LIMITED = "rate_limited"
    INVALID_PARAMS = "invalid_params"
    PARAMS_VALIDATION = "params_validation"
    PAYMENT_NOT_FOUND = "payment_not_found"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    INTERNAL_ERROR = "internal_error"
    INVALID_API_KEY = "invalid_api_key"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    INVALID_STATE = "invalid_state"
    PAYMENT_EXPIRED = "payment_expired"
    QUOTE_EXPIRED = "quote_expired"
    MISSING_API_KEY = "missing_api_key"
    MISSING_MERCHANT_API_KEY = "missing_merchant_api_key"
    MISSING_MERCHANT_ID = "missing_merchant_id"
    HEADER_NOT_ASCII = "header_not_ascii"
    NOT_SANDBOX_API_KEY = "not_sandbox_api_key"
    MERCHANT_NOT_FOUND = "merchant_not_found"
    MERCHANT_EXISTS = "merchant_exists"
    API_KEY_NOT_FOUND = "api_key_not_found"
    PARTNER_NOT_FOUND = "partner_not_found"
    CUSTOMER_NOT_FOUND = "customer_not_found"
    WALLET_NOT_FOUND = "wallet_not_found"
    EXECUTOR_NOT_FOUND = "executor_not_found"
    MISSING_APP_ID = "missing_app_id"
    MISSING_CLIENT_ID = "missing_client_id"
    INVALID_APP_ID = "invalid_app_id"
    CONFLICTING_AUTH_HEADERS = "conflicting_auth_headers"
    MISSING_AUTH_HEADERS = "missing_auth_headers"
    INVALID_API_VERSION = "invalid_api_version"
    UNKNOWN_API_VERSION = "unknown_api_version"
    API_VERSION_DOWNGRADE = "api_version_downgrade"
    SANCTIONED_USER = "sanctioned_user"
    PAYMENT_NOT_SUCCEEDED = "payment_not_succeeded"
    ALREADY_REFUNDED = "already_refunded"
    # the five that only the deployed profile uses, on merchant paths
    NOT_FOUND = "not_found"
    MISSING_IDEMPOTENCY_KEY = "missing_idempotency_key"
    SETTLEMENT_ASSET_CONFLICT = "settlement_asset_conflict"
    VERSION_CONFLICT = "version_conflict"
    BAD_GATEWAY = "bad_gateway"


class ErrorSpec(NamedTuple):
    """The gRPC status, HTTP status and default message of a code."""

    grpc_status: GrpcStatus
    http_status: int
    message: str


_S = GrpcStatus
ERROR_SPECS: Mapping[ErrorCode, ErrorSpec] = {
    ErrorCode.RATE_LIMITED: ErrorSpec(_S.RESOURCE_EXHAUSTED, 429, "Rate limit exceeded"),
    ErrorCode.INVALID_PARAMS: ErrorSpec(_S.INVALID_ARGUMENT, 400, "Invalid params"),
    ErrorCode.PARAMS_VALIDATION: ErrorSpec(_S.INVALID_ARGUMENT, 400, "Validation error"),
    ErrorCode.PAYMENT_NOT_FOUND: ErrorSpec(_S.NOT_FOUND, 404, "Payment not found"),
    ErrorCode.IDEMPOTENCY_CONFLICT: ErrorSpec(_S.ALREADY_EXISTS, 409, "Idempotency conflict"),
    ErrorCode.INTERNAL_ERROR: ErrorSpec(_S.INTERNAL, 500, "Internal error"),
    ErrorCode.INVALID_API_KEY: ErrorSpec(_S.UNAUTHENTICATED, 401, "Invalid api key"),
    ErrorCode.UNAUTHORIZED: ErrorSpec(_S.UNAUTHENTICATED, 401, "Unauthorized"),
    ErrorCode.FORBIDDEN: ErrorSpec(_S.PERMISSION_DENIED, 403, "Forbidden"),
    ErrorCode.INVALID_STATE: ErrorSpec(_S.FAILED_PRECONDITION, 400, "Invalid state"),
    ErrorCode.PAYMENT_EXPIRED: ErrorSpec(_S.FAILED_PRECONDITION, 410, "Payment expired"),
    ErrorCode.QUOTE_EXPIRED: ErrorSpec(_S.ABORTED, 409, "Quote expired, refetch options"),
    ErrorCode.MISSING_API_KEY: ErrorSpec(_S.UNAUTHENTICATED, 401, "Missing api key"),
    ErrorCode.MISSING_MERCHANT_API_KEY: ErrorSpec(
        _S.UNAUTHENTICATED, 401, "Missing merchant api key"
    ),
    ErrorCode.MISSING_MERCHANT_ID: ErrorSpec(_S.UNAUTHENTICATED, 401, "Missing merchant id"),
    ErrorCode.HEADER_NOT_ASCII: ErrorSpec(_S.INVALID_ARGUMENT, 400, "Header not ascii"),
    ErrorCode.NOT_SANDBOX_API_KEY: ErrorSpec(_S.PERMISSION_DENIED, 403, "Not sandbox api key"),
    ErrorCode.MERCHANT_NOT_FOUND: ErrorSpec(_S.NOT_FOUND, 404, "Merchant not found"),
    ErrorCode.MERCHANT_EXISTS: ErrorSpec(_S.ALREADY_EXISTS, 409, "Merchant exists"),
    ErrorCode.API_KEY_NOT_FOUND: ErrorSpec(_S.NOT_FOUND, 404, "Api key not found"),
    ErrorCode.PARTNER_NOT_FOUND: ErrorSpec(_S.NOT_FOUND, 404, "Partner not found"),
    ErrorCode.CUSTOMER_NOT_FOUND: ErrorSpec(_S.NOT_FOUND, 404, "Customer not found"),
    ErrorCode.WALLET_NOT_FOUND: ErrorSpec(_S.NOT_FOUND, 404, "Wallet not found"),
    ErrorCode.EXECUTOR_NOT_FOUND: ErrorSpec(_S.NOT_FOUND, 404, "Executor not found"),
    ErrorCode.MISSING_APP_ID: ErrorSpec(_S.UNAUTHENTICATED, 401, "Missing app id"),
    ErrorCode.MISSING_CLIENT_ID: ErrorSpec(_S.UNAUTHENTICATED, 401, "Missing client id"),
    ErrorCode.INVALID_APP_ID: ErrorSpec(_S.UNAUTHENTICATED, 401, "Invalid app id"),
    ErrorCode.CONFLICTING_AUTH_HEADERS: ErrorSpec(
        _S.INVALID_ARGUMENT, 400, "Conflicting auth headers"
    ),
    ErrorCode.MISSING_AUTH_HEADERS: ErrorSpec(_S.UNAUTHENTICATED, 401, "Missing auth headers"),
    ErrorCode.INVALID_API_VERSION: ErrorSpec(_S.INVALID_ARGUMENT, 400, "Invalid api version"),
    ErrorCode.UNKNOWN_API_VERSION: ErrorSpec(_S.INVALID_ARGUMENT, 400, "Unknown api version"),
    ErrorCode.API_VERSION_DOWNGRADE: ErrorSpec(
        _S.FAILED_PRECONDITION, 400, "Version is older than the account's pin"
    ),
    ErrorCode.SANCTIONED_USER: ErrorSpec(
        _S.PERMISSION_DENIED, 451, "This account cannot be served"
    ),
    ErrorCode.PAYMENT_NOT_SUCCEEDED: ErrorSpec(
        _S.FAILED_PRECONDITION, 400, "Payment not succeeded"
    ),
    ErrorCode.ALREADY_REFUNDED: ErrorSpec(_S.ALREADY_EXISTS, 409, "Payment is already refunded"),
    ErrorCode.NOT_FOUND: ErrorSpec(_S.NOT_FOUND, 404, "Not found"),
    ErrorCode.MISSING_IDEMPOTENCY_KEY: ErrorSpec(
        _S.INVALID_ARGUMENT, 400, "Missing idempotency key"
    ),
    ErrorCode.SETTLEMENT_ASSET_CONFLICT: ErrorSpec(
        _S.ALREADY_EXISTS, 409, "Asset already has a settlement"
    ),
    ErrorCode.VERSION_CONFLICT: ErrorSpec(_S.ABORTED, 409, "Version conflict"),
    ErrorCode.BAD_GATEWAY: ErrorSpec(_S.UNAVAILABLE, 502, "Bad gateway"),
}


# the names of the facts in errors, each a text; releases can add more
ERROR_DETAILS: Mapping[str, str] = {
    "reason": "The reason, where the code does not say it.",
    "refused": "The account that a token refuses: everybody, payer, receiver or operator.",
    "revert": "The text that a contract reverted with.",
    "index": "The position of the wrong output in the results, from 0.",
    "url": "The page where the buyer enters the missing data.",
    "unit": "The unit of the other amounts.",
    "minAmount": "The smallest amount of a payment, in minor units.",
    "maxAmount": "The largest amount of a payment, in minor units.",
    "refunded": "The sum of the payment's refunds, in minor units.",
    "refundable": "The amount that can still be refunded, in minor units.",
    "maxRefunds": "The largest number of refunds of one payment.",
    "pinned": "The version to which the account is pinned.",
    "supported": "The published versions.",
    "afterVersion": "The last version that the stream sent: watch again after it.",
}


@dataclass(frozen=True, slots=True)
class FieldIssue:
    """One fault of a request: the member's path, e.g. `amount.value`, and what is wrong with it."""

    field: str
    message: str


class ApiError(Exception):
    """A refused call.

    `details` contains machine-readable facts, named in ERROR_DETAILS, as texts. `retry_after_s` is
    set if the same call can succeed later. `unavailable` turns internal_error into 503. `http` and
    `grpc` are statuses for a case that the usual statuses of its code do not fit.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str = "",
        *,
        issues: tuple[FieldIssue, ...] = (),
        details: Mapping[str, str] | None = None,
        retry_after_s: int | None = None,
        unavailable: bool = False,
        http: int | None = None,
        grpc: GrpcStatus | None = None,
    ) -> None:
        spec = ERROR_SPECS[code]
        if unavailable:
            http, grpc = 503, GrpcStatus.UNAVAILABLE
        self.code = code
        self.message = message or spec.message
        self.issues = issues
        self.details: Mapping[str, str] = details or {}
        self.retry_after_s = retry_after_s
        self.grpc_status = grpc or spec.grpc_status
        self.http_status = http or spec.http_status
        super().__init__(f"{code}: {self.message}")


def validation_error(field: str, message: str, **details: str) -> ApiError:
    """Return the error for a body that breaks the schema at one member."""
    return ApiError(
        ErrorCode.PARAMS_VALIDATION,
        f"Validation error: {field}: {message}",
        issues=(FieldIssue(field, message),),
        details=details,
    )


def validation_error_for(issues: Sequence[FieldIssue]) -> ApiError:
    """Return the error for a body that breaks the schema at these members."""
    first = issues[0]
    return ApiError(
        ErrorCode.PARAMS_VALIDATION,
        f"Validation error: {first.field}: {first.message}",
        issues=tuple(issues),
    )
