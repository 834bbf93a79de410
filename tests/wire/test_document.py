"""The OpenAPI document is complete: paths, codes, examples, references."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from florin.v1 import access_pb2
from florin_server.app.servers import grpc_server
from florin_server.domain.errors import ERROR_DETAILS, ERROR_SPECS, ErrorCode
from florin_server.web.openapi import DOCUMENT_PATH, headers
from florin_server.web.openapi.examples import find_operation, read_exchanges
from florin_server.web.openapi.refusals import DEPLOYED_ONLY
from google.api import annotations_pb2
from grpc_rest_gateway.openapi import ProtoComments, SchemaRegistry, list_operations

from tests.support.json_shapes import list_undocumented, resolve_schema

GOLDEN = Path(__file__).parent / "golden"
DOCUMENT: dict[str, Any] = json.loads(DOCUMENT_PATH.read_text())
OPERATIONS = {
    operation["operationId"]: operation
    for operations in DOCUMENT["paths"].values()
    for operation in operations.values()
}
# codes for the operator only, and codes of no operation under /v1
ELSEWHERE = {
    ErrorCode.UNAUTHORIZED,
    ErrorCode.MERCHANT_EXISTS,
    ErrorCode.API_KEY_NOT_FOUND,
    ErrorCode.PARTNER_NOT_FOUND,
    ErrorCode.CUSTOMER_NOT_FOUND,
    ErrorCode.WALLET_NOT_FOUND,
    ErrorCode.EXECUTOR_NOT_FOUND,
}
ANSWERS = [(p, e) for p in ("spec", "deployed") for e in read_exchanges(GOLDEN, p)]


def validator(schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(
        {**schema, "components": DOCUMENT["components"]}, validate_formats=True
    )


def parts(value: Any) -> Any:
    """Yield every object in the document."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            yield from parts(inner)


def list_operation_ids() -> Any:
    for operations in DOCUMENT["paths"].values():
        for operation in operations.values():
            yield operation["operationId"]


def contents(operation: dict[str, Any]) -> Any:
    """Yield the bodies of the request and of each answer, with a name."""
    if "requestBody" in operation:
        yield "request", operation["requestBody"]["content"]["application/json"]
    for status, answer in operation["responses"].items():
        for kind, content in resolve_schema(DOCUMENT, answer).get("content", {}).items():
            if kind == "application/json":
                yield status, content


def codes_of(operation: dict[str, Any], status: str) -> set[str]:
    answer = resolve_schema(DOCUMENT, operation["responses"][status])
    schema = resolve_schema(DOCUMENT, answer["content"]["application/json"]["schema"])
    return set(schema["allOf"][1]["properties"]["code"]["enum"])


def test_every_route_of_every_rpc_is_in_it():
    routes = set()
    for service in grpc_server.PUBLIC_SERVICES:
        for method in service.methods:
            rule = method.GetOptions().Extensions[annotations_pb2.http]
            for item in (rule, *rule.additional_bindings):
                if kind := item.WhichOneof("pattern"):
                    routes.add((kind, re.sub(r"\{.*?\}", "{}", getattr(item, kind))))
    result = {
        (verb, re.sub(r"\{.*?\}", "{}", path))
        for path, operations in DOCUMENT["paths"].items()
        for verb in operations
        if path.startswith("/v1/")
    }
    assert result == routes
    assert {"/versions", "/spec/{version}/openapi.json", "/healthz", "/readyz"} <= set(
        DOCUMENT["paths"]
    )


def test_every_operation_has_a_summary_tags_and_a_success_response():
    tags = {tag["name"] for tag in DOCUMENT["tags"]}
    assert len(OPERATIONS) == sum(len(o) for o in DOCUMENT["paths"].values())
    for name, operation in OPERATIONS.items():
        assert operation["summary"], name
        assert set(operation["tags"]) <= tags, name
        assert any(status.startswith("2") for status in operation["responses"]), name
    assert [n for n, o in OPERATIONS.items() if o.get("deprecated")] == [
        "createPaymentAlias",
        "getPaymentStatusAlias",
        "listPaymentsLegacy",
    ]


def test_operation_ids_are_names_of_methods_in_every_language():
    assert len(OPERATIONS) == len(list(list_operation_ids()))
    for name in list_operation_ids():
        assert re.fullmatch(r"[a-z]+(?:[A-Z][a-z]+)*", name), name
    folded = {name.lower() for name in list_operation_ids()}
    assert len(folded) == len(OPERATIONS)


def test_every_request_body_and_path_variable_has_an_example():
    for name, operation in OPERATIONS.items():
        if "requestBody" in operation:
            assert operation["requestBody"]["content"]["application/json"]["examples"], name
        for parameter in operation.get("parameters", []):
            if parameter.get("in") == "path":
                assert validator(parameter["schema"]).is_valid(parameter["example"]), name
    for name, webhook in DOCUMENT["webhooks"].items():
        body = webhook["post"]["requestBody"]["content"]["application/json"]
        (example,) = body["examples"].values()
        assert example["value"]["type"] == name
        validator(body["schema"]).validate(example["value"])
        assert list_undocumented(DOCUMENT, body["schema"], example["value"]) == []


def test_error_responses_are_references():
    for name, operation in OPERATIONS.items():
        for status, answer in operation["responses"].items():
            # readiness has a body of its own
            if status >= "400" and (name, status) != ("getReadiness", "503"):
                assert set(answer) == {"$ref"}, (name, status)


def test_no_schema_of_a_member_is_any_value_as_an_alternative():
    for part in parts(DOCUMENT):
        for keyword in ("anyOf", "oneOf"):
            assert {} not in part.get(keyword, [])


def test_every_part_that_is_named_exists_and_is_used():
    named = {p["$ref"] for p in parts(DOCUMENT) if isinstance(p.get("$ref"), str)}
    for reference in named:
        assert resolve_schema(DOCUMENT, {"$ref": reference})
    existing = {
        f"#/components/{kind}/{n}"
        for kind, component in DOCUMENT["components"].items()
        for n in component
    }
    schemes = {s for o in OPERATIONS.values() for item in o["security"] for s in item}
    used = named | {f"#/components/securitySchemes/{name}" for name in schemes}
    # required variants of headers are inlined
    written = {f"#/components/headers/{name}" for name in headers.HEADERS}
    assert existing - used - written == set()


def test_every_variable_of_a_path_is_a_parameter():
    for path, operations in DOCUMENT["paths"].items():
        for operation in operations.values():
            sent = [resolve_schema(DOCUMENT, p) for p in operation.get("parameters", [])]
            names = [p["name"] for p in sent if p["in"] == "path"]
            assert sorted(names) == sorted(re.findall(r"\{(.*?)\}", path))
            assert len({(p["in"], p["name"]) for p in sent}) == len(sent)


def test_every_schema_is_valid_and_described():
    for name, schema in DOCUMENT["components"]["schemas"].items():
        jsonschema_rs.meta.validate(schema)
        assert schema["description"], name
    for operation in OPERATIONS.values():
        for parameter in operation.get("parameters", []):
            schema = resolve_schema(DOCUMENT, parameter)["schema"]
            jsonschema_rs.meta.validate(schema)
            if "default" in schema:
                validator(schema).validate(schema["default"])


def test_every_example_fits():
    count = 0
    for operation in OPERATIONS.values():
        for where, content in contents(operation):
            result = [item["value"] for item in content.get("examples", {}).values()]
            for example in [*result, *([content["example"]] if "example" in content else [])]:
                count += 1
                validator(content["schema"]).validate(example)
                if where != "request":
                    assert list_undocumented(DOCUMENT, content["schema"], example) == []
                assert "<" not in json.dumps(example)
    assert count > 50


@pytest.mark.parametrize(
    ("profile", "exchange"),
    [
        pytest.param(*item, id=f"{item[0]} {item[1].name} {item[1].method} {number}")
        for number, item in enumerate(ANSWERS)
    ],
)
def test_every_recorded_response_is_documented(profile, exchange):
    operation = find_operation(DOCUMENT["paths"], exchange)
    assert operation is not None, exchange.path
    answer = resolve_schema(DOCUMENT, operation["responses"][str(exchange.status)])
    schema = answer["content"]["application/json"]["schema"]
    validator(schema).validate(exchange.body)
    assert list_undocumented(DOCUMENT, schema, exchange.body) == []
    code = exchange.body.get("code")
    assert profile == "deployed" or code not in DEPLOYED_ONLY


def test_error_details_have_the_same_form_in_responses_document_and_protos():
    schema = DOCUMENT["components"]["schemas"]["Error"]["properties"]["details"]
    assert schema["properties"].keys() == ERROR_DETAILS.keys()
    assert {part["type"] for part in schema["properties"].values()} == {"string"}
    assert schema["additionalProperties"] == {"type": "string"}
    contract = (Path(__file__).parents[2] / "protos/florin/v1/errors.proto").read_text()
    (names,) = re.findall(r"Their names: ([\w, ]+)\.", contract.replace("\n// ", " "))
    assert names.split(", ") == list(ERROR_DETAILS)
    result = [exchange.body["details"] for _, exchange in ANSWERS if "details" in exchange.body]
    assert {type(value) for details in result for value in details.values()} == {str}
    assert {name for details in result for name in details} <= ERROR_DETAILS.keys()


def test_every_error_code_is_documented_at_an_operation():
    result = set().union(
        *(
            codes_of(operation, status)
            for operation in OPERATIONS.values()
            for status, answer in operation["responses"].items()
            if status >= "400" and "$ref" in answer
        )
    )
    assert result == set(ERROR_SPECS) - ELSEWHERE
    assert set(DOCUMENT["components"]["schemas"]["Error"]["properties"]["code"]["enum"]) == set(
        ERROR_SPECS
    )


def test_wallets_never_get_codes_that_they_cannot_read():
    unreadable = {
        "customer_not_found",
        "executor_not_found",
        "payment_not_succeeded",
        "already_refunded",
        *DEPLOYED_ONLY,
    }
    for name, operation in OPERATIONS.items():
        if operation["tags"] == ["Wallets"]:
            for status in operation["responses"]:
                if status >= "400":
                    assert not codes_of(operation, status) & unreadable, (name, status)


def test_codes_of_the_deployed_profile_are_marked():
    marked = 0
    for operation in OPERATIONS.values():
        for status, answer in operation["responses"].items():
            text = resolve_schema(DOCUMENT, answer)["description"]
            for code in DEPLOYED_ONLY & (
                codes_of(operation, status) if "Errors:" in text else set()
            ):
                assert f"`{code}` (deployed profile only)" in text
                marked += 1
    assert marked > 10


def test_each_family_has_its_credentials():
    families = {}
    for service in grpc_server.PUBLIC_SERVICES:
        for operation in list_operations([service], SchemaRegistry(ProtoComments())):
            rule = operation.method.GetOptions().Extensions[access_pb2.access]
            families[operation.verb, operation.path] = rule.family
    for place, operation in (
        ((verb, path), operation)
        for path, operations in DOCUMENT["paths"].items()
        for verb, operation in operations.items()
    ):
        name = operation["operationId"]
        family = families.get(place)
        sent = [resolve_schema(DOCUMENT, p) for p in operation.get("parameters", [])]
        merchant = [p for p in sent if p["name"] == "Merchant-Id"]
        assert bool(merchant) is (family == access_pb2.CALLER_FAMILY_PAYMENTS), name
        assert all(p["required"] for p in merchant)
        schemes = {scheme for item in operation["security"] for scheme in item}
        if family is None:
            assert schemes == set(), name
        else:
            wallet = family == access_pb2.CALLER_FAMILY_GATEWAY
            assert ({"AppId", "ClientId"} <= schemes) is wallet, name
            assert "ApiKey" in schemes, name


def test_comments_are_read_from_a_descriptor_image():
    assert DOCUMENT["components"]["schemas"]["PaymentStatus"]["description"].startswith(
        "Status of a payment."
    )
    assert ProtoComments() == {}
