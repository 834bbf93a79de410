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


class Code(StrEnum):
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
    # the five that only the deployed profile tells, on merchant paths
    NOT_FOUND = "not_found"
    MISSING_IDEMPOTENCY_KEY = "missing_idempotency_key"
    SETTLEMENT_ASSET_CONFLICT = "settlement_asset_conflict"
    VERSION_CONFLICT = "version_conflict"
    BAD_GATEWAY = "bad_gateway"


class Meaning(NamedTuple):
    """How one code is told."""

    grpc: GrpcStatus
    http: int
    message: str


_S = GrpcStatus
REGISTRY: Mapping[Code, Meaning] = {
    Code.RATE_LIMITED: Meaning(_S.RESOURCE_EXHAUSTED, 429, "Rate limit exceeded"),
    Code.INVALID_PARAMS: Meaning(_S.INVALID_ARGUMENT, 400, "Invalid params"),
    Code.PARAMS_VALIDATION: Meaning(_S.INVALID_ARGUMENT, 400, "Validation error"),
    Code.PAYMENT_NOT_FOUND: Meaning(_S.NOT_FOUND, 404, "Payment not found"),
    Code.IDEMPOTENCY_CONFLICT: Meaning(_S.ALREADY_EXISTS, 409, "Idempotency conflict"),
    Code.INTERNAL_ERROR: Meaning(_S.INTERNAL, 500, "Internal error"),
    Code.INVALID_API_KEY: Meaning(_S.UNAUTHENTICATED, 401, "Invalid api key"),
    Code.UNAUTHORIZED: Meaning(_S.UNAUTHENTICATED, 401, "Unauthorized"),
    Code.FORBIDDEN: Meaning(_S.PERMISSION_DENIED, 403, "Forbidden"),
    Code.INVALID_STATE: Meaning(_S.FAILED_PRECONDITION, 400, "Invalid state"),
    Code.PAYMENT_EXPIRED: Meaning(_S.FAILED_PRECONDITION, 410, "Payment expired"),
    Code.QUOTE_EXPIRED: Meaning(_S.ABORTED, 409, "Quote expired, refetch options"),
    Code.MISSING_API_KEY: Meaning(_S.UNAUTHENTICATED, 401, "Missing api key"),
    Code.MISSING_MERCHANT_API_KEY: Meaning(_S.UNAUTHENTICATED, 401, "Missing merchant api key"),
    Code.MISSING_MERCHANT_ID: Meaning(_S.UNAUTHENTICATED, 401, "Missing merchant id"),
    Code.HEADER_NOT_ASCII: Meaning(_S.INVALID_ARGUMENT, 400, "Header not ascii"),
    Code.NOT_SANDBOX_API_KEY: Meaning(_S.PERMISSION_DENIED, 403, "Not sandbox api key"),
    Code.MERCHANT_NOT_FOUND: Meaning(_S.NOT_FOUND, 404, "Merchant not found"),
    Code.MERCHANT_EXISTS: Meaning(_S.ALREADY_EXISTS, 409, "Merchant exists"),
    Code.API_KEY_NOT_FOUND: Meaning(_S.NOT_FOUND, 404, "Api key not found"),
    Code.PARTNER_NOT_FOUND: Meaning(_S.NOT_FOUND, 404, "Partner not found"),
    Code.CUSTOMER_NOT_FOUND: Meaning(_S.NOT_FOUND, 404, "Customer not found"),
    Code.WALLET_NOT_FOUND: Meaning(_S.NOT_FOUND, 404, "Wallet not found"),
    Code.EXECUTOR_NOT_FOUND: Meaning(_S.NOT_FOUND, 404, "Executor not found"),
    Code.MISSING_APP_ID: Meaning(_S.UNAUTHENTICATED, 401, "Missing app id"),
    Code.MISSING_CLIENT_ID: Meaning(_S.UNAUTHENTICATED, 401, "Missing client id"),
    Code.INVALID_APP_ID: Meaning(_S.UNAUTHENTICATED, 401, "Invalid app id"),
    Code.CONFLICTING_AUTH_HEADERS: Meaning(_S.INVALID_ARGUMENT, 400, "Conflicting auth headers"),
    Code.MISSING_AUTH_HEADERS: Meaning(_S.UNAUTHENTICATED, 401, "Missing auth headers"),
    Code.INVALID_API_VERSION: Meaning(_S.INVALID_ARGUMENT, 400, "Invalid api version"),
    Code.UNKNOWN_API_VERSION: Meaning(_S.INVALID_ARGUMENT, 400, "Unknown api version"),
    Code.API_VERSION_DOWNGRADE: Meaning(
        _S.FAILED_PRECONDITION, 400, "Version is older than the account's pin"
    ),
    Code.SANCTIONED_USER: Meaning(_S.PERMISSION_DENIED, 451, "This account cannot be served"),
    Code.PAYMENT_NOT_SUCCEEDED: Meaning(_S.FAILED_PRECONDITION, 400, "Payment not succeeded"),
    Code.ALREADY_REFUNDED: Meaning(_S.ALREADY_EXISTS, 409, "Payment is already refunded"),
    Code.NOT_FOUND: Meaning(_S.NOT_FOUND, 404, "Not found"),
    Code.MISSING_IDEMPOTENCY_KEY: Meaning(_S.INVALID_ARGUMENT, 400, "Missing idempotency key"),
    Code.SETTLEMENT_ASSET_CONFLICT: Meaning(
        _S.ALREADY_EXISTS, 409, "Asset already has a settlement"
    ),
    Code.VERSION_CONFLICT: Meaning(_S.ABORTED, 409, "Version conflict"),
    Code.BAD_GATEWAY: Meaning(_S.UNAVAILABLE, 502, "Bad gateway"),
}


# the names of facts that refusals tell, each a text; more may come
DETAILS: Mapping[str, str] = {
    "reason": "Why, where the code leaves it open.",
    "refused": "Whom a token refuses: everybody, payer, receiver or operator.",
    "revert": "What a contract said when it reverted, in its own words.",
    "index": "Which output of the results is at fault, from 0.",
    "url": "Where the buyer gives the data that is missing.",
    "unit": "What the amounts beside it are in.",
    "minAmount": "The least that can be asked for, in minor units.",
    "maxAmount": "The most that can be asked for, in minor units.",
    "refunded": "What the refunds of the payment come to, in minor units.",
    "refundable": "What is left to refund of the payment, in minor units.",
    "maxRefunds": "The most refunds that one payment takes.",
    "pinned": "The version that the account is pinned to.",
    "supported": "The published versions.",
    "afterVersion": "The last version that a stream sent: watch again after it.",
}


@dataclass(frozen=True, slots=True)
class Issue:
    """One fault of a request: the member's path, e.g. `amount.value`, and what is wrong with it."""

    field: str
    message: str


class FlorinError(Exception):
    """A call that is refused.

    `details` holds machine-readable facts, named in DETAILS, as texts. `retry_after_s` is
    set when the same call may succeed later. `unavailable` turns internal_error into 503. `like`
    tells a code with the statuses of another one.
    """

    def __init__(
        self,
        code: Code,
        message: str = "",
        *,
        issues: tuple[Issue, ...] = (),
        details: Mapping[str, str] | None = None,
        retry_after_s: int | None = None,
        unavailable: bool = False,
        like: Code | None = None,
    ) -> None:
        meaning = REGISTRY[like or code]
        self.code = code
        self.message = message or REGISTRY[code].message
        self.issues = issues
        self.details: Mapping[str, str] = details or {}
        self.retry_after_s = retry_after_s
        self.grpc = _S.UNAVAILABLE if unavailable else meaning.grpc
        self.http = 503 if unavailable else meaning.http
        super().__init__(f"{code}: {self.message}")


def invalid(field: str, message: str, **details: str) -> FlorinError:
    """A body that breaks the schema at one member."""
    return FlorinError(
        Code.PARAMS_VALIDATION,
        f"Validation error: {field}: {message}",
        issues=(Issue(field, message),),
        details=details,
    )


def invalid_members(issues: Sequence[Issue]) -> FlorinError:
    """A body that breaks the schema at these members."""
    first = issues[0]
    return FlorinError(
        Code.PARAMS_VALIDATION,
        f"Validation error: {first.field}: {first.message}",
        issues=tuple(issues),
    )
