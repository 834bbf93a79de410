"""The document: operations of the routes, with credentials, headers, refusals and examples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from florin.v1 import access_pb2
from florin_gateway.openapi import Comments, Operation, Schemas, operations_of
from google.protobuf.descriptor import ServiceDescriptor

from florin_server.domain.errors import DETAILS, REGISTRY, Code
from florin_server.web.openapi import headers
from florin_server.web.openapi.plain import PATHS
from florin_server.web.openapi.refusals import DEPLOYED_ONLY, refusals_of
from florin_server.web.openapi.webhooks import webhooks

Json = dict[str, Any]

_ERROR_REF = "#/components/schemas/Error"
_TAGS = {
    access_pb2.CALLER_FAMILY_GATEWAY: (
        "Wallets",
        "What a wallet needs to pay one payment. Callable from browsers of every origin.",
    ),
    access_pb2.CALLER_FAMILY_PAYMENTS: (
        "Payments",
        "What the back end of one merchant calls.",
    ),
    access_pb2.CALLER_FAMILY_ACCOUNT: (
        "Accounts",
        "What a partner calls for all of its merchants.",
    ),
    access_pb2.CALLER_FAMILY_SANDBOX: ("Sandbox", "Outcomes of test payments on demand."),
}
# what the server reads where a parameter is not sent
_PAGES = {"sortBy": "date", "sortDir": "desc", "limit": 50}
_DEFAULTS: dict[str, Json] = {
    "MerchantService_ListPayments": _PAGES,
    "MerchantService_ListMerchantPayments": _PAGES,
    "MerchantService_ListPaymentsLegacy": {"sort_by": "date", "sort_dir": "desc", "limit": 50},
    "AdminService_ListMerchants": {"limit": 20},
    "GatewayService_GetPaymentOptions": {"includePaymentInfo": False},
}
_WEBHOOKS_TAG = {"name": "Webhooks", "description": "What back ends are told of changes."}
_SERVICE_TAG = {"name": "Service", "description": "Versions, this document, health."}
_ABOUT = """\
Payments in tokens, settled on chain.

**Numbers.** Integers are JSON numbers. Amounts are texts of decimal digits, in minor units.

**Null and absent.** In a request, null means absent, except where a member says otherwise. Unknown
members, parameters and headers are ignored. Answers may get more members, enum values and error
codes in any version.

**Two profiles.** A call with `WCP-Version` and without `Pay-Version` is answered in the deployed
profile: texts that hold JSON (`params`, `schema`) are then JSON themselves, and some refusals have
codes of their own, which are marked. Nothing else differs. A call without either header is answered
in it if `Sdk-Name` is `js-walletconnect-pay`, in any case: its releases 1.0.4 and 1.0.5 send no
version.

**Refusals.** Every answer from 400 on has the body `Error`; `code` says what is wrong, `requestId`
names the request.

**Repeating.** A request with `Idempotency-Key` can be repeated safely. Confirm, cancel, refund and
deletion are safe to repeat without one.
"""


def build(
    services: Iterable[ServiceDescriptor], comments: Comments, examples: dict[str, Json]
) -> Json:
    """The document, without version and address; ValueError if two operations collide.

    `examples` holds, by operation id, examples of bodies: `request`, or the status of an answer,
    then the name of the example.
    """
    schemas = Schemas(comments)
    shared = _Shared()
    paths: Json = {}
    families: set[int] = set()
    for operation in operations_of(services, schemas):
        parts = _operation(operation, shared, examples.get(operation.parts["operationId"], {}))
        if paths.setdefault(operation.path, {}).setdefault(operation.verb, parts) is not parts:
            raise ValueError(f"two operations at {operation.verb} {operation.path}")
        families.add(headers.rule_of(operation).family)
    told = webhooks(schemas)
    tags = [{"name": n, "description": d} for f, (n, d) in _TAGS.items() if f in families]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Florin",
            "version": "",
            "summary": "Self-hosted crypto payment gateway",
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [*tags, _WEBHOOKS_TAG, _SERVICE_TAG],
        "webhooks": told,
        "paths": paths | {path: {"get": parts} for path, parts in PATHS.items()},
        "components": {
            "schemas": dict(sorted({**schemas.components, "Error": _error()}.items())),
            "responses": dict(sorted(shared.responses.items())),
            "parameters": headers.PARAMETERS,
            "headers": headers.HEADERS,
            "securitySchemes": headers.SECURITY_SCHEMES,
        },
    }


class _Shared:
    """Refusals that several operations have in common."""

    def __init__(self) -> None:
        self.responses: Json = {}

    def put(self, status: int, answer: Json) -> Json:
        """A reference to the answer."""
        number = 1
        while self.responses.setdefault(name := f"Refused{status}_{number}", answer) != answer:
            number += 1
        return {"$ref": f"#/components/responses/{name}"}


def _operation(operation: Operation, shared: _Shared, examples: Json) -> Json:
    parts = operation.parts
    rule = headers.rule_of(operation)
    parts["tags"] = [_TAGS[rule.family][0]]
    parts["security"] = headers.security(operation)
    defaults = _DEFAULTS.get(parts["operationId"], {})
    for parameter in parts.get("parameters", []):
        if parameter["name"] in defaults:
            parameter["schema"]["default"] = defaults[parameter["name"]]
    parts["parameters"] = [*parts.get("parameters", []), *headers.parameters(operation)]
    for status, answer in parts["responses"].items():
        answer["headers"] = headers.answered(operation, int(status))
        _add_examples(answer, examples.get(status, {}))
    if "requestBody" in parts:
        _add_examples(parts["requestBody"], examples.get("request", {}))
    refusals = refusals_of(operation.method, has_body=operation.binding.has_body)
    for status, codes in sorted(refusals.items()):
        answer = _refusal(codes)
        answer["headers"] = headers.answered(operation, status)
        if told := examples.get(str(status)):
            _add_examples(answer, told)
        else:
            answer = shared.put(status, answer)
        parts["responses"][str(status)] = answer
    return parts


def _refusal(among: set[Code]) -> Json:
    codes = [code for code in REGISTRY if code in among]
    lines = [f"- `{code}`{_profile_note(code)}" for code in codes]
    schema = {
        "allOf": [{"$ref": _ERROR_REF}, {"properties": {"code": {"enum": [str(c) for c in codes]}}}]
    }
    return {
        "description": "Refused:\n" + "\n".join(lines),
        "content": {"application/json": {"schema": schema}},
    }


def _profile_note(code: Code) -> str:
    return " (deployed profile only)" if code in DEPLOYED_ONLY else ""


def _add_examples(part: Json, examples: Json) -> None:
    if examples and "application/json" in part.get("content", {}):
        told = {name: {"value": value} for name, value in examples.items()}
        part["content"]["application/json"]["examples"] = told


def _error() -> Json:
    text = {"type": "string"}
    issue = {
        "type": "object",
        "required": ["field", "message"],
        "properties": {
            "field": {**text, "description": "The member's path, e.g. `amount.value`."},
            "message": {**text, "description": "What is wrong with it."},
        },
    }
    return {
        "description": "Every refusal.",
        "type": "object",
        "required": ["code", "message", "requestId"],
        "properties": {
            "code": {
                "description": "What is wrong, for programs.",
                "type": "string",
                "enum": [str(code) for code in REGISTRY],
            },
            "message": {**text, "description": "What is wrong, for people."},
            "issues": {
                "description": "The faults of the request, where they have a place.",
                "type": "array",
                "minItems": 1,
                "items": issue,
            },
            "details": {
                "description": "Facts for programs, all of them texts: numbers are decimal "
                "digits, lists have `, ` between. More may come.",
                "type": "object",
                "properties": {
                    name: {**text, "description": told} for name, told in DETAILS.items()
                },
                "additionalProperties": text,
            },
            "requestId": {**text, "description": "Names the request in logs."},
        },
    }
