"""Test canonical proto3 JSON in bodies, paths and queries, for services that choose it."""

from __future__ import annotations

import json
import math

import pytest
from google.protobuf import json_format
from google.protobuf.message_factory import GetMessageClass
from grpc_rest_gateway.app import RestGateway
from grpc_rest_gateway.errors import RefusedError
from grpc_rest_gateway.jsoncodec import JsonCodec
from grpc_rest_gateway.profiles import JsonProfile
from grpc_rest_gateway.routes import RouteBinding, compile_routes
from grpc_rest_gateway.settings import GatewaySettings
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.proto_services import PermissiveBackend, compile_service

MORE = """
message Known {
  google.protobuf.DoubleValue ratio = 1; google.protobuf.Int64Value number = 2;
  repeated Colour colours = 3; map<string, Colour> by_name = 4; repeated Request requests = 5;
  repeated string tags = 6 [(gateway_options.v1.field).comma = true]; Inner inner = 7;
  optional string name = 8 [(gateway_options.v1.field).clearable = true];
}
"""


def build_binding(folder, rule: str, kind: str = "Request", **switches: bool) -> RouteBinding:
    rpc = f"rpc Do({kind}) returns (Status) {{ option (google.api.http) = {{ {rule} }}; }}"
    (binding,) = compile_routes(
        [compile_service(folder, rpc, MORE)], PermissiveBackend(), JsonCodec(**switches)
    )
    return binding


@pytest.fixture(scope="module")
def post(tmp_path_factory) -> RouteBinding:
    return build_binding(tmp_path_factory.mktemp("protos"), 'post: "/v1/x" body: "*"')


@pytest.fixture(scope="module")
def known_post(tmp_path_factory) -> RouteBinding:
    return build_binding(tmp_path_factory.mktemp("protos"), 'post: "/v1/x" body: "*"', "Known")


@pytest.fixture(scope="module")
def get(tmp_path_factory) -> RouteBinding:
    return build_binding(tmp_path_factory.mktemp("protos"), 'get: "/v1/{colour}/{ratio}"')


def ask(binding: RouteBinding, body: object = None, query: str = "", path: tuple[str, ...] = ()):
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return binding.parse_request(text, query.encode(), path, JsonProfile.CANONICAL)[0]


def refused(binding: RouteBinding, *args: object, **parts: object) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        ask(binding, *args, **parts)
    assert caught.value.status == 400
    return caught.value


# bodies


@pytest.mark.parametrize(
    "body", [b"5", b"true", b'"x"', b'""', b"[]", b"[{}]", b"0", b"false", b"1.5", b"null"]
)
def test_a_body_that_is_no_object_is_refused(post, body):
    error = refused(post, body)
    assert (error.code, error.message) == (
        "params_validation",
        "Validation error: the body must be an object",
    )


@pytest.mark.parametrize("body", [b"", b"{}"])
def test_an_empty_body_is_an_empty_message(post, body):
    assert ask(post, body) == GetMessageClass(post.method.input_type)()


@pytest.mark.parametrize(
    ("body", "path"),
    [
        # in place of messages
        ({"inner": "x"}, "inner"),
        ({"inner": ""}, "inner"),
        ({"inner": []}, "inner"),
        ({"inner": 5}, "inner"),
        ({"inner": {"again": "text"}}, "inner.again"),
        ({"inners": ["x"]}, "inners[0]"),
        ({"inners": [{}, None]}, "inners[1]"),
        ({"inners": {}}, "inners"),
        ({"inners": "abc"}, "inners"),
        ({"innerMap": {"1": "x"}}, "innerMap.1"),
        ({"innerMap": {"1": None}}, "innerMap.1"),
        ({"innerMap": {"x": {}}}, "innerMap.x"),
        ({"innerMap": []}, "innerMap"),
        ({"numbers": {"a": None}}, "numbers.a"),
        ({"flags": {"True": "x"}}, "flags.True"),
        ({"list": "12"}, "list"),
        ({"list": [1, None]}, "list[1]"),
        # enums
        ({"colour": "COLOUR_GREEN"}, "colour"),
        ({"colour": "red"}, "colour"),
        ({"colour": "deep_blue"}, "colour"),
        ({"colour": ""}, "colour"),
        ({"colour": "1"}, "colour"),
        ({"colour": 1.5}, "colour"),
        ({"colour": True}, "colour"),
        ({"colour": 2**31}, "colour"),
        ({"colour": ["COLOUR_RED"]}, "colour"),
        # scalars
        ({"small": "1_0"}, "small"),
        ({"small": "+1"}, "small"),
        ({"small": " 1"}, "small"),
        ({"small": "1 "}, "small"),
        ({"small": "٣"}, "small"),
        ({"small": "1.0"}, "small"),
        ({"small": ""}, "small"),
        ({"small": 0.5}, "small"),
        ({"small": True}, "small"),
        ({"small": 2**31}, "small"),
        ({"small": "9" * 5000}, "small"),
        ({"large": -1}, "large"),
        ({"large": 2**64}, "large"),
        ({"large": str(2**64)}, "large"),
        ({"inner": {"number": 2**63}}, "inner.number"),
        # the float next to it has 64 bits
        ({"inner": {"number": -(2**63) - 1}}, "inner.number"),
        ({"yes": "true"}, "yes"),
        ({"yes": 1}, "yes"),
        ({"ratio": "nan"}, "ratio"),
        ({"ratio": "inf"}, "ratio"),
        ({"ratio": "infinity"}, "ratio"),
        ({"ratio": "+Infinity"}, "ratio"),
        ({"ratio": "1_0"}, "ratio"),
        ({"ratio": "1e999"}, "ratio"),
        ({"ratio": ""}, "ratio"),
        ({"ratio": False}, "ratio"),
        ({"narrow": 1e39}, "narrow"),
        ({"blob": "a%b"}, "blob"),
        ({"blob": "a"}, "blob"),
        ({"blob": 5}, "blob"),
        ({"id": 5}, "id"),
        ({"id": {}}, "id"),
        # known types
        ({"at": "2026-02-18"}, "at"),
        ({"at": 5}, "at"),
        ({"at": {}}, "at"),
        ({"span": "1_0s"}, "span"),
        ({"span": "1.5"}, "span"),
        ({"span": 1.5}, "span"),
        ({"wrapped": 5}, "wrapped"),
        ({"wrapped": {"value": "x"}}, "wrapped"),
        # members
        ({"nope": 1}, "nope"),
        ({"inner": {"nope": None}}, "inner.nope"),
        ({"Id": "x"}, "Id"),
        ({"[x.y]": 1}, "[x.y]"),
    ],
)
def test_value_against_the_rules_is_refused_by_path(post, body, path):
    error = refused(post, body)
    assert (error.code, error.issues[0].field) == ("params_validation", path)


@pytest.mark.parametrize(
    "body",
    [
        b'{"id":"x","id":"y"}',
        b'{"other_name":"x","renamed":"y"}',
        b'{"left":"x","right":"y"}',
        b'{"mask":5}',
        b'{"ratio":NaN}',
        b'{"ratio":1e999}',
        b'{"at":"0000-01-01T00:00:00Z"}',
        b'{"span":"999999999999s"}',
        b'{"id":"x"} {}',
    ],
)
def test_other_contradictions_are_refused_too(post, body):
    assert refused(post, body).code == "params_validation"


@pytest.mark.parametrize(
    ("body", "field", "value"),
    [
        ({"small": "-5"}, "small", -5),
        ({"small": 5.0}, "small", 5),
        ({"small": 1e3}, "small", 1000),
        ({"large": str(2**64 - 1)}, "large", 2**64 - 1),
        ({"large": 2**64 - 1}, "large", 2**64 - 1),
        ({"colour": "COLOUR_RED"}, "colour", 1),
        ({"colour": 2}, "colour", 2),
        # enums are open
        ({"colour": 77}, "colour", 77),
        ({"colour": None}, "colour", 0),
        ({"ratio": "-1.5e3"}, "ratio", -1500.0),
        ({"ratio": "Infinity"}, "ratio", math.inf),
        ({"ratio": "-Infinity"}, "ratio", -math.inf),
        ({"narrow": "Infinity"}, "narrow", math.inf),
        ({"ratio": 7}, "ratio", 7.0),
        ({"blob": "_-8"}, "blob", b"\xff\xef"),
        ({"blob": "/+8="}, "blob", b"\xff\xef"),
        ({"list": ["1", 2, 3.0]}, "list", [1, 2, 3]),
        ({"list": None}, "list", []),
        ({"renamed": "a"}, "other_name", "a"),
        ({"other_name": "a"}, "other_name", "a"),
        ({"otherName": "a"}, "other_name", None),
        ({"secret": "s"}, "secret", "s"),
        ({"flags": {"true": "x"}}, "flags", {True: "x"}),
    ],
)
def test_value_within_the_rules_is_read(post, body, field, value):
    if value is None:
        assert refused(post, body).issues[0].message == "is unknown"
        return
    result = getattr(ask(post, body), field)
    assert type(value)(result) == value


def test_a_number_that_is_none(post):
    assert math.isnan(ask(post, {"ratio": "NaN"}).ratio)


def test_lists_maps_and_wrappers_follow_the_same_rules(known_post):
    request = ask(
        known_post,
        {
            "ratio": "Infinity",
            "number": str(2**62),
            "colours": ["COLOUR_RED", 2],
            "byName": {"a": "COLOUR_DEEP_BLUE"},
            "requests": [{"inner": {"text": "x"}}],
            "tags": ["a,b"],
            "name": "",
        },
    )
    assert (request.ratio.value, request.number.value) == (math.inf, 2**62)
    assert (list(request.colours), dict(request.by_name)) == ([1, 2], {"a": 2})
    assert (list(request.tags), request.HasField("name")) == (["a,b"], True)
    for body, path in (
        ({"ratio": "x"}, "ratio"),
        ({"number": 1.5}, "number"),
        ({"colours": ["COLOUR_RED", "RED"]}, "colours[1]"),
        ({"byName": {"a": "RED"}}, "byName.a"),
        ({"requests": [{}, {"inner": "x"}]}, "requests[1].inner"),
    ):
        assert refused(known_post, body).issues[0].field == path


def test_unknown_members_and_parameters_can_be_ignored(tmp_path):
    lenient = build_binding(tmp_path, 'post: "/v1/x" body: "inner"', ignore_unknown=True)
    request = ask(lenient, {"text": "a", "nope": {"x": 1}}, "small=5&nope=1&inner.text=b")
    assert (request.inner.text, request.small) == ("a", 5)
    # and nothing else is accepted
    assert refused(lenient, {"number": "x"}).issues[0].field == "number"
    assert refused(lenient, "x").code == "params_validation"
    assert refused(lenient, {}, "small=x").code == "invalid_params"


def test_any_field_may_be_the_body(tmp_path):
    colours = build_binding(tmp_path, 'post: "/v1/x" body: "colours"', "Known")
    assert list(ask(colours, ["COLOUR_RED", 2]).colours) == [1, 2]
    assert refused(colours, "COLOUR_RED").code == "params_validation"
    assert refused(colours, ["x"]).code == "params_validation"


# path and query


@pytest.mark.parametrize(
    ("path", "colour", "ratio"),
    [
        (("COLOUR_RED", "1.5"), 1, 1.5),
        (("2", "Infinity"), 2, math.inf),
        (("0", "-Infinity"), 0, -math.inf),
        (("002", "0"), 2, 0.0),
    ],
)
def test_a_path_holds_enum_names_and_numbers_and_every_float(get, path, colour, ratio):
    request = ask(get, b"", "", path)
    assert (request.colour, request.ratio) == (colour, ratio)
    assert math.isnan(ask(get, b"", "", ("0", "NaN")).ratio)


@pytest.mark.parametrize(
    "path",
    [
        *(("red", "1"), ("COLOUR_GREEN", "1"), ("77", "1"), ("1.0", "1"), ("", "1")),
        *(("1", "nan"), ("1", "inf"), ("1", "1e999"), ("1", "")),
    ],
)
def test_other_values_in_a_path_are_refused(get, path):
    assert refused(get, b"", "", path).code == "invalid_params"


@pytest.mark.parametrize(
    ("query", "field", "value"),
    [
        ("small=007", "small", 7),
        ("narrow=Infinity", "narrow", math.inf),
        ("narrow=-Infinity", "narrow", -math.inf),
        ("inner.number=-5", "inner", {"number": -5}),
        ("other_name=a", "other_name", "a"),
        ("renamed=a", "other_name", "a"),
        ("secret=s", "secret", "s"),
        ("left=a,b", "left", "a,b"),
        ("extra=", "extra", ""),
        ("list=1&list=2", "list", [1, 2]),
    ],
)
def test_a_query_is_read_by_the_same_rules(get, query, field, value):
    result = getattr(ask(get, b"", query, ("1", "1")), field)
    if isinstance(value, dict):
        assert {name: getattr(result, name) for name in value} == value
    else:
        assert type(value)(result) == value


@pytest.mark.parametrize(
    "query",
    [
        *("nope=1", "Left=a", "otherName=a", "inner.nope=1", "colour=1", "ratio=1"),
        *("small.x=1", "inner.text.x=1", "inner=x", "inners=x", "inners.text=x", "numbers=x"),
        *("yes=1", "yes=TRUE", "small=1.0", "small=%2B1", "narrow=inf", "blob=a", "left=%ff"),
        *("left=a&left=b", "left=a&right=b", "other_name=a&renamed=b"),
    ],
)
def test_a_query_that_breaks_them_is_refused(get, query):
    assert refused(get, b"", query, ("1", "1")).code == "invalid_params"


def test_no_comma_splits_a_canonical_parameter(tmp_path):
    binding = build_binding(tmp_path, 'get: "/v1/x"', "Known")
    assert list(ask(binding, b"", "tags=a,b&tags=c").tags) == ["a,b", "c"]
    spec, _ = binding.parse_request(b"", b"tags=a,b&tags=c", (), JsonProfile.SPEC)
    assert list(spec.tags) == ["a", "b", "c"]
    assert ask(binding, b"", "name=").HasField("name")


def test_a_whole_body_leaves_nothing_to_the_query(tmp_path, post):
    assert refused(post, {}, "extra=q").code == "invalid_params"
    lenient = build_binding(tmp_path, 'post: "/v1/x" body: "*"', ignore_unknown=True)
    assert not ask(lenient, {}, "extra=q").HasField("extra")


def test_max_poll_ms_is_accepted_with_canonical_json(tmp_path):
    rpcs = (
        "rpc Watch(Request) returns (stream Event); rpc Do(Request) returns (Status) {"
        ' option (google.api.http) = { get: "/v1/{colour}" };'
        ' option (gateway_options.v1.rest).long_poll = "Watch"; }'
    )
    (binding,) = compile_routes([compile_service(tmp_path, rpcs)], PermissiveBackend(), JsonCodec())
    request, held_ms = binding.parse_request(
        b"", b"maxPollMs=5", ("COLOUR_RED",), JsonProfile.CANONICAL
    )
    assert (request.colour, held_ms) == (1, 5)
    assert binding.poll_plan is not None
    assert binding.poll_plan.build_request(("COLOUR_RED",), JsonProfile.CANONICAL) == request


# the wire dialects do not change


def test_the_other_profiles_know_neither_names_nor_numbers_of_enums(post, get):
    for profile in (JsonProfile.SPEC, JsonProfile.DEPLOYED):
        for body in ({"colour": "COLOUR_RED"}, {"colour": 1}, {"ratio": "NaN"}, {"large": "1"}):
            with pytest.raises(RefusedError):
                post.parse_request(json.dumps(body).encode(), b"", (), profile)
        for path in (("COLOUR_RED", "1"), ("1", "1"), ("red", "NaN")):
            with pytest.raises(RefusedError):
                get.parse_request(b"", b"", path, profile)
        request, _ = post.parse_request(b'{"colour":"red","nope":1}', b"nope=1", (), profile)
        assert request.colour == 1


# answers


def test_an_answer_is_canonical_too(tmp_path):
    binding = build_binding(tmp_path, 'get: "/v1/x" response_body: "lines"')
    answer = GetMessageClass(binding.method.output_type)
    encode = binding.encoders[JsonProfile.CANONICAL]
    assert encode(answer(lines=["a"])) == b'["a"]'
    assert encode(answer()) == b"[]"


def test_json_profile_of_a_gateway_is_configurable(tmp_path):
    descriptor = compile_service(
        tmp_path,
        'rpc Do(Request) returns (Status) { option (google.api.http) = { get: "/v1/x" }; }',
    )
    strict = GatewaySettings(profile=JsonProfile.CANONICAL)
    for chosen, ignored in ((strict, False), (GatewaySettings(ignore_unknown=True), True)):
        (binding,) = RestGateway(PermissiveBackend([]), [descriptor], chosen).bindings
        if ignored:
            ask(binding, b"", "nope=1")
        else:
            refused(binding, b"", "nope=1")


# any input

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
NAMES = st.sampled_from(
    [
        *("id", "small", "large", "yes", "ratio", "blob", "colour", "list", "inner", "inners"),
        *("numbers", "at", "wrapped", "span", "again", "text", "number", "many", "innerMap", "1"),
    ]
)
ODD = st.sampled_from(
    ["", "1", "NaN", "COLOUR_RED", "RED", "true", "1s", "1_0", "2026-02-18T00:00:00Z", "/+8="]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS | ODD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | TEXTS, inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(NAMES, VALUES, max_size=4))
@settings(max_examples=500, deadline=None, database=None)
def test_decoder_accepts_only_valid_protobuf_json_and_round_trips(post, value):
    kind = GetMessageClass(post.method.input_type)
    message, again = kind(), kind()
    issues = JsonCodec().get_decoder(kind.DESCRIPTOR, JsonProfile.CANONICAL)(value, message)
    if issues:
        return
    assert json_format.ParseDict(value, kind()) == message
    shown = json.loads(JsonCodec().get_encoder(kind.DESCRIPTOR, JsonProfile.CANONICAL)(message))
    assert JsonCodec().get_decoder(kind.DESCRIPTOR, JsonProfile.CANONICAL)(shown, again) == []
    assert again == message
