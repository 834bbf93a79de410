import pytest
from florin.v1 import errors_pb2
from florin_server.domain.errors import (
    ERROR_SPECS,
    ApiError,
    ErrorCode,
    FieldIssue,
    validation_error,
    validation_error_for,
)

DOCUMENTED = """
    rate_limited 429 RESOURCE_EXHAUSTED
    invalid_params 400 INVALID_ARGUMENT
    params_validation 400 INVALID_ARGUMENT
    payment_not_found 404 NOT_FOUND
    idempotency_conflict 409 ALREADY_EXISTS
    internal_error 500 INTERNAL
    invalid_api_key 401 UNAUTHENTICATED
    unauthorized 401 UNAUTHENTICATED
    forbidden 403 PERMISSION_DENIED
    invalid_state 400 FAILED_PRECONDITION
    payment_expired 410 FAILED_PRECONDITION
    quote_expired 409 ABORTED
    missing_api_key 401 UNAUTHENTICATED
    missing_merchant_api_key 401 UNAUTHENTICATED
    missing_merchant_id 401 UNAUTHENTICATED
    header_not_ascii 400 INVALID_ARGUMENT
    not_sandbox_api_key 403 PERMISSION_DENIED
    merchant_not_found 404 NOT_FOUND
    merchant_exists 409 ALREADY_EXISTS
    api_key_not_found 404 NOT_FOUND
    partner_not_found 404 NOT_FOUND
    customer_not_found 404 NOT_FOUND
    wallet_not_found 404 NOT_FOUND
    executor_not_found 404 NOT_FOUND
    missing_app_id 401 UNAUTHENTICATED
    missing_client_id 401 UNAUTHENTICATED
    invalid_app_id 401 UNAUTHENTICATED
    conflicting_auth_headers 400 INVALID_ARGUMENT
    missing_auth_headers 401 UNAUTHENTICATED
    invalid_api_version 400 INVALID_ARGUMENT
    unknown_api_version 400 INVALID_ARGUMENT
    api_version_downgrade 400 FAILED_PRECONDITION
    sanctioned_user 451 PERMISSION_DENIED
    payment_not_succeeded 400 FAILED_PRECONDITION
    already_refunded 409 ALREADY_EXISTS
"""
ROWS = [tuple(line.split()) for line in DOCUMENTED.split("\n") if line.strip()]
DEPLOYED = {
    "not_found": 404,
    "missing_idempotency_key": 400,
    "settlement_asset_conflict": 409,
    "version_conflict": 409,
    "bad_gateway": 502,
}
OWN_WORDS = {
    "rate_limited": "Rate limit exceeded",
    "params_validation": "Validation error",
    "quote_expired": "Quote expired, refetch options",
    "api_version_downgrade": "Version is older than the account's pin",
    "sanctioned_user": "This account cannot be served",
    "already_refunded": "Payment is already refunded",
    "settlement_asset_conflict": "Asset already has a settlement",
}


def test_the_registry_covers_the_codes_of_the_protos():
    names = {name.removeprefix("ERROR_CODE_") for name, _ in errors_pb2.ErrorCode.items()}
    assert {code.name for code in ERROR_SPECS} == names - {"UNSPECIFIED"}
    assert set(ERROR_SPECS) == set(ErrorCode)


def test_a_code_is_its_name_in_lower_case():
    assert all(code.value == code.name.lower() for code in ErrorCode)


@pytest.mark.parametrize(("code", "http", "grpc"), ROWS)
def test_statuses_are_the_documented_ones(code, http, grpc):
    meaning = ERROR_SPECS[ErrorCode(code)]
    assert (str(meaning.http_status), meaning.grpc_status.value) == (http, grpc)


def test_the_documented_codes_are_35_and_the_deployed_profile_adds_five():
    documented = {row[0] for row in ROWS}
    assert len(documented) == 35
    assert {code.value for code in ErrorCode} - documented == set(DEPLOYED)
    assert {code: ERROR_SPECS[ErrorCode(code)].http_status for code in DEPLOYED} == DEPLOYED


@pytest.mark.parametrize("code", ErrorCode)
def test_a_message_is_the_code_in_words_unless_documented_otherwise(code):
    words = code.value.replace("_", " ").capitalize()
    assert ERROR_SPECS[code].message == OWN_WORDS.get(code.value, words)


def test_error_message_defaults_to_the_message_of_its_code():
    assert ApiError(ErrorCode.PAYMENT_NOT_FOUND).message == "Payment not found"
    assert ApiError(ErrorCode.INVALID_PARAMS, "Unknown option").message == "Unknown option"


def test_a_dependency_that_is_down_is_503():
    error = ApiError(ErrorCode.INTERNAL_ERROR, unavailable=True)
    assert (error.http_status, error.grpc_status) == (503, "UNAVAILABLE")


def test_a_body_fault_names_its_member():
    error = validation_error("amount.value", "must be digits", unit="iso4217/USD")
    assert error.code is ErrorCode.PARAMS_VALIDATION
    assert error.message.startswith("Validation error: amount.value")
    assert error.issues == (FieldIssue("amount.value", "must be digits"),)
    assert error.details == {"unit": "iso4217/USD"}


def test_a_refusal_says_its_code_and_message_in_a_log():
    assert str(ApiError(ErrorCode.INVALID_STATE, "Payment is failed")) == (
        "invalid_state: Payment is failed"
    )


def test_a_body_with_several_faults_begins_with_the_first():
    issues = [FieldIssue("a", "must be x"), FieldIssue("b", "must be y")]
    error = validation_error_for(issues)
    assert (error.code, error.issues) == (ErrorCode.PARAMS_VALIDATION, tuple(issues))
    assert error.message == "Validation error: a: must be x"
