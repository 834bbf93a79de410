"""Headers of the API: credentials, versions, and the metadata of responses."""

from __future__ import annotations

from typing import Any

from florin.v1 import access_pb2
from gateway_options.v1 import json_pb2
from grpc_rest_gateway.openapi import OpenApiOperation

from florin_server.domain.versions import PUBLISHED_VERSIONS

JsonObject = dict[str, Any]

# with a name of its own: one type in a generated client, not one for each operation
SCHEMAS: JsonObject = {
    "ApiVersion": {
        "description": "A published version of the API.",
        "type": "string",
        "enum": list(PUBLISHED_VERSIONS),
    }
}
VERSION_REF = {"$ref": "#/components/schemas/ApiVersion"}
_SDK = {"type": "string", "pattern": "^[ -~]*$"}
_KEY = {"type": "string", "maxLength": 255, "pattern": "^[ -~]*$"}
PARAMETERS: JsonObject = {
    "PayVersion": {
        "name": "Pay-Version",
        "in": "header",
        "description": "Version of the API; unset means the version that the account is pinned to.",
        "schema": VERSION_REF,
    },
    "WcpVersion": {
        "name": "WCP-Version",
        "in": "header",
        "description": "Older name of `Pay-Version`, read only without it. A call with "
        "only this header uses the deployed profile.",
        "schema": VERSION_REF,
    },
    "SdkName": {
        "name": "Sdk-Name",
        "in": "header",
        "description": "SDK of the caller. Without a version header `js-walletconnect-pay` selects "
        "the deployed profile.",
        "schema": _SDK,
    },
    "SdkVersion": {
        "name": "Sdk-Version",
        "in": "header",
        "description": "Version of the SDK.",
        "schema": _SDK,
    },
    "SdkPlatform": {
        "name": "Sdk-Platform",
        "in": "header",
        "description": "Platform of the caller.",
        "schema": _SDK,
    },
    "RequestId": {
        "name": "Request-Id",
        "in": "header",
        "description": "Returned in the response if it has 1 to 64 characters of `A-Za-z0-9._-`.",
        "schema": {"type": "string"},
    },
    "MerchantId": {
        "name": "Merchant-Id",
        "in": "header",
        "required": True,
        "description": "The merchant of the partner for which the call is made.",
        "schema": {"type": "string", "pattern": "^[ -~]*[!-~][ -~]*$"},
    },
    "LastEventId": {
        "name": "Last-Event-ID",
        "in": "header",
        "description": "Last version received; only newer ones are sent. Blank counts as unset.",
        "schema": {"type": "string", "pattern": "^[0-9]{0,18}$"},
    },
    "IdempotencyKey": {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "A repeated request with the same key has one effect and one response; "
        "a different request with it is refused. A blank value counts as unset.",
        "schema": _KEY,
    },
    "RequiredIdempotencyKey": {
        "name": "Idempotency-Key",
        "in": "header",
        "required": True,
        "description": "A repeated request with the same key has one effect and one response; "
        "a different request with it is refused.",
        "schema": {**_KEY, "pattern": "^[ -~]*[!-~][ -~]*$"},
    },
}
SECURITY_SCHEMES: JsonObject = {
    "ApiKey": {
        "type": "apiKey",
        "in": "header",
        "name": "Api-Key",
        "description": "Key of a partner or of a wallet; never sent together with App-Id.",
    },
    "AppId": {
        "type": "apiKey",
        "in": "header",
        "name": "App-Id",
        "description": "Public app id of a registered wallet; sent with Client-Id.",
    },
    "ClientId": {
        "type": "apiKey",
        "in": "header",
        "name": "Client-Id",
        "description": "Installation of a wallet, named by the wallet.",
    },
    "XApiKey": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Api-Key",
        "description": "Older name of the header of ApiKey.",
    },
}


def _describe_header(description: str, pattern: str = "") -> JsonObject:
    schema: JsonObject = {"type": "string"}
    if pattern:
        schema["pattern"] = pattern
    return {"description": description, "schema": schema}


_POSITIVE_INTEGER = {"type": "integer", "minimum": 1}
HEADERS: JsonObject = {
    "Cache-Control": {
        "description": "Responses must not be stored.",
        "required": True,
        "schema": {"const": "no-store"},
    },
    "Request-Id": {
        **_describe_header("Id of the request in logs.", "^[A-Za-z0-9._-]{1,64}$"),
        "required": True,
    },
    "Pay-Version": {"description": "Version of the response.", "schema": VERSION_REF},
    "WCP-Version": {"description": "Older name of `Pay-Version`.", "schema": VERSION_REF},
    "RateLimit-Policy": _describe_header('Requests allowed per window, e.g. `"key";q=12000;w=60`.'),
    "RateLimit": _describe_header('Requests left, e.g. `"key";r=11999;t=1`.'),
    "Retry-After": {
        "description": "Seconds to wait before the next attempt.",
        "schema": _POSITIVE_INTEGER,
    },
    "Idempotent-Replayed": {
        "description": "The response of an earlier request with the same key.",
        "schema": {"const": "true"},
    },
    "Florin-Ignored": _describe_header(
        "Unknown members of the request, which had no effect. Only for test credentials; at most "
        "ten are named."
    ),
    "Deprecation": _describe_header("When the operation was deprecated.", "^@[0-9]+$"),
    "Link": _describe_header("Operation to call instead.", '; rel="successor-version"$'),
}
# a compressing proxy buffers the events of a stream
_STREAM_CACHE_CONTROL: JsonObject = {
    "description": "Events must not be stored or transformed.",
    "required": True,
    "schema": {"const": "no-store, no-transform"},
}
_REF = "#/components/headers/"
_COMMON_HEADERS = ("Cache-Control", "Request-Id")
_VERSION_HEADERS = ("Pay-Version", "WCP-Version")
_LIMIT_HEADERS = ("RateLimit-Policy", "RateLimit")
_REQUIRED_KEY = (access_pb2.IDEMPOTENCY_RULE_REQUIRED, access_pb2.IDEMPOTENCY_RULE_PERMANENT)
_WALLETS = access_pb2.CALLER_FAMILY_GATEWAY


def get_access_rule(operation: OpenApiOperation) -> access_pb2.AccessRule:
    """Return the access rule of an operation: its kind of caller, scope and idempotency."""
    rule: access_pb2.AccessRule = operation.method.GetOptions().Extensions[access_pb2.access]
    return rule


def get_rest_rule(operation: OpenApiOperation) -> json_pb2.RestRule:
    """Return the HTTP options of an operation."""
    rule: json_pb2.RestRule = operation.method.GetOptions().Extensions[json_pb2.rest]
    return rule


def list_parameters(operation: OpenApiOperation) -> list[JsonObject]:
    """List the request headers of an operation, as references."""
    rule = get_access_rule(operation)
    names = ["MerchantId"] if rule.family == access_pb2.CALLER_FAMILY_PAYMENTS else []
    if rule.idempotency in _REQUIRED_KEY:
        names.append("RequiredIdempotencyKey")
    elif rule.idempotency:
        names.append("IdempotencyKey")
    if operation.binding.resume_field:
        names.append("LastEventId")
    names += ["PayVersion", "WcpVersion", "SdkName", "SdkVersion", "SdkPlatform", "RequestId"]
    return [{"$ref": f"#/components/parameters/{name}"} for name in names]


def list_security(operation: OpenApiOperation) -> list[JsonObject]:
    """List the alternatives of credentials for an operation."""
    if get_access_rule(operation).family == _WALLETS:
        return [{"AppId": [], "ClientId": []}, {"ApiKey": []}]
    if get_rest_rule(operation).header_aliases:
        return [{"ApiKey": []}, {"XApiKey": []}]
    return [{"ApiKey": []}]


def describe_response_headers(operation: OpenApiOperation, status: int) -> JsonObject:
    """Describe the headers of one response."""
    names = [*_COMMON_HEADERS, *_VERSION_HEADERS, *_LIMIT_HEADERS]
    succeeded = status < 300
    if status in {409, 429, 502, 503}:
        names.append("Retry-After")
    if succeeded and get_access_rule(operation).idempotency:
        names.append("Idempotent-Replayed")
    rest = get_rest_rule(operation)
    # refusals are described together, for operations with and without a body
    names += ["Florin-Ignored"] if operation.binding.has_body or not succeeded else []
    # left out of refusals, which deprecated operations share with others
    names += ["Deprecation"] if rest.deprecated_since and succeeded else []
    names += ["Link"] if rest.successor and succeeded else []
    report: JsonObject = {name: {"$ref": _REF + name} for name in names}
    must = (
        {*_VERSION_HEADERS, "Deprecation", "Link"}
        if succeeded and not operation.binding.stream_method
        else set()
    )
    must |= {"Retry-After"} if status == 429 else set()
    for name in must & report.keys():
        report[name] = {**HEADERS[name], "required": True}
    if status == 200 and operation.binding.stream_method:
        report["Cache-Control"] = _STREAM_CACHE_CONTROL
    return report


def describe_plain_headers(*, stream: bool = False) -> JsonObject:
    """Describe the headers of answers outside the versioned API, or of event streams there."""
    described: JsonObject = {name: {"$ref": _REF + name} for name in _COMMON_HEADERS}
    if stream:
        described["Cache-Control"] = _STREAM_CACHE_CONTROL
    return described
