"""Test the JSON dialect of lists and changes: comma, clearable, sparse, older header names."""

from __future__ import annotations

import json

import pytest
from florin.v1 import account_pb2, listing_pb2, payment_pb2
from florin_server.web.headers import HEADERS
from google.protobuf.message_factory import GetMessageClass
from grpc_rest_gateway.app import RestGateway
from grpc_rest_gateway.errors import RefusedError
from grpc_rest_gateway.headers import HeaderRules, RequestHeaders
from grpc_rest_gateway.jsoncodec import JsonCodec
from grpc_rest_gateway.parameters import QueryFields
from grpc_rest_gateway.profiles import JsonProfile
from grpc_rest_gateway.routes import RouteBinding, RouteError
from grpc_rest_gateway.settings import GatewaySettings, HeaderSettings

from tests.support.proto_services import (
    PermissiveBackend,
    compile_bindings,
    compile_service,
    read_request,
)

OPTION = "(gateway_options.v1.field)"
CODEC = JsonCodec()
SHAPES = """
message ListRequest {
  string id = 1;
  repeated Colour colours = 2 [(gateway_options.v1.field).comma = true];
  repeated string names = 3 [(gateway_options.v1.field).comma = true];
  repeated string plain = 4;
  repeated int64 numbers = 5 [(gateway_options.v1.field).comma = true];
  optional string icon = 6 [(gateway_options.v1.field) = { clearable: true query: true }];
}
message Leaf { optional string text = 1; Colour colour = 2; int32 count = 3; Leaf next = 4; }
message ListAnswer {
  Leaf full = 1;
  Leaf bare = 2 [(gateway_options.v1.field).sparse = true];
  repeated Leaf bares = 3 [(gateway_options.v1.field).sparse = true];
  map<string, Leaf> mapped = 4 [(gateway_options.v1.field).sparse = true];
  Leaf spread = 5 [(gateway_options.v1.field) = { sparse: true flatten: true }];
  google.protobuf.Timestamp at = 6;
}
"""


def lab(tmp_path_factory, rule: str) -> RouteBinding:
    rpc = f"rpc Do(ListRequest) returns (ListAnswer) {{ option (google.api.http) = {{ {rule} }}; }}"
    return compile_bindings(tmp_path_factory.mktemp("protos"), rpc, SHAPES)[0]


@pytest.fixture(scope="module")
def listing(tmp_path_factory) -> RouteBinding:
    return lab(tmp_path_factory, 'get: "/v1/{id}"')


@pytest.fixture(scope="module")
def change(tmp_path_factory) -> RouteBinding:
    return lab(tmp_path_factory, 'patch: "/v1/{id}" body: "*"')


def parse_request(binding: RouteBinding, query: str = "", body: bytes = b""):
    return read_request(binding, query, body, ("x",))


def refusal(binding: RouteBinding, query: str = "", body: bytes = b"") -> RefusedError:
    with pytest.raises(RefusedError) as refused:
        parse_request(binding, query, body)
    return refused.value


# comma


@pytest.mark.parametrize(
    ("query", "field", "values"),
    [
        ("colours=red,deep_blue", "colours", [1, 2]),
        ("colours=red&colours=deep_blue,red", "colours", [1, 2, 1]),
        ("colours=red%2Cdeep_blue", "colours", [1, 2]),
        ("names=a,b&names=c", "names", ["a", "b", "c"]),
        ("names=a,+b", "names", ["a", " b"]),
        ("numbers=1,-2", "numbers", [1, -2]),
        ("plain=a,b&plain=c", "plain", ["a,b", "c"]),
        ("plain=", "plain", [""]),
    ],
)
def test_a_list_in_the_query_is_split_where_its_field_says_so(listing, query, field, values):
    assert list(getattr(parse_request(listing, query), field)) == values


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("names=", "names"),
        ("names=a,", "names"),
        ("names=,a", "names"),
        ("names=a,,b", "names"),
        ("names=a&names=", "names"),
        ("colours=red,", "colours"),
        ("colours=red,+deep_blue", "colours"),
        ("colours=red,green", "colours"),
        ("colours=COLOUR_RED", "colours"),
        ("numbers=1,x", "numbers"),
    ],
)
def test_every_item_must_be_a_value(listing, query, name):
    refused = refusal(listing, query)
    assert (refused.status, refused.code) == (400, "invalid_params")
    assert [issue.field for issue in refused.issues] == [name]


def test_list_query_accepts_comma_separated_values():
    request = listing_pb2.ListPaymentsRequest()
    query = QueryFields(request.DESCRIPTOR, frozenset())
    query.set_fields(request, [("status", "succeeded,failed"), ("status", "expired")])
    assert list(request.status) == [
        payment_pb2.PAYMENT_STATUS_SUCCEEDED,
        payment_pb2.PAYMENT_STATUS_FAILED,
        payment_pb2.PAYMENT_STATUS_EXPIRED,
    ]


# clearable


@pytest.mark.parametrize(
    ("body", "present", "text"),
    [(b"{}", False, ""), (b'{"icon":null}', True, ""), (b'{"icon":"a"}', True, "a")],
)
def test_null_clears_a_clearable_field(change, body, present, text):
    request = parse_request(change, "", body)
    assert (request.HasField("icon"), request.icon) == (present, text)


@pytest.mark.parametrize(
    ("body", "message"),
    [(b'{"icon":""}', "must not be empty"), (b'{"icon":7}', "must be a string")],
)
def test_an_empty_text_does_not_clear(change, body, message):
    refused = refusal(change, "", body)
    assert refused.code == "params_validation"
    assert [tuple(issue) for issue in refused.issues] == [("icon", message)]


def test_a_query_cannot_clear(change):
    assert parse_request(change, "icon=q", b'{"icon":null}').icon == "q"
    assert refusal(change, "icon=").code == "invalid_params"


def test_a_logo_is_cleared_by_null():
    kind = account_pb2.UpdateMerchantRequest
    message = kind()
    assert not CODEC.get_decoder(kind.DESCRIPTOR, JsonProfile.SPEC)({"iconUrl": None}, message)
    assert message.HasField("icon_url")
    # in other fields null means absent
    assert not CODEC.get_decoder(kind.DESCRIPTOR, JsonProfile.SPEC)({"merchantName": None}, message)
    assert not message.HasField("merchant_name")


# sparse


def test_unset_members_are_left_out_below_a_sparse_field(listing):
    message = GetMessageClass(listing.method.output_type)()
    for leaf in (
        message.full,
        message.bare,
        message.bares.add(),
        message.mapped["k"],
        message.spread,
    ):
        leaf.next.SetInParent()
    small = {"count": 0, "next": {"count": 0}}
    empty = {"text": None, "colour": None, "count": 0, "next": None}
    assert json.loads(listing.encoders[JsonProfile.SPEC](message)) == {
        "full": {**empty, "next": empty},
        "bare": small,
        "bares": [small],
        "mapped": {"k": small},
        **small,
        "at": None,
    }


def test_set_members_stay_below_a_sparse_field(listing):
    message = GetMessageClass(listing.method.output_type)()
    message.bare.text, message.bare.colour, message.bare.count = "", 2, 3
    shown = json.loads(listing.encoders[JsonProfile.SPEC](message))
    assert shown["bare"] == {"text": "", "colour": "deep_blue", "count": 3}


def test_list_row_omits_members_that_the_detail_shows_as_null():
    row = listing_pb2.PaymentRow(payment_id="pay_1")
    row.fiat_amount.value = "1"
    row.fiat_amount.display.asset_symbol = "USD"
    row.merchant.id = "mrch_1"
    shown = json.loads(CODEC.get_encoder(row.DESCRIPTOR, JsonProfile.SPEC)(row))
    assert shown["fiatAmount"] == {
        "unit": "",
        "value": "1",
        "display": {"assetName": "", "assetSymbol": "USD", "decimals": 0},
    }
    assert shown["merchant"]["iconUrl"] is None
    assert "tokenAmount" not in shown


# contradictions


@pytest.mark.parametrize(
    "field",
    [
        f"string a = 1 [{OPTION}.comma = true];",
        f"map<string, string> a = 1 [{OPTION}.comma = true];",
        f"string a = 1 [{OPTION}.clearable = true];",
        f"repeated string a = 1 [{OPTION}.clearable = true];",
        f"optional int32 a = 1 [{OPTION}.clearable = true];",
        f"Bare a = 1 [{OPTION}.clearable = true];",
        f"optional string a = 1 [{OPTION} = {{ clearable: true required: true }}];",
        f"optional string a = 1 [{OPTION} = {{ clearable: true min_chars: 1 }}];",
        f"optional string a = 1 [{OPTION} = {{ clearable: true json_text: JSON_TEXT_VALUE }}];",
        f"string a = 1 [{OPTION}.sparse = true];",
        f"repeated Colour a = 1 [{OPTION}.sparse = true];",
        f"map<string, string> a = 1 [{OPTION}.sparse = true];",
        f"google.protobuf.Timestamp a = 1 [{OPTION}.sparse = true];",
        f"google.protobuf.StringValue a = 1 [{OPTION}.sparse = true];",
    ],
)
def test_contradictory_options_of_a_field_fail_the_start(tmp_path, field):
    rpc = 'rpc Do(Bad) returns (Bare) { option (google.api.http) = { get: "/x" }; }'
    with pytest.raises(RouteError, match=r"Bad\.a"):
        compile_bindings(tmp_path, rpc, f"message Bad {{ {field} }}")


@pytest.mark.parametrize(
    "options",
    [
        'header_aliases: { alias: "X-Api-Key" header: "api-key" }',
        'header_aliases: { alias: "" header: "api-key" }',
        'header_aliases: { alias: "x_api_key" header: "api-key" }',
        'header_aliases: { alias: "app-id" header: "api-key" }',
        'header_aliases: { alias: "content-length" header: "api-key" }',
        'header_aliases: { alias: "x-api-key" header: "secret" }',
        'header_aliases: { alias: "x-version" header: "wcp-version" }',
        "deprecated_since: -1",
        'successor: "/v1/x"',
        'deprecated_since: 1 successor: "v1/x"',
        'deprecated_since: 1 successor: "/v1/x>"',
        'deprecated_since: 1 successor: "/v1/\\r\\nx"',
    ],
)
def test_contradictory_options_of_an_rpc_fail_the_start(tmp_path, options):
    lab = compile_service(tmp_path, with_options(options))
    with pytest.raises(RouteError, match=r"Lab\.Do"):
        RestGateway(PermissiveBackend(), [lab], GatewaySettings(headers=HEADERS))


def with_options(options: str) -> str:
    return (
        'rpc Do(Bare) returns (Bare) { option (google.api.http) = { get: "/x" };'
        f" option (gateway_options.v1.rest) = {{ {options} }}; }}"
    )


# undeclared headers, older names of headers, and deprecated routes


def test_headers_that_the_service_does_not_name_mean_nothing():
    rules, incoming = HeaderRules(HeaderSettings()), RequestHeaders()
    sent = [(b"api-key", b"a"), (b"api-key", b"b"), (b"wcp-version", b"1"), (b"pay-version", b"")]
    rules.parse_headers([*sent, (b"request-id", b"r1")], incoming)
    assert incoming.metadata == [("request-id", "r1")]
    assert incoming.profile is JsonProfile.SPEC
    result = rules.build_response_headers(
        "r1", [("pay-version", "1")], cors=True
    ) + rules.build_preflight_headers("r1", 60)
    assert not any(b"pay" in name or b"pay" in value for name, value in result)


ALIASES = {b"x-api-key": b"api-key", b"x-key": b"api-key"}


def taken(*headers: tuple[bytes, bytes]) -> RequestHeaders:
    incoming = RequestHeaders()
    rules = HeaderRules(HEADERS)
    rules.parse_headers(headers, incoming)
    rules.parse_aliases(headers, incoming, ALIASES)
    incoming.check_ascii()
    return incoming


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ([(b"x-api-key", b" a ")], "a"),
        ([(b"x-api-key", b"a"), (b"api-key", b"b")], "b"),
        ([(b"x-api-key", b"a"), (b"api-key", b"")], "a"),
        ([(b"x-api-key", b""), (b"x-key", b"c")], "c"),
        ([(b"x-api-key", b"")], None),
    ],
)
def test_an_alias_stands_in_for_a_header_that_was_not_sent(headers, key):
    results = [value for name, value in taken(*headers).metadata if name == "api-key"]
    assert results == ([] if key is None else [key])


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ([(b"x-api-key", b"a"), (b"x-api-key", b"a")], "invalid_params"),
        ([(b"x-api-key", b"\xc3\xbc")], "header_not_ascii"),
        ([(b"x-api-key", b"a\x7f")], "header_not_ascii"),
        ([(b"x-api-key", b"\xff"), (b"api-key", b"a")], "header_not_ascii"),
    ],
)
def test_header_alias_follows_the_rules_of_its_header(headers, code):
    with pytest.raises(RefusedError) as refused:
        taken(*headers)
    assert (refused.value.status, refused.value.code) == (400, code)


def test_a_deprecated_route_says_so(tmp_path):
    (binding,) = compile_bindings(
        tmp_path, with_options('deprecated_since: 1771372800 successor: "/v1/merchants/payments"')
    )
    assert binding.headers == [
        (b"deprecation", b"@1771372800"),
        (b"link", b'</v1/merchants/payments>; rel="successor-version"'),
    ]
