"""Bounds that the protos declare, as every request meets them."""

from __future__ import annotations

import pytest
from florin.v1 import admin_pb2, gateway_pb2, merchant_pb2, payment_pb2
from florin_server.domain.errors import FlorinError
from florin_server.rpc.validate import Validator

USD = {"unit": "iso4217/USD", "value": "1250"}


def faults(message) -> dict[str, str]:
    """The members at fault."""
    try:
        Validator(message.DESCRIPTOR)(message)
    except FlorinError as error:
        return told(error)
    return {}


def told(error: FlorinError) -> dict[str, str]:
    assert (error.http, error.code) == (400, "params_validation")
    first = error.issues[0]
    assert error.message == f"Validation error: {first.field}: {first.message}"
    return {issue.field: issue.message for issue in error.issues}


def create(**members):
    return merchant_pb2.CreatePaymentRequest(**{"amount": USD, **members})


def test_a_good_request():
    assert faults(create(reference_id="x", expires_at=1, checkout={"success_url": "x"})) == {}


def test_messages_and_texts_that_are_missing():
    assert set(faults(merchant_pb2.CreatePaymentRequest())) == {"amount"}
    assert set(faults(create(amount={}))) == {"amount.unit", "amount.value"}
    assert set(faults(gateway_pb2.FetchActionRequest())) == {"optionId"}


@pytest.mark.parametrize("value", ["0", "1", "9" * 78])
def test_values_of_the_right_form(value):
    assert faults(create(amount={**USD, "value": value})) == {}


@pytest.mark.parametrize(
    "value", ["00", "01", "-1", "1.0", "1\n", "\n1", " 1", "1" * 79, "١", "1e1"]
)
def test_values_of_the_wrong_form(value):
    assert set(faults(create(amount={**USD, "value": value}))) == {"amount.value"}


def test_the_length_of_texts_counts_characters():
    assert faults(create(reference_id="😀" * 255)) == {}
    assert set(faults(create(reference_id="😀" * 256))) == {"referenceId"}
    assert set(faults(create(reference_id=""))) == {"referenceId"}
    assert faults(create()) == {}


@pytest.mark.parametrize("control", [*map(chr, range(32)), "\x7f"])
def test_control_characters(control):
    assert set(faults(create(reference_id=f"a{control}b"))) == {"referenceId"}


def test_faults_inside_lists_name_their_place():
    results = [
        gateway_pb2.ActionResult(type=gateway_pb2.ACTION_RESULT_TYPE_WALLET_RPC),
        gateway_pb2.ActionResult(),
        gateway_pb2.ActionResult(type=99),  # type: ignore[arg-type]
    ]
    request = gateway_pb2.ConfirmPaymentRequest(option_id="x", results=results)
    assert faults(request) == {"results[1].type": "is required", "results[2].type": "is unknown"}


def test_lists_have_bounds():
    one = gateway_pb2.ActionResult(type=gateway_pb2.ACTION_RESULT_TYPE_WALLET_RPC)
    fits = gateway_pb2.ConfirmPaymentRequest(option_id="x", results=[one] * 64)
    assert faults(fits) == {}
    over = gateway_pb2.ConfirmPaymentRequest(option_id="x", results=[one] * 65)
    assert set(faults(over)) == {"results"}
    one.output_json.extend(["1"] * 65)
    inside = gateway_pb2.ConfirmPaymentRequest(option_id="x", results=[one])
    assert set(faults(inside)) == {"results[0].data"}


def test_numbers_have_bounds():
    assert faults(payment_pb2.WatchPaymentRequest(after_version=0)) == {}
    assert set(faults(payment_pb2.WatchPaymentRequest(after_version=-1))) == {"afterVersion"}


def test_enums_that_must_be_chosen():
    assert set(faults(admin_pb2.CreateApiKeyRequest())) == {"kind"}
    assert set(faults(admin_pb2.CreateApiKeyRequest(kind=99))) == {"kind"}  # type: ignore[arg-type]
