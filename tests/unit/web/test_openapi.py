"""Test that schemas match the codec, for every type of the API and every option."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from florin_server.app.servers.grpc_server import PUBLIC_SERVICES
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from grpc_rest_gateway.jsoncodec import JsonCodec
from grpc_rest_gateway.jsonshape import TIMESTAMP_TYPE, get_enum_texts, get_rule
from grpc_rest_gateway.openapi import (
    LENIENT_EXTENSION,
    ProtoComments,
    SchemaRegistry,
    list_operations,
)
from grpc_rest_gateway.profiles import JsonProfile
from grpc_rest_gateway.routes import RouteError

from tests.support.json_shapes import list_undocumented, resolve_schema
from tests.support.proto_services import compile_service

OPTION = "(gateway_options.v1.field)"
SHAPES = """
message ChangeRequest {
  string id = 1;
  string name = 2 [(gateway_options.v1.field) = { required: true max_chars: 9 pattern: "a+" }];
  optional string icon = 3 [(gateway_options.v1.field).clearable = true];
  repeated string tags = 4 [(gateway_options.v1.field) = {
    required: true min_items: 1 max_items: 2 }];
  Leaf loose = 5 [(gateway_options.v1.field).lenient = true];
  int32 size = 6 [(gateway_options.v1.field).minimum = 1];
  string text = 7 [(gateway_options.v1.field).no_control = true];
  string data = 8 [(gateway_options.v1.field).json_text = JSON_TEXT_VALUE];
}
message Leaf { optional string text = 1; Colour colour = 2; }
message ChangeAnswer {
  Leaf full = 1;
  Leaf bare = 2 [(gateway_options.v1.field) = { sparse: true required: true }];
  Leaf gone = 3 [(gateway_options.v1.field).absent = ABSENT_OMIT];
  string json = 4 [(gateway_options.v1.field).json_text = JSON_TEXT_BY_PROFILE];
  Kind kind = 5 [(gateway_options.v1.field).required = true];
  google.protobuf.Timestamp at = 6;
  google.protobuf.StringValue wrapped = 7;
  map<string, Leaf> mapped = 8;
  ChangeAnswer again = 9 [(gateway_options.v1.field).absent = ABSENT_OMIT];
}
message Kind {
  option (gateway_options.v1.message).union = true;
  oneof kind { Leaf first_one = 1; string other = 2; }
}
"""
CODEC = JsonCodec()


def answer_types() -> list[Any]:
    seen: dict[str, Any] = {}
    for service_descriptor in PUBLIC_SERVICES:
        for operation in list_operations([service_descriptor], SchemaRegistry(ProtoComments())):
            kind = operation.method.output_type
            seen[kind.full_name] = kind
    return list(seen.values())


def fill(message: Any, *, everything: bool, depth: int = 0) -> Any:
    """Fill every field, or only those that are never null."""
    oneofs = message.DESCRIPTOR.oneofs
    alternatives = {f.name for o in oneofs if len(o.fields) > 1 for f in o.fields[1:]}
    for field in message.DESCRIPTOR.fields:
        rule = get_rule(field)
        required = rule.required or (everything and depth < 3)
        if field.name in alternatives or not (required or not field.has_presence):
            continue
        if field.is_repeated and not everything:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            getattr(message, field.name)["7"] = "7"
            continue
        if field.message_type is not None:
            inner = getattr(message, field.name)
            inner = inner.add() if field.is_repeated else inner
            inner.SetInParent()
            if field.message_type.full_name != TIMESTAMP_TYPE:
                fill(inner, everything=everything, depth=depth + 1)
        elif required or not field.has_presence:
            value = value_of(field)
            if field.is_repeated:
                getattr(message, field.name).append(value)
            else:
                setattr(message, field.name, value)
    return message


def value_of(field: FieldDescriptor) -> Any:
    if field.enum_type is not None:
        return next(n for n, text in get_enum_texts(field.enum_type).items() if text)
    if get_rule(field).json_text:
        return '{"a": [1]}'
    if field.type == FieldDescriptor.TYPE_STRING:
        return "7"
    return 7 if field.type != FieldDescriptor.TYPE_BOOL else True


def validator(
    schemas: SchemaRegistry, schema: dict[str, Any]
) -> jsonschema_rs.Draft202012Validator:
    components = {"components": {"schemas": schemas.components}}
    return jsonschema_rs.Draft202012Validator({**schema, **components})


@pytest.mark.parametrize("profile", [JsonProfile.SPEC, JsonProfile.DEPLOYED])
@pytest.mark.parametrize("everything", [True, False], ids=["everything", "the least"])
@pytest.mark.parametrize("kind", answer_types(), ids=lambda kind: kind.name)
def test_encoded_message_matches_its_schema(kind, everything, profile):
    message = fill(GetMessageClass(kind)(), everything=everything)
    shown = json.loads(CODEC.get_encoder(kind, profile)(message))
    schemas = SchemaRegistry(ProtoComments())
    schema = schemas.build_response(kind)
    validator(schemas, schema).validate(shown)
    document = {"components": {"schemas": schemas.components}}
    assert list_undocumented(document, schema, shown) == []
    if everything:
        # and every described member occurs
        assert set(resolve_schema(document, schema)["properties"]) == set(shown)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    rpcs = """
    rpc Change(ChangeRequest) returns (ChangeAnswer) {
      option (google.api.http) = { post: "/v1/{id}/change" body: "*"
        additional_bindings { put: "/v2/{id}" body: "*" } };
      option deprecated = true;
    }
    rpc Find(Request) returns (Status) { option (google.api.http) = { get: "/v1/{id=a/*}" }; }
    rpc Watch(Request) returns (stream Event) { option (google.api.http) = { get: "/v1/events" }; }
    """
    described = compile_service(tmp_path_factory.mktemp("protos"), rpcs, SHAPES)
    schemas = SchemaRegistry(ProtoComments())
    operations = {o.parts["operationId"]: o for o in list_operations([described], schemas)}
    return described, schemas, operations


def test_requests_are_read_as_their_schema_says(lab):
    described, schemas, operations = lab
    kind = described.methods_by_name["Change"].input_type
    body = operations["Lab_Change"].parts["requestBody"]
    assert body["required"] is True
    fits = validator(schemas, body["content"]["application/json"]["schema"])
    decode = CODEC.get_decoder(kind, JsonProfile.SPEC, frozenset({"id"}))
    right = {"name": "aa", "tags": ["x"]}
    for change, verdict in (
        ({}, True),
        ({"icon": None}, True),
        ({"icon": ""}, False),
        ({"name": None}, False),
        ({"tags": None}, False),
        ({"tags": "x"}, False),
        ({"loose": None}, True),
        ({"loose": {"colour": "deep_blue"}}, True),
        ({"size": None}, True),
        ({"size": "1"}, False),
        ({"size": 2**31}, False),
        ({"size": 1.5}, False),
        ({"data": {"a": [1]}}, True),
        ({"unknown": 1}, True),
    ):
        request = {**right, **change}
        assert fits.is_valid(request) is verdict, request
        assert (decode(request, GetMessageClass(kind)()) == []) is verdict, request
    # read as absent, though the schema names the type
    loose = {**right, "loose": 5}
    assert not fits.is_valid(loose)
    assert decode(loose, GetMessageClass(kind)()) == []
    assert schemas.components["ChangeRequest"]["properties"]["loose"][LENIENT_EXTENSION] is True
    # checked by the server only
    for change in ({"name": "b"}, {"tags": []}, {"tags": ["a"] * 3}, {"size": 0}, {"text": "\n"}):
        assert not fits.is_valid({**right, **change}), change


def test_answers_have_the_members_of_the_codec(lab):
    described, schemas, _ = lab
    kind = described.methods_by_name["Change"].output_type
    result = schemas.components["ChangeAnswer"]
    assert result["required"] == ["full", "bare", "json", "kind", "at", "wrapped", "mapped"]
    assert result["properties"]["bare"] == {"$ref": "#/components/schemas/LeafSparse"}
    assert result["properties"]["wrapped"] == {"type": ["string", "null"]}
    assert "required" not in schemas.components["LeafSparse"]
    assert schemas.components["Colour"]["enum"] == ["red", "deep_blue"]
    message = GetMessageClass(kind)(json="[1]")
    message.bare.SetInParent()
    message.kind.first_one.text = "x"
    message.mapped["k"].colour = 1
    for profile in (JsonProfile.SPEC, JsonProfile.DEPLOYED):
        shown = json.loads(CODEC.get_encoder(kind, profile)(message))
        validator(schemas, schemas.build_response(kind)).validate(shown)


def test_operations_have_their_paths_and_parameters(lab):
    _, _, operations = lab
    assert {name: (o.verb, o.path) for name, o in operations.items()} == {
        "Lab_Change": ("post", "/v1/{id}/change"),
        "Lab_Change_2": ("put", "/v2/{id}"),
        "Lab_Find": ("get", "/v1/{id}"),
        "Lab_Watch": ("get", "/v1/events"),
    }
    assert [name for name, o in operations.items() if o.is_additional] == ["Lab_Change_2"]
    assert operations["Lab_Change"].parts["deprecated"] is True
    results = {p["name"]: p for p in operations["Lab_Find"].parts["parameters"]}
    assert results["id"]["in"] == "path"
    assert {"renamed", "list", "at", "wrapped", "mask", "span", "colour"} <= results.keys()
    # not part of a query, or not under that name
    assert not {"secret", "inner", "inners", "numbers", "other_name"} & results.keys()
    assert results["list"]["schema"]["items"]["maximum"] == 2**31 - 1
    stream = operations["Lab_Watch"].parts["responses"]
    assert list(stream) == ["200", "204"]
    assert list(stream["200"]["content"]) == ["text/event-stream"]


def test_comments_become_descriptions():
    comments = ProtoComments()
    comments["florin.v1.Settlements"] = "Where the money goes."
    comments["florin.v1.Settlements.fiat"] = "Banks."
    schemas = SchemaRegistry(comments)
    schemas.build_response(next(kind for kind in answer_types() if kind.name == "Settlements"))
    settlements = schemas.components["Settlements"]
    assert settlements["description"] == "Where the money goes."
    assert settlements["properties"]["fiat"]["description"] == "Banks."
    assert "description" not in settlements["properties"]["crypto"]


def test_two_types_with_the_same_name_are_refused(tmp_path):
    rpc = 'rpc Do(Bare) returns (Bare) { option (google.api.http) = { get: "/v1/x" }; }'
    schemas = SchemaRegistry(ProtoComments())
    list(list_operations([compile_service(tmp_path, rpc)], schemas))
    with pytest.raises(ValueError, match="two schemas have the name Bare"):
        list(list_operations([compile_service(tmp_path, rpc)], schemas))


def test_a_type_that_is_body_and_response_has_two_schemas(tmp_path):
    rpc = 'rpc Do(Bare) returns (Bare) { option (google.api.http) = { post: "/v1/x" body: "*" }; }'
    schemas = SchemaRegistry(ProtoComments())
    (operation,) = list_operations([compile_service(tmp_path, rpc)], schemas)
    body = operation.parts["requestBody"]["content"]["application/json"]["schema"]
    response = operation.parts["responses"]["200"]["content"]["application/json"]["schema"]
    assert [body["$ref"], response["$ref"]] == [
        "#/components/schemas/Bare",
        "#/components/schemas/Bare_2",
    ]
    # a member of a body can be null, and one of a response is always there
    assert schemas.components["Bare"]["properties"]["text"] == {"type": ["string", "null"]}
    assert schemas.components["Bare_2"]["required"] == ["text"]


def test_a_field_as_a_whole_body_is_refused(tmp_path):
    rule = 'post: "/v1/x" body: "inner"'
    rpc = f"rpc Do(Request) returns (Bare) {{ option (google.api.http) = {{ {rule} }}; }}"
    with pytest.raises(RouteError, match="whole body"):
        list(list_operations([compile_service(tmp_path, rpc)], SchemaRegistry(ProtoComments())))
