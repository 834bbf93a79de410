"""Build the OpenAPI document: operations, credentials, headers, error responses and examples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from florin.v1 import access_pb2
from google.protobuf.descriptor import ServiceDescriptor
from grpc_rest_gateway.openapi import (
    OpenApiOperation,
    ProtoComments,
    SchemaRegistry,
    list_operations,
)

from florin_server.domain.errors import ERROR_DETAILS, ERROR_SPECS
from florin_server.web.headers import GATEWAY_SETTINGS
from florin_server.web.openapi import headers
from florin_server.web.openapi.error_responses import SharedResponses
from florin_server.web.openapi.examples import get_path_example
from florin_server.web.openapi.operation_ids import make_operation_id
from florin_server.web.openapi.plain import describe_paths
from florin_server.web.openapi.refusals import list_refusals
from florin_server.web.openapi.webhooks import describe_webhooks

JsonObject = dict[str, Any]

# in the order of the page
_TAGS = {
    access_pb2.CALLER_FAMILY_PAYMENTS: (
        "Payments",
        "The calls of one merchant's back end.",
    ),
    access_pb2.CALLER_FAMILY_ACCOUNT: (
        "Accounts",
        "The calls of a partner for all of its merchants.",
    ),
    access_pb2.CALLER_FAMILY_GATEWAY: (
        "Wallets",
        "The calls of a wallet to pay one payment. Callable from browsers of every origin.",
    ),
    access_pb2.CALLER_FAMILY_SANDBOX: ("Sandbox", "Outcomes of test payments on demand."),
}
# defaults of the server for parameters that were not sent
_LIST_DEFAULTS = {"sortBy": "date", "sortDir": "desc", "limit": 50}
_DEFAULTS: dict[str, JsonObject] = {
    "listPayments": _LIST_DEFAULTS,
    "listMerchantPayments": _LIST_DEFAULTS,
    "listPaymentsLegacy": {"sort_by": "date", "sort_dir": "desc", "limit": 50},
    "listMerchants": {"limit": 20},
    "getPaymentOptions": {"includePaymentInfo": False},
}
_WEBHOOKS_TAG = {"name": "Webhooks", "description": "Events that Florin sends to back ends."}
_SERVICE_TAG = {"name": "Service", "description": "Versions, this document, health."}
_DESCRIPTION = """\
Payments in tokens, settled on chain.

**Authentication.** A merchant's back end sends the key of its partner as `Api-Key`, and the
merchant as `Merchant-Id`. Calls for all merchants of a partner need only `Api-Key`. A wallet sends
its public `App-Id` with a `Client-Id` of its choice. Keys that start with `fl_test_` see test data
only, keys that start with `fl_live_` live data only.

**Retries.** A request with `Idempotency-Key` is safe to repeat. Confirm, cancel, refund and
deletion are safe to repeat without a key.

**Errors.** Every response with a status of 400 or above has the body `Error`; `code` gives the
reason, `requestId` identifies the request.

**Numbers.** Integers are JSON numbers. Amounts are texts of decimal digits, in minor units.

**Null and absent.** In a request, null means absent, except where a member says otherwise. Florin
ignores unknown members, parameters and headers. Any version can add members, enum values and error
codes to responses.

**Two profiles.** A call with `WCP-Version` and without `Pay-Version` uses the deployed profile.
There, members that contain JSON (`params`, `schema`) are JSON values instead of texts, and some
errors have their own codes, which are marked. Nothing else differs. A call without either header
uses it too if `Sdk-Name` is `js-walletconnect-pay`, case-insensitive: its releases 1.0.4 and 1.0.5
send no version.
"""


def build_document(
    services: Iterable[ServiceDescriptor], comments: ProtoComments, examples: dict[str, JsonObject]
) -> JsonObject:
    """Build the document without version and address; raise ValueError if two operations collide.

    `examples` has examples of bodies by operation id, then by `request` or the status of a
    response, then by name of the example.
    """
    schemas = SchemaRegistry(comments)
    shared = SharedResponses()
    paths: JsonObject = {}
    families: set[int] = set()
    # path of the first binding of each RPC
    first_paths: dict[str, str] = {}
    for operation in list_operations(services, schemas, GATEWAY_SETTINGS):
        first_path = first_paths.setdefault(operation.method.full_name, operation.path)
        operation_id = make_operation_id(operation)
        parts = {"operationId": operation_id, **_describe_alias(operation, first_path)}
        parts = operation.parts | parts
        _complete_operation(operation, parts, shared, examples.get(operation_id, {}))
        if paths.setdefault(operation.path, {}).setdefault(operation.verb, parts) is not parts:
            raise ValueError(f"two operations at {operation.verb} {operation.path}")
        families.add(headers.get_access_rule(operation).family)
    plain_paths = {path: {"get": parts} for path, parts in describe_paths(shared).items()}
    webhook_descriptions = describe_webhooks(schemas)
    own_schemas = {"Error": _describe_error(), **headers.SCHEMAS}
    tags = [{"name": n, "description": d} for f, (n, d) in _TAGS.items() if f in families]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Florin",
            "version": "",
            "summary": "Self-hosted crypto payment gateway",
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [*tags, _WEBHOOKS_TAG, _SERVICE_TAG],
        "webhooks": webhook_descriptions,
        "paths": paths | plain_paths,
        "components": {
            "schemas": dict(
                sorted({**schemas.components, **shared.schemas, **own_schemas}.items())
            ),
            "responses": dict(sorted(shared.responses.items())),
            "parameters": headers.PARAMETERS,
            "headers": headers.HEADERS,
            "securitySchemes": headers.SECURITY_SCHEMES,
        },
    }


def _describe_alias(operation: OpenApiOperation, first_path: str) -> JsonObject:
    if not operation.is_additional:
        return {}
    successor = f"`{operation.binding.http_method} {first_path}`"
    return {
        "description": f"An alias of {successor} with the same behavior. Use {successor}.",
        "deprecated": True,
    }


def _complete_operation(
    operation: OpenApiOperation,
    parts: JsonObject,
    shared_responses: SharedResponses,
    examples: JsonObject,
) -> None:
    """Add what the gateway library does not know."""
    rule = headers.get_access_rule(operation)
    parts["tags"] = [_TAGS[rule.family][0]]
    parts["security"] = headers.list_security(operation)
    defaults = _DEFAULTS.get(parts["operationId"], {})
    for parameter in parts.get("parameters", []):
        if parameter["name"] in defaults:
            parameter["schema"]["default"] = defaults[parameter["name"]]
        if parameter["in"] == "path":
            parameter["example"] = get_path_example(parameter["name"], operation.path)
    parts["parameters"] = [*parts.get("parameters", []), *headers.list_parameters(operation)]
    for status, answer in parts["responses"].items():
        answer["headers"] = headers.describe_response_headers(operation, int(status))
        _add_examples(answer, examples.get(status, {}))
    if "requestBody" in parts:
        _add_examples(parts["requestBody"], examples.get("request", {}))
    refusals = list_refusals(operation.method, has_body=operation.binding.has_body)
    for status, codes in sorted(refusals.items()):
        answer_headers = headers.describe_response_headers(operation, status)
        answer = shared_responses.add(status, codes, answer_headers)
        shared_responses.add_examples(answer, examples.get(str(status), {}).values())
        parts["responses"][str(status)] = answer


def _add_examples(part: JsonObject, examples: JsonObject) -> None:
    if examples and "application/json" in part.get("content", {}):
        example_objects = {name: {"value": value} for name, value in examples.items()}
        part["content"]["application/json"]["examples"] = example_objects


def _describe_error() -> JsonObject:
    text_schema = {"type": "string"}
    issue = {
        "type": "object",
        "required": ["field", "message"],
        "properties": {
            "field": {**text_schema, "description": "The member's path, e.g. `amount.value`."},
            "message": {**text_schema, "description": "Why the value is invalid."},
        },
    }
    return {
        "description": "Body of every error response.",
        "type": "object",
        "required": ["code", "message", "requestId"],
        "properties": {
            "code": {
                "description": "Error code, for programs.",
                "type": "string",
                "enum": [str(code) for code in ERROR_SPECS],
            },
            "message": {**text_schema, "description": "Error message, for people."},
            "issues": {
                "description": "Invalid members of the request, if the error concerns members.",
                "type": "array",
                "minItems": 1,
                "items": issue,
            },
            "details": {
                "description": "Facts for programs, all of them texts. Numbers are decimal "
                "digits; lists are separated by `, `. More facts can be added.",
                "type": "object",
                "properties": {
                    name: {**text_schema, "description": description}
                    for name, description in ERROR_DETAILS.items()
                },
                "additionalProperties": text_schema,
            },
            "requestId": {**text_schema, "description": "Id of the request in logs."},
        },
    }
