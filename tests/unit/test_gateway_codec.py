"""Test messages as JSON: golden files of the wire, strict parsing, and round trips."""

from __future__ import annotations

import json

import pytest
from florin.v1 import (
    account_pb2,
    customer_pb2,
    gateway_pb2,
    listing_pb2,
    merchant_pb2,
    money_pb2,
    partner_pb2,
    payment_pb2,
    refund_pb2,
    system_pb2,
)
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from grpc_rest_gateway.jsoncodec import JsonCodec
from grpc_rest_gateway.jsonignored import format_ignored_members
from grpc_rest_gateway.jsonshape import (
    find_union,
    get_enum_numbers,
    get_message_type,
    get_rule,
    is_map,
    list_members,
)
from grpc_rest_gateway.profiles import JsonProfile
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.long

CODEC = JsonCodec()
SPEC, DEPLOYED, CANONICAL = JsonProfile.SPEC, JsonProfile.DEPLOYED, JsonProfile.CANONICAL


def shown(message, profile: JsonProfile = SPEC):
    return json.loads(CODEC.get_encoder(message.DESCRIPTOR, profile)(message))


def read(kind, value, profile: JsonProfile = SPEC, without=()):
    message = kind()
    issues = CODEC.get_decoder(kind.DESCRIPTOR, profile, frozenset(without))(value, message)
    return message, [tuple(issue) for issue in issues]


def test_status_json_contains_only_set_members_and_a_null_info():
    status = payment_pb2.GetPaymentStatusResponse(
        status=payment_pb2.PAYMENT_STATUS_REQUIRES_ACTION, poll_in_ms=1000
    )
    text = CODEC.get_encoder(status.DESCRIPTOR, SPEC)(status)
    assert text == b'{"status":"requires_action","isFinal":false,"pollInMs":1000,"info":null}'


def test_a_failure_without_a_code_is_null():
    status = payment_pb2.GetPaymentStatusResponse(
        status=payment_pb2.PAYMENT_STATUS_FAILED, is_final=True, failure_code=0
    )
    assert shown(status) == {
        "status": "failed",
        "isFinal": True,
        "info": None,
        "failureCode": None,
    }
    status.failure_code = payment_pb2.PAYMENT_FAILURE_CODE_DECLINED_USER
    assert shown(status)["failureCode"] == "declined_user"


def test_an_event_is_a_status_with_a_version():
    event = payment_pb2.WatchPaymentResponse(version=3)
    event.payment.status = payment_pb2.PAYMENT_STATUS_PROCESSING
    text = CODEC.get_encoder(event.DESCRIPTOR, SPEC)(event)
    assert text == b'{"status":"processing","isFinal":false,"info":null,"version":3}'


def an_option() -> gateway_pb2.GetPaymentOptionsResponse:
    answer = gateway_pb2.GetPaymentOptionsResponse(payment_id="pay_1")
    option = answer.options.add(id="one", account="eip155:1:0xab", eta_s=5)
    option.amount.unit, option.amount.value = "caip19/x", "10"
    option.amount.display.asset_name = "USD Coin"
    option.amount.display.icon_url = "https://x"
    call = option.actions.add().wallet_rpc
    call.chain_id, call.method, call.params_json = "eip155:1", "sign", '["0x1",{"a":1}]'
    option.actions.add().build.data = "token"
    option.collect_data.url, option.collect_data.schema_json = "https://x", '{"type":"object"}'
    option.collect_data.fields.add(id="dob", name="Born", type=2, required=True)
    return answer


def test_options_in_the_spec_profile():
    assert shown(an_option()) == {
        "paymentId": "pay_1",
        "options": [
            {
                "id": "one",
                "account": "eip155:1:0xab",
                "amount": {
                    "unit": "caip19/x",
                    "value": "10",
                    "display": {
                        "assetName": "USD Coin",
                        "assetSymbol": "",
                        "decimals": 0,
                        "iconUrl": "https://x",
                        "networkIconUrl": None,
                        "networkName": None,
                    },
                },
                "etaS": 5,
                "expiresAt": None,
                "actions": [
                    {
                        "type": "walletRpc",
                        "data": {
                            "chain_id": "eip155:1",
                            "method": "sign",
                            "params": '["0x1",{"a":1}]',
                        },
                    },
                    {"type": "build", "data": {"data": "token"}},
                ],
                "collectData": {
                    "url": "https://x",
                    "schema": '{"type":"object"}',
                    "fields": [{"id": "dob", "name": "Born", "type": "date", "required": True}],
                },
            }
        ],
        "collectData": None,
    }


def test_the_deployed_profile_differs_in_texts_that_hold_json_only():
    spec, deployed = shown(an_option()), shown(an_option(), DEPLOYED)
    option = spec["options"][0]
    option["actions"][0]["data"]["params"] = ["0x1", {"a": 1}]
    option["collectData"]["schema"] = {"type": "object"}
    assert deployed == spec


def test_an_empty_text_that_should_hold_json_is_null():
    assert shown(gateway_pb2.CollectData(), DEPLOYED)["schema"] is None
    assert shown(gateway_pb2.CollectData())["schema"] == ""


def test_a_union_without_a_member_is_null():
    assert shown(gateway_pb2.FetchActionResponse(actions=[{}]))["actions"] == [None]


def test_times_have_exactly_milliseconds():
    key = partner_pb2.ApiKey(last4="abcd")
    key.created_at.seconds, key.created_at.nanos = 1771372800, 1_999_999
    assert shown(key)["createdAt"] == "2026-02-18T00:00:00.001Z"
    assert shown(key)["revokedAt"] is None
    key.created_at.seconds, key.created_at.nanos = -62135596800, 0
    assert shown(key)["createdAt"] == "0001-01-01T00:00:00.000Z"


def test_large_integers_stay_numbers():
    detail = merchant_pb2.PaymentDetail(version=2**63 - 1)
    assert b'"version":9223372036854775807' in CODEC.get_encoder(detail.DESCRIPTOR, SPEC)(detail)


def test_enums_in_lists_and_with_acronyms_lose_their_prefix():
    key = partner_pb2.ApiKey(kind=partner_pb2.API_KEY_KIND_WALLET, scopes=[1, 5])
    assert shown(key)["kind"] == "wallet"
    assert shown(key)["scopes"] == ["read", "manage"]


def test_a_value_of_a_newer_server_is_shown_by_number():
    assert shown(payment_pb2.GetPaymentStatusResponse(status=99))["status"] == 99  # type: ignore[arg-type]


CREATE = {"amount": {"unit": "iso4217/USD", "value": "1"}}


def test_a_request_is_read():
    message, issues = read(
        merchant_pb2.CreatePaymentRequest,
        CREATE | {"referenceId": "", "expiresAt": 5, "checkout": {"successUrl": "a"}, "more": {}},
    )
    assert not issues
    assert message.amount.value == "1"
    assert message.HasField("reference_id")
    assert message.expires_at == 5
    assert message.checkout.success_url == "a"


def test_null_is_absent():
    message, issues = read(
        merchant_pb2.CreatePaymentRequest, CREATE | {"referenceId": None, "checkout": None}
    )
    assert not issues
    assert not message.HasField("reference_id")
    assert not message.HasField("checkout")


@pytest.mark.parametrize(
    ("value", "issues"),
    [
        ([], [("", "must be an object")]),
        ("x", [("", "must be an object")]),
        ({}, [("amount", "is required")]),
        ({"amount": None}, [("amount", "is required")]),
        ({"amount": []}, [("amount", "must be an object")]),
        ({"amount": {}}, [("amount.unit", "is required"), ("amount.value", "is required")]),
        (
            {"amount": {"unit": 1, "value": 5}},
            [("amount.unit", "must be a string"), ("amount.value", "must be a string")],
        ),
        (CREATE | {"expiresAt": "5"}, [("expiresAt", "must be an integer")]),
        (CREATE | {"expiresAt": 5.0}, [("expiresAt", "must be an integer")]),
        (CREATE | {"expiresAt": True}, [("expiresAt", "must be an integer")]),
        (CREATE | {"expiresAt": 2**63}, [("expiresAt", "is out of range")]),
        (CREATE | {"expiresAt": 2.0**64}, [("expiresAt", "must be an integer")]),
        (CREATE | {"referenceId": 7}, [("referenceId", "must be a string")]),
        (CREATE | {"reference_id": 7}, []),
        (CREATE | {"checkout": "no object"}, []),
        (CREATE | {"checkout": {"successUrl": 7, "errorUrl": []}}, []),
    ],
)
def test_issues_name_the_member(value, issues):
    assert read(merchant_pb2.CreatePaymentRequest, value)[1] == issues


def confirm(*results):
    return {"optionId": "o", "results": list(results)}


@pytest.mark.parametrize(
    ("value", "issues"),
    [
        ({"optionId": "o"}, [("results", "is required")]),
        ({"optionId": "o", "results": {}}, [("results", "must be an array")]),
        (confirm(), []),
        (confirm(None), [("results[0]", "must be an object")]),
        (
            confirm({"type": "walletRpc", "data": []}, {}),
            [("results[1].type", "is required"), ("results[1].data", "is required")],
        ),
        (confirm({"type": "build", "data": []}), [("results[0].type", "is not a known value")]),
        (
            confirm({"type": "unspecified", "data": []}),
            [("results[0].type", "is not a known value")],
        ),
        (confirm({"type": 1, "data": []}), [("results[0].type", "must be a string")]),
        (confirm({"type": "walletRpc", "data": "x"}), [("results[0].data", "must be an array")]),
    ],
)
def test_issues_within_lists_have_an_index(value, issues):
    assert read(gateway_pb2.ConfirmPaymentRequest, value)[1] == issues


def test_issues_are_limited_to_twenty():
    _, issues = read(gateway_pb2.GetPaymentOptionsRequest, {"accounts": [1] * 1000})
    assert len(issues) == 20
    assert issues[19] == ("accounts[19]", "must be a string")


@pytest.mark.parametrize("profile", [SPEC, DEPLOYED])
def test_outputs_are_read_as_compact_json(profile):
    data = ["0x\n", {"b": [1, {"a": None}]}, None, 1.5, True, 2**64 - 1]
    message, issues = read(
        gateway_pb2.ConfirmPaymentRequest, confirm({"type": "walletRpc", "data": data}), profile
    )
    assert not issues
    assert list(message.results[0].output_json) == [
        '"0x\\n"',
        '{"b":[1,{"a":null}]}',
        "null",
        "1.5",
        "true",
        "18446744073709551615",
    ]


def test_fields_that_the_path_binds_are_no_members():
    value = {"paymentId": 7, "optionId": "o"}
    message, issues = read(gateway_pb2.FetchActionRequest, value, without=["payment_id"])
    assert not issues
    assert message.payment_id == ""
    assert read(gateway_pb2.FetchActionRequest, value)[1] == [("paymentId", "must be a string")]


def test_a_union_is_read_by_its_type():
    kind = gateway_pb2.FetchActionResponse
    message, issues = read(kind, {"actions": [{"type": "build", "data": {"data": "x"}}]})
    assert (message.actions[0].build.data, issues) == ("x", [])
    wrong = [{}, {"type": "nope", "data": {}}, {"type": "build"}, {"type": "build", "data": []}]
    assert read(kind, {"actions": wrong})[1] == [
        ("actions[0].type", "is required"),
        ("actions[1].type", "is not a known value"),
        ("actions[2].data", "is required"),
        ("actions[3].data", "must be an object"),
    ]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-02-18T00:00:00Z", 1771372800),
        ("2026-02-18T01:00:00.5+01:00", 1771372800),
        ("2026-02-18t00:00:00z", 1771372800),
        ("2026-02-18", None),
        ("2026-02-30T00:00:00Z", None),
        ("2026-02-18T00:00:00", None),
        ("2026-02-18T00:00:00Z ", None),
        ("٢026-02-18T00:00:00Z", None),
        (1771372800, None),
    ],
)
def test_times_are_rfc3339_with_an_offset(text, seconds):
    message, issues = read(partner_pb2.ApiKey, {"createdAt": text})
    assert (seconds is None) == bool(issues)
    if seconds is not None:
        assert message.created_at.seconds == seconds


def test_canonical_json_is_that_of_protobuf():
    status = payment_pb2.GetPaymentStatusResponse(
        status=payment_pb2.PAYMENT_STATUS_PROCESSING, poll_in_ms=2
    )
    value = {"status": "PAYMENT_STATUS_PROCESSING", "pollInMs": "2"}
    assert shown(status, CANONICAL) == value
    assert read(payment_pb2.GetPaymentStatusResponse, value, CANONICAL) == (status, [])
    _, issues = read(payment_pb2.GetPaymentStatusResponse, {"status": []}, CANONICAL)
    assert issues == [("status", "must be a string or an integer")]


# every message of the service, with values that its JSON can represent
MESSAGES = [
    GetMessageClass(descriptor)
    for module in (
        *(account_pb2, customer_pb2, gateway_pb2, listing_pb2, merchant_pb2, money_pb2),
        *(partner_pb2, payment_pb2, refund_pb2, system_pb2),
    )
    for descriptor in module.DESCRIPTOR.message_types_by_name.values()
]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
# outside of lists, null means absent
JSON_TEXTS = (
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | TEXTS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
        max_leaves=5,
    )
    .filter(lambda value: value is not None)
    .map(lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False))
)


def one_value(field: FieldDescriptor) -> st.SearchStrategy:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        if field.message_type.full_name == "google.protobuf.Timestamp":
            kind = GetMessageClass(field.message_type)
            seconds, ms = st.integers(-62135596800, 253402300799), st.integers(0, 999)
            return st.builds(lambda s, m: kind(seconds=s, nanos=m * 1_000_000), seconds, ms)
        return a_message(get_message_type(field))
    if field.type == FieldDescriptor.TYPE_ENUM:
        # null represents zero, and unset
        zero = (
            [0] if not (field.has_presence or field.is_repeated or get_rule(field).required) else []
        )
        return st.sampled_from([*zero, *get_enum_numbers(field.enum_type).values()])
    if field.type == FieldDescriptor.TYPE_STRING:
        return JSON_TEXTS if get_rule(field).json_text else TEXTS
    if field.type == FieldDescriptor.TYPE_BOOL:
        return st.booleans()
    bits = 31 if field.type == FieldDescriptor.TYPE_INT32 else 63
    return st.integers(-(2**bits), 2**bits - 1)


def a_message(descriptor) -> st.SearchStrategy:
    kind = GetMessageClass(descriptor)
    if union := find_union(descriptor):
        choices = [st.fixed_dictionaries({f.name: one_value(f)}) for f in union.fields]
        return st.one_of(choices).map(lambda fields: kind(**fields))
    sure, maybe = {}, {}
    for member in list_members(descriptor, SPEC):
        field = member.field
        values = st.deferred(lambda field=field: one_value(field))
        if is_map(field):
            values = st.dictionaries(TEXTS, TEXTS, max_size=3)
        elif field.is_repeated:
            values = st.lists(values, max_size=3)
        holder = maybe if field.has_presence and not member.is_required else sure
        holder[field.name] = values
    return st.fixed_dictionaries(sure, optional=maybe).map(lambda fields: kind(**fields))


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.DESCRIPTOR.name)
@pytest.mark.parametrize("profile", [SPEC, DEPLOYED])
def test_every_message_comes_back(kind, profile):
    @settings(max_examples=10, deadline=None, database=None)
    @given(a_message(kind.DESCRIPTOR))
    def comes_back(message):
        text = CODEC.get_encoder(kind.DESCRIPTOR, profile)(message)
        assert read(kind, json.loads(text), profile) == (message, [])

    comes_back()


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            TEXTS
            | st.sampled_from(["amount", "unit", "results", "type", "data", "options", "actions"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(ANYTHING, st.sampled_from(MESSAGES))
@settings(max_examples=300, deadline=None)
def test_no_value_breaks_a_decoder(value, kind):
    _, issues = read(kind, value)
    assert all(isinstance(path, str) and message for path, message in issues)


@pytest.mark.parametrize("profile", [SPEC, DEPLOYED])
def test_a_strict_message_refuses_members_that_it_does_not_have(profile):
    body = {"paymentId": "pay_1", "amuont": 1, "amount": {"unit": "u", "value": "1", "x": None}}
    _, issues = read(refund_pb2.CreateRefundRequest, body, profile)
    assert issues == [("amuont", "is unknown"), ("amount.x", "is unknown")]
    many = {f"{n}{'x' * 100}": 1 for n in range(30)}
    _, issues = read(refund_pb2.CreateRefundRequest, many, profile)
    assert len(issues) <= 21
    assert all(len(name) <= 64 for name, _ in issues)


NEW = merchant_pb2.CreatePaymentRequest.DESCRIPTOR


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ({}, ""),
        ({"amount": {"unit": "x"}, "metadata": {"any": 1}, "lines": [{"name": 1}]}, ""),
        ({"a": 1, "amount": {"b": 1}}, "a, amount.b"),
        ({"lines": [{}, {"c": 1}], "checkout": {"d": {}}}, "checkout.d, lines[1].c"),
        # of the wrong type: a fault, and not ignored
        ({"amount": "x", "lines": "x", "checkout": [1]}, ""),
        ({"a b\r\né\u202e": 1, "": 1}, "a?b????, "),
        ({"x" * 100: 1}, "x" * 64),
        ({f"x{n}": n for n in range(12)}, ", ".join([*(f"x{n}" for n in range(10)), "..."])),
        ([1], ""),
    ],
)
def test_ignored_members_are_named_by_path(value, names):
    assert format_ignored_members(value, NEW, frozenset()) == names


def test_ignored_members_of_unions_and_of_the_path_are_named():
    kind = gateway_pb2.ConfirmPaymentRequest.DESCRIPTOR
    results = [{"type": "walletRpc", "data": ["0x"], "e": 1}, {"type": "other", "data": {"f": 1}}]
    value = {"optionId": "o", "results": results, "paymentId": "pay_1"}
    names = format_ignored_members(value, kind, frozenset({"payment_id"}))
    assert names == "paymentId, results[0].e"


def test_members_that_a_strict_message_refuses_are_not_ignored():
    kind = refund_pb2.CreateRefundRequest.DESCRIPTOR
    assert format_ignored_members({"x": 1, "amount": {"y": 1}}, kind, frozenset()) == ""


def test_empty_list_and_map_are_left_out_where_their_field_says_so():
    detail = merchant_pb2.PaymentDetail()
    assert not {"lines", "metadata"} & shown(detail).keys()
    assert shown(detail)["refunds"] == []
    for name in ("b", "a", "c"):
        detail.metadata[name] = name
    assert list(shown(detail)["metadata"]) == ["a", "b", "c"]
