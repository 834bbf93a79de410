"""The same refusal in both wire profiles: other codes, one HTTP status."""

from __future__ import annotations

import pytest
from florin_server.domain import refusals
from florin_server.domain.errors import Code, GrpcStatus

C = Code
CASES = [
    (refusals.merchant_unknown, C.MERCHANT_NOT_FOUND, C.NOT_FOUND, 404, "Merchant not found"),
    (refusals.settlement_unknown, C.INVALID_PARAMS, C.NOT_FOUND, 404, "Settlement not found"),
    (refusals.refunded_payment_unknown, C.PAYMENT_NOT_FOUND, C.NOT_FOUND, 404, "Payment not found"),
    (
        refusals.idempotency_key_missing,
        C.INVALID_PARAMS,
        C.MISSING_IDEMPOTENCY_KEY,
        400,
        "Idempotency-Key is required",
    ),
    (
        refusals.settlement_asset_taken,
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
def test_both_profiles_tell_it(refusal, documented, deployed, http, message):
    for is_deployed, code in ((False, documented), (True, deployed)):
        told = refusal(wcp_profile=is_deployed)
        assert (told.code, told.http, told.message) == (code, http, message)


def test_a_taken_asset_says_so_to_programs():
    for deployed in (False, True):
        told = refusals.settlement_asset_taken(wcp_profile=deployed)
        assert told.details == {"reason": "settlement_asset_conflict"}


def test_a_dependency_that_is_down_is_to_be_asked_again():
    documented = refusals.dependency_down(wcp_profile=False)
    assert (documented.code, documented.retry_after_s) == (C.INTERNAL_ERROR, 1)
    assert (documented.http, documented.grpc) == (503, GrpcStatus.UNAVAILABLE)
    deployed = refusals.dependency_down(wcp_profile=True)
    assert (deployed.code, deployed.retry_after_s) == (C.BAD_GATEWAY, 1)
    assert (deployed.http, deployed.grpc) == (502, GrpcStatus.UNAVAILABLE)
