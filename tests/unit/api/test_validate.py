"""Test the bounds that the protos declare, on every request."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from florin.v1 import (
    account_pb2,
    admin_pb2,
    gateway_pb2,
    listing_pb2,
    merchant_pb2,
    note_pb2,
    operator_pb2,
    partner_pb2,
    payment_pb2,
    webhook_service_pb2,
)
from florin_server.api.server.validate import RequestValidator
from florin_server.domain.errors import ApiError
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

SERVICES = (admin_pb2, gateway_pb2, merchant_pb2, operator_pb2, webhook_service_pb2)
USD = {"unit": "iso4217/USD", "value": "1250"}


def faults(message) -> dict[str, str]:
    """Return the invalid members with their messages."""
    try:
        RequestValidator(message.DESCRIPTOR)(message)
    except ApiError as error:
        return read_issues(error)
    return {}


def read_issues(error: ApiError) -> dict[str, str]:
    assert (error.http_status, error.code) == (400, "params_validation")
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
    # false is a value of a member whose presence is known
    assert faults(note_pb2.UpdatePaymentNoteRequest()) == {"deleted": "is required"}
    assert faults(note_pb2.UpdatePaymentNoteRequest(deleted=False)) == {}


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


@pytest.mark.parametrize(
    "control", [*map(chr, range(32)), *map(chr, range(0x7F, 0xA0)), "\u202e", "\u2066", "\u2028"]
)
def test_control_characters(control):
    assert set(faults(create(reference_id=f"a{control}b"))) == {"referenceId"}


JSON_CONTROLS = ["\\u0000", "\\u000a", "\\u009b", "\\u202e", "\x9b", "\u2066"]


@pytest.mark.parametrize("control", JSON_CONTROLS)
def test_control_characters_in_json_are_refused_escaped_or_not(control):
    output = "has control characters"
    data = f'{{"fields": [{{"id": "fullName", "value": "a{control}b"}}]}}'
    request = gateway_pb2.FetchActionRequest(option_id="x", collected_data_json=data)
    assert faults(request) == {"collectedData": f"{output} in fields[0].value"}
    result = gateway_pb2.ActionResult(
        type=gateway_pb2.ACTION_RESULT_TYPE_WALLET_RPC, output_json=['"0x"', f'"a{control}b"']
    )
    confirm = gateway_pb2.ConfirmPaymentRequest(option_id="x", results=[result])
    assert faults(confirm) == {"results[0].data[1]": output}


def test_lone_surrogate_in_json_is_refused():
    request = gateway_pb2.FetchActionRequest(option_id="x", collected_data_json='"\\ud800"')
    assert set(faults(request)) == {"collectedData"}


def test_faults_inside_lists_name_their_place():
    results = [
        gateway_pb2.ActionResult(type=gateway_pb2.ACTION_RESULT_TYPE_WALLET_RPC),
        gateway_pb2.ActionResult(),
        gateway_pb2.ActionResult(type=99),  # type: ignore[arg-type]
    ]
    request = gateway_pb2.ConfirmPaymentRequest(option_id="x", results=results)
    assert faults(request) == {"results[1].type": "is required", "results[2].type": "is unknown"}


def test_lists_have_bounds():
    action_result = gateway_pb2.ActionResult(type=gateway_pb2.ACTION_RESULT_TYPE_WALLET_RPC)
    fits = gateway_pb2.ConfirmPaymentRequest(option_id="x", results=[action_result] * 64)
    assert faults(fits) == {}
    over = gateway_pb2.ConfirmPaymentRequest(option_id="x", results=[action_result] * 65)
    assert set(faults(over)) == {"results"}
    action_result.output_json.extend(["1"] * 65)
    inside = gateway_pb2.ConfirmPaymentRequest(option_id="x", results=[action_result])
    assert set(faults(inside)) == {"results[0].data"}


def test_numbers_have_bounds():
    assert faults(payment_pb2.WatchPaymentRequest(after_version=0)) == {}
    assert set(faults(payment_pb2.WatchPaymentRequest(after_version=-1))) == {"afterVersion"}


def test_enums_that_must_be_chosen():
    assert set(faults(partner_pb2.CreateApiKeyRequest())) == {"kind"}
    assert set(faults(partner_pb2.CreateApiKeyRequest(kind=99))) == {"kind"}  # type: ignore[arg-type]
    for unknown in (0, 99):
        request = partner_pb2.CreateApiKeyRequest(
            kind=partner_pb2.API_KEY_KIND_WALLET,
            scopes=[unknown],  # type: ignore[list-item]
        )
        assert faults(request) == {"scopes[0]": "is unknown"}


def test_a_list_that_needs_items():
    request = account_pb2.CreateCryptoSettlementsRequest(merchant_id="mrch_1")
    assert faults(request) == {"settlements": "must have at least 1 item"}
    item = {"asset": "a", "destination": "d"}
    fits = account_pb2.CreateCryptoSettlementsRequest(settlements=[item] * 50)  # type: ignore[list-item]
    assert faults(fits) == {}
    over = account_pb2.CreateCryptoSettlementsRequest(settlements=[item] * 51)  # type: ignore[list-item]
    assert faults(over) == {"settlements": "must have at most 50 items"}
    # these can be empty
    assert faults(gateway_pb2.GetPaymentOptionsRequest()) == {}
    assert faults(gateway_pb2.ConfirmPaymentRequest(option_id="x")) == {}


PARAMETERS = [
    (listing_pb2.ListPaymentsRequest(limit=0), "limit must be at least 1"),
    (listing_pb2.ListPaymentsRequest(limit=201), "limit must be at most 200"),
    (listing_pb2.ListPaymentsRequest(reference_id=""), "referenceId must have at least 3"),
    (listing_pb2.ListPaymentsRequest(token_symbol=["USDC", ""]), "token_symbol[1] must have"),
    (listing_pb2.ListPaymentsRequest(asset=["x" * 257]), "asset[0] must have at most 256"),
    (listing_pb2.ListPaymentsRequest(status=[1, 0]), "status[1] is unknown"),
    (listing_pb2.ListPaymentsRequest(status=[99]), "status[0] is unknown"),  # type: ignore[list-item]
    (listing_pb2.ListPaymentsRequest(sort_by=99), "sortBy is unknown"),  # type: ignore[arg-type]
    (payment_pb2.WatchPaymentRequest(after_version=-1), "afterVersion must be at least 0"),
]


def confirm(*outputs: str):
    result = {"type": gateway_pb2.ACTION_RESULT_TYPE_WALLET_RPC, "output_json": outputs}
    return gateway_pb2.ConfirmPaymentRequest(option_id="x", results=[result])


@pytest.mark.parametrize("output", ['"0x12"', "{}", "5", "null", ' "a" ', '"\\ud83d\\ude00"'])
def test_outputs_that_are_json(output):
    assert faults(confirm('"0x34"', output)) == {}


@pytest.mark.parametrize(
    "output", ["0x12ab", "", "0x" + "5a" * 65, "AQID", "{", "NaN", "'0x12'", '"a" "b"', '"\\ud83d"']
)
def test_output_that_is_not_json_is_refused_with_an_example(output):
    result = faults(confirm('"0x34"', output))
    assert set(result) == {"results[0].data[1]"}
    assert result["results[0].data[1]"] == (
        r'must be JSON text, in which a string has its quotes: "\"0x12ab\""'
    )
    fetch = gateway_pb2.FetchActionRequest(option_id="x", collected_data_json=output)
    assert set(faults(fetch)) == {"collectedData"}


@pytest.mark.parametrize(("request_", "message"), PARAMETERS)
def test_faults_of_parameters_have_a_code_of_their_own(request_, message):
    service = merchant_pb2.DESCRIPTOR.services_by_name["MerchantService"]
    name = "WatchPayment" if "Watch" in request_.DESCRIPTOR.name else "ListPayments"
    with pytest.raises(ApiError) as caught:
        RequestValidator.for_method(service.methods_by_name[name])(request_)
    assert (caught.value.http_status, caught.value.code) == (400, "invalid_params")
    assert caught.value.message.startswith(message)
    assert [issue.field for issue in caught.value.issues] == [message.split()[0]]


def test_a_path_field_of_a_call_with_a_body_is_a_parameter():
    admin = admin_pb2.DESCRIPTOR.services_by_name["AdminService"].methods_by_name
    # the body is validated first, without the path's fields
    validate = RequestValidator.for_method(admin["UpdateCryptoSettlement"])
    with pytest.raises(ApiError) as caught:
        validate(account_pb2.UpdateCryptoSettlementRequest(merchant_id="m", id="x"))
    assert caught.value.code == "params_validation"
    assert [issue.field for issue in caught.value.issues] == ["destination"]
    # gRPC-only calls have no path
    operator = operator_pb2.DESCRIPTOR.services_by_name["OperatorService"].methods_by_name
    with pytest.raises(ApiError) as caught:
        RequestValidator.for_method(operator["CreateApiKey"])(partner_pb2.CreateApiKeyRequest())
    assert caught.value.code == "params_validation"


def requests() -> Iterator[Descriptor]:
    """Yield the request messages of all RPCs of this service."""
    for module in SERVICES:
        for service in module.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                yield method.input_type


def with_nul(descriptor: Descriptor, depth: int = 4) -> Iterator[tuple[Message, str]]:
    """Yield, for each text field, a message with a NUL in it, and the field's path."""
    make = GetMessageClass(descriptor)
    for field in descriptor.fields:
        message = make()
        if field.type == FieldDescriptor.TYPE_STRING:
            if field.is_repeated:
                getattr(message, field.name).append("a\0b")
                yield message, f"{field.json_name}[0]"
            else:
                setattr(message, field.name, "a\0b")
                yield message, field.json_name
        elif field.message_type is not None and depth:
            for inner, path in with_nul(field.message_type, depth - 1):
                message = make()
                if field.message_type.GetOptions().map_entry:
                    # a key that is refused is not part of the path
                    getattr(message, field.name)[inner.key or "k"] = inner.value
                    yield message, field.json_name + (".k" if path == "value" else "")
                    continue
                if field.is_repeated:
                    getattr(message, field.name).append(inner)
                    yield message, f"{field.json_name}[0].{path}"
                else:
                    getattr(message, field.name).CopyFrom(inner)
                    yield message, f"{field.json_name}.{path}"


@pytest.mark.parametrize("descriptor", list(requests()), ids=lambda item: item.name)
def test_nul_is_refused_in_every_text_of_every_request(descriptor):
    validator = RequestValidator(descriptor)
    for message, path in with_nul(descriptor):
        with pytest.raises(ApiError) as caught:
            validator(message)
        assert path in {issue.field for issue in caught.value.issues}
