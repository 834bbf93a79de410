"""Test routes from descriptors: startup errors, and requests built from path, query and body."""

from __future__ import annotations

import json

import pytest
from google.protobuf.message_factory import GetMessageClass
from grpc_rest_gateway.errors import RefusedError
from grpc_rest_gateway.httprule import PathRouter
from grpc_rest_gateway.jsoncodec import JsonCodec
from grpc_rest_gateway.profiles import JsonProfile
from grpc_rest_gateway.routes import RouteBinding, RouteError, add_routes

from tests.support.proto_services import compile_binding, compile_bindings, read_request


@pytest.mark.parametrize(
    "rule",
    [
        'get: "v1/x"',
        'get: "/v1/{unknown}"',
        'get: "/v1/{list}"',
        'get: "/v1/{inner}"',
        'get: "/v1/{inners}"',
        'get: "/v1/{numbers}"',
        'get: "/v1/{id.text}"',
        'get: "/v1/{inners.text}"',
        'get: "/v1/{inner.many}"',
        'get: "/v1/{renamed}"',
        'get: "/v1/x" body: "*"',
        'get: "/v1/x" body: "inner"',
        'post: "/v1/x" body: "unknown"',
        'post: "/v1/x" body: "inner.text"',
        'post: "/v1/{inner.text}" body: "inner"',
        'get: "/v1/x" response_body: "unknown"',
        'get: "/v1/x" response_body: "a.b"',
        'get: "/v1/x" additional_bindings { get: "/v1/y" additional_bindings { get: "/v1/z" } }',
        'get: "/v1/x" additional_bindings { get: "/v1/{nope}" }',
        "",
    ],
)
def test_invalid_http_rule_fails_the_start(tmp_path, rule):
    with pytest.raises(RouteError, match="Lab.Do"):
        compile_binding(tmp_path, rule)


def test_two_rpcs_with_the_same_path_shape_fail_the_start(tmp_path):
    rpcs = "".join(
        f"rpc {name}(Request) returns (Status) "
        f'{{ option (google.api.http) = {{ get: "/v1/{{{field}}}" }}; }}'
        for name, field in (("One", "id"), ("Two", "left"))
    )
    with pytest.raises(RouteError, match="same shape"):
        add_routes(PathRouter(), compile_bindings(tmp_path, rpcs))


@pytest.mark.parametrize(
    "rpc",
    [
        'rpc Do(stream Request) returns (Status) { option (google.api.http) = { get: "/x" }; }',
        'rpc Do(Request) returns (stream Status) { option (google.api.http) = { post: "/x" }; }',
        (
            'rpc Do(Request) returns (Status) { option (google.api.http) = { get: "/x" };'
            ' option (gateway_options.v1.rest).long_poll = "Nope"; }'
        ),
        (
            'rpc Do(Request) returns (Status) { option (google.api.http) = { get: "/x" };'
            ' option (gateway_options.v1.rest).long_poll = "Do"; }'
        ),
        (
            "rpc Watch(Request) returns (stream Bare); rpc Do(Request) returns (Status) {"
            ' option (google.api.http) = { get: "/x" };'
            ' option (gateway_options.v1.rest).long_poll = "Watch"; }'
        ),
        (
            "rpc Watch(Request) returns (stream Event); rpc Do(Request) returns (Bare) {"
            ' option (google.api.http) = { get: "/x" };'
            ' option (gateway_options.v1.rest).long_poll = "Watch"; }'
        ),
    ],
)
def test_a_stream_in_the_wrong_place_fails_the_start(tmp_path, rpc):
    with pytest.raises(RouteError, match="Lab.Do"):
        compile_bindings(tmp_path, rpc)


@pytest.mark.parametrize(
    "message",
    [
        "message Bad { int32 a = 1 [(gateway_options.v1.field).json_text = JSON_TEXT_VALUE]; }",
        "message Bad { string a = 1 [(gateway_options.v1.field).flatten = true]; }",
        "message Bad { repeated Bare a = 1 [(gateway_options.v1.field).flatten = true]; }",
        (
            'message Bad { string a = 1 [json_name = "x"];'
            " In b = 2 [(gateway_options.v1.field).flatten = true]; }"
            ' message In { string c = 1 [json_name = "x"]; }'
        ),
        "message Bad { option (gateway_options.v1.message).union = true; string a = 1; }",
        (
            "message Bad { option (gateway_options.v1.message).union = true; string a = 1;"
            " oneof k { string b = 2; } }"
        ),
    ],
)
def test_options_that_contradict_their_message_fail_the_start(tmp_path, message):
    rpc = 'rpc Do(Bad) returns (Bare) { option (google.api.http) = { get: "/x" }; }'
    with pytest.raises(RouteError, match="Lab.Do"):
        compile_bindings(tmp_path, rpc, message)


def test_rpcs_without_a_rule_have_no_route(tmp_path):
    assert not compile_bindings(tmp_path, "rpc Do(Request) returns (Status);")


def test_every_method_and_binding_is_a_route(tmp_path):
    rule = (
        'put: "/a" additional_bindings { delete: "/a" } additional_bindings { patch: "/a" }'
        ' additional_bindings { custom { kind: "HEAD" path: "/a" } }'
    )
    rpc = f"rpc Do(Request) returns (Status) {{ option (google.api.http) = {{ {rule} }}; }}"
    bindings = compile_bindings(tmp_path, rpc)
    assert [binding.http_method for binding in bindings] == ["PUT", "DELETE", "PATCH", "HEAD"]


@pytest.fixture(scope="module")
def get(tmp_path_factory) -> RouteBinding:
    return compile_binding(tmp_path_factory.mktemp("protos"), 'get: "/v1/{id}/{inner.number}"')


@pytest.mark.parametrize(
    ("query", "field", "value"),
    [
        ("small=-5", "small", -5),
        ("small=007", "small", 7),
        ("large=18446744073709551615", "large", 2**64 - 1),
        ("yes=true", "yes", True),
        ("ratio=-1.5e3", "ratio", -1500.0),
        ("blob=_-8", "blob", b"\xff\xef"),
        ("blob=/%2B8%3D", "blob", b"\xff\xef"),
        ("colour=deep_blue", "colour", 2),
        ("list=1&list=2", "list", [1, 2]),
        ("renamed=a", "other_name", "a"),
        ("other_name=a", "other_name", "a"),
        ("left=a+b%20c%2Bd", "left", "a b c+d"),
        ("left=%C3%BC", "left", "ü"),
        ("left", "left", ""),
        ("left=", "left", ""),
        ("left=a=b", "left", "a=b"),
        ("&&left=a&", "left", "a"),
        ("l%65ft=a", "left", "a"),
        ("left=a,b", "left", "a,b"),
        ("extra=", "extra", ""),
    ],
)
def test_a_query_parameter_sets_its_field(get, query, field, value):
    result = getattr(read_request(get, query), field)
    assert (list(result) if field == "list" else result) == value


def test_a_query_parameter_reaches_below_messages(get):
    request = read_request(
        get, "inner.text=a&inner.again.many=1&inner.again.many=2&inner%2Eagain.text=b"
    )
    assert request.inner.text == "a"
    assert list(request.inner.again.many) == ["1", "2"]
    assert request.inner.again.text == "b"
    assert request.inner.number == 7


def test_protobuf_wrapper_and_time_types_are_read_from_text(get):
    request = read_request(get, "at=2026-02-18T01:00:00%2B01:00")
    assert request.at.seconds == 1771372800
    request = read_request(get, "at=2026-02-18T01:00:00+01:00&wrapped=w&mask=a,b.c&span=1.5s")
    assert request.at.seconds == 1771372800
    assert request.wrapped.value == "w"
    assert list(request.mask.paths) == ["a", "b.c"]
    assert request.span.nanos == 500_000_000


@pytest.mark.parametrize(
    "query", ["id=y", "inner.number=9", "secret=s", "nope=1", "small.x=1", "Left=a"]
)
def test_bound_hidden_and_unknown_parameters_are_ignored(get, query):
    assert read_request(get, query) == read_request(get)


@pytest.mark.parametrize(
    "query",
    [
        "small=",
        "small=x",
        "small=1.0",
        "small=0x1",
        "small=+1",
        "small=2147483648",
        f"large={'9' * 5000}",
        "large=-1",
        "yes=True",
        "yes=1",
        "yes",
        "ratio=NaN",
        "ratio=Infinity",
        "ratio=1e999",
        "narrow=1e39",
        "blob=%%%",
        "blob=a",
        "colour=green",
        "colour=2",
        "colour=COLOUR_RED",
        "colour=unspecified",
        "colour=Red",
        "colour=",
        "other_name=a&renamed=b",
        "left=a&left=b",
        "left=a&right=b",
        "inner=x",
        "inners=x",
        "numbers=x",
        "at=2026-02-18",
        "at=2026-02-18T00:00:00",
        "span=x",
        "left=%zz",
        "left=%",
        "left=%ff",
        "left=%00",
        "left=\xff",
        "l%zzft=a",
    ],
)
def test_a_parameter_that_cannot_be_read_is_invalid_params(get, query):
    with pytest.raises(RefusedError) as refused:
        read_request(get, query)
    assert (refused.value.status, refused.value.code) == (400, "invalid_params")


@pytest.mark.parametrize("number", ["x", "", "1.0", str(2**63)])
def test_a_path_value_that_cannot_be_read_is_invalid_params(get, number):
    with pytest.raises(RefusedError) as refused:
        read_request(get, path=("x", number))
    assert refused.value.code == "invalid_params"


def test_body_of_a_single_field_leaves_the_rest_to_the_query(tmp_path):
    binding = compile_binding(tmp_path, 'post: "/v1/{id}" body: "inner"')
    request = read_request(binding, "small=1&inner.text=q", b'{"text":"b"}', ("x",))
    assert (request.small, request.inner.text, request.id) == (1, "b", "x")
    assert read_request(binding, "", b"", ("x",)).inner.text == ""
    with pytest.raises(RefusedError) as refused:
        read_request(binding, "", b'{"again":{"text":1}}', ("x",))
    assert refused.value.issues[0].field == "again.text"


@pytest.mark.parametrize(
    ("field", "body", "value"),
    [
        ("list", b"[1,2]", [1, 2]),
        ("left", b'"a"', "a"),
        ("list", b"null", []),
        ("yes", b"true", True),
    ],
)
def test_a_body_may_be_a_list_or_a_value(tmp_path, field, body, value):
    binding = compile_binding(tmp_path, f'post: "/v1/{{id}}" body: "{field}"')
    result = getattr(read_request(binding, "", body, ("x",)), field)
    assert (list(result) if field == "list" else result) == value
    with pytest.raises(RefusedError, match="Validation error: the body must be"):
        read_request(binding, "", b"{}", ("x",))


def test_with_a_whole_body_the_query_sets_marked_fields_only(tmp_path):
    binding = compile_binding(tmp_path, 'post: "/v1/{id}" body: "*"')
    request = read_request(binding, "extra=q&small=5", b'{"extra":"b","small":4,"id":"y"}', ("x",))
    assert (request.extra, request.small, request.id) == ("q", 4, "x")


def test_maps_bytes_and_floats_are_read_from_a_body(tmp_path):
    binding = compile_binding(tmp_path, 'post: "/v1/{id}" body: "*"')
    body = {
        "numbers": {"a": 1},
        "innerMap": {"-5": {"text": "t"}},
        "flags": {"true": "x"},
        "blob": "/+8",
        "ratio": 1,
        "narrow": 1.5,
        "wrapped": "w",
        "mask": "a,b",
        "span": "1s",
        "secret": "s",
    }
    request = read_request(binding, "", json.dumps(body).encode(), ("x",))
    assert dict(request.numbers) == {"a": 1}
    assert request.inner_map[-5].text == "t"
    assert dict(request.flags) == {True: "x"}
    assert (request.blob, request.ratio, request.narrow) == (b"\xff\xef", 1.0, 1.5)
    assert (request.wrapped.value, list(request.mask.paths)) == ("w", ["a", "b"])
    assert request.secret == ""
    echo = JsonCodec().get_encoder(request.DESCRIPTOR, JsonProfile.SPEC)(request)
    assert json.loads(echo) == json.loads(echo) | {
        **{name: value for name, value in body.items() if name != "secret"},
        "blob": "/+8=",
        "innerMap": {"-5": {"text": "t", "number": 0, "again": None, "many": []}},
    }
    assert "secret" not in json.loads(echo)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"numbers": {"a": "1"}}, "numbers.a"),
        ({"numbers": [1]}, "numbers"),
        ({"innerMap": {"x": {}}}, "innerMap.x"),
        ({"innerMap": {"1": {"number": "1"}}}, "innerMap.1.number"),
        ({"flags": {"True": ""}}, "flags.True"),
        ({"blob": "%"}, "blob"),
        ({"ratio": "1"}, "ratio"),
        ({"narrow": 1e39}, "narrow"),
        ({"wrapped": 1}, "wrapped"),
        ({"span": "x"}, "span"),
        ({"list": [1, 2, 2**31]}, "list[2]"),
        ({"inner": {"again": {"many": ["a", 1]}}}, "inner.again.many[1]"),
    ],
)
def test_faults_deep_in_a_body_are_named(tmp_path, body, path):
    binding = compile_binding(tmp_path, 'post: "/v1/{id}" body: "*"')
    with pytest.raises(RefusedError) as refused:
        read_request(binding, "", json.dumps(body).encode(), ("x",))
    assert refused.value.code == "params_validation"
    assert [issue.field for issue in refused.value.issues] == [path]


def test_response_body_may_be_a_single_field(tmp_path):
    binding = compile_binding(tmp_path, 'get: "/v1/{id}" response_body: "lines"')
    answer = GetMessageClass(binding.method.output_type)(lines=["a", "b"])
    assert binding.encoders[JsonProfile.SPEC](answer) == b'["a","b"]'
