"""Test refusals in both wire profiles: different codes, one HTTP status."""

from __future__ import annotations

import pytest
from florin_server.domain import refusals
from florin_server.domain.errors import ErrorCode, GrpcStatus

C = ErrorCode
GRPC = {
    400: GrpcStatus.INVALID_ARGUMENT,
    404: GrpcStatus.NOT_FOUND,
    409: GrpcStatus.ALREADY_EXISTS,
}
CASES = [
    (
        refusals.merchant_not_found_error,
        C.MERCHANT_NOT_FOUND,
        C.NOT_FOUND,
        404,
        "Merchant not found",
    ),
    (
        refusals.settlement_not_found_error,
        C.INVALID_PARAMS,
        C.NOT_FOUND,
        404,
        "Settlement not found",
    ),
    (
        refusals.refund_payment_not_found_error,
        C.PAYMENT_NOT_FOUND,
        C.NOT_FOUND,
        404,
        "Payment not found",
    ),
    (
        refusals.missing_idempotency_key_error,
        C.INVALID_PARAMS,
        C.MISSING_IDEMPOTENCY_KEY,
        400,
        "Idempotency-Key is required",
    ),
    (
        refusals.settlement_asset_conflict_error,
        C.INVALID_STATE,
        C.SETTLEMENT_ASSET_CONFLICT,
        409,
        "Asset already has a settlement",
    ),
]


@pytest.mark.parametrize(
    ("refusal", "documented", "deployed", "http", "message"),
    CASES,
    ids=lambda case: getattr(case, "__name__", None),
)
def test_refusal_has_its_code_in_both_profiles(refusal, documented, deployed, http, message):
    for is_deployed, code in ((False, documented), (True, deployed)):
        result = refusal(wcp_profile=is_deployed)
        assert (result.code, result.http_status, result.message) == (code, http, message)
        assert result.grpc_status is GRPC[http]


def test_a_taken_asset_says_so_to_programs():
    for deployed in (False, True):
        error = refusals.settlement_asset_conflict_error(wcp_profile=deployed)
        assert error.details == {"reason": "settlement_asset_conflict"}


def test_unavailable_dependency_error_has_retry_after():
    documented = refusals.bad_gateway_error(wcp_profile=False)
    assert (documented.code, documented.retry_after_s) == (C.INTERNAL_ERROR, 1)
    assert (documented.http_status, documented.grpc_status) == (503, GrpcStatus.UNAVAILABLE)
    deployed = refusals.bad_gateway_error(wcp_profile=True)
    assert (deployed.code, deployed.retry_after_s) == (C.BAD_GATEWAY, 1)
    assert (deployed.http_status, deployed.grpc_status) == (502, GrpcStatus.UNAVAILABLE)
