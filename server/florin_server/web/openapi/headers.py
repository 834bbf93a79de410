"""What travels in headers: credentials, selectors, and what answers say besides their body."""

from __future__ import annotations

from typing import Any

from florin.v1 import access_pb2
from florin_gateway.openapi import Operation
from gateway_options.v1 import json_pb2

from florin_server.domain.versions import PUBLISHED

Json = dict[str, Any]

_VERSION = {"type": "string", "enum": list(PUBLISHED)}
_SDK = {"type": "string", "pattern": "^[ -~]*$"}
_KEY = {"type": "string", "maxLength": 255, "pattern": "^[ -~]*$"}
PARAMETERS: Json = {
    "PayVersion": {
        "name": "Pay-Version",
        "in": "header",
        "description": "Version of the API; unset means the one that the account is pinned to.",
        "schema": _VERSION,
    },
    "WcpVersion": {
        "name": "WCP-Version",
        "in": "header",
        "description": "The same under an older name, read only without `Pay-Version`. A call with "
        "this header alone is answered in the deployed profile.",
        "schema": _VERSION,
    },
    "SdkName": {
        "name": "Sdk-Name",
        "in": "header",
        "description": "Caller. Without a version header, `js-walletconnect-pay` selects the "
        "deployed profile.",
        "schema": _SDK,
    },
    "SdkVersion": {
        "name": "Sdk-Version",
        "in": "header",
        "description": "Version of the caller.",
        "schema": _SDK,
    },
    "SdkPlatform": {
        "name": "Sdk-Platform",
        "in": "header",
        "description": "What the caller runs on.",
        "schema": _SDK,
    },
    "RequestId": {
        "name": "Request-Id",
        "in": "header",
        "description": "Repeated in the answer if it is 1 to 64 of `A-Za-z0-9._-`.",
        "schema": {"type": "string"},
    },
    "MerchantId": {
        "name": "Merchant-Id",
        "in": "header",
        "required": True,
        "description": "For which of the partner's merchants.",
        "schema": {"type": "string", "pattern": "^[ -~]*[!-~][ -~]*$"},
    },
    "LastEventId": {
        "name": "Last-Event-ID",
        "in": "header",
        "description": "Version that was seen last; only newer ones are told. A blank one is none.",
        "schema": {"type": "string", "pattern": "^[0-9]{0,18}$"},
    },
    "IdempotencyKey": {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "A repeated request with the same key has one effect and one answer; "
        "another request with it is refused. A blank one is none.",
        "schema": _KEY,
    },
    "RequiredIdempotencyKey": {
        "name": "Idempotency-Key",
        "in": "header",
        "required": True,
        "description": "A repeated request with the same key has one effect and one answer; "
        "another request with it is refused.",
        "schema": {**_KEY, "pattern": "^[ -~]*[!-~][ -~]*$"},
    },
}
SECURITY_SCHEMES: Json = {
    "ApiKey": {
        "type": "apiKey",
        "in": "header",
        "name": "Api-Key",
        "description": "Key of a partner or of a wallet; never sent beside App-Id.",
    },
    "AppId": {
        "type": "apiKey",
        "in": "header",
        "name": "App-Id",
        "description": "Registration of a wallet, public; sent with Client-Id.",
    },
    "ClientId": {
        "type": "apiKey",
        "in": "header",
        "name": "Client-Id",
        "description": "Installation of a wallet, in its own words.",
    },
    "XApiKey": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Api-Key",
        "description": "The same as ApiKey under an older name.",
    },
}


def _header(description: str, pattern: str = "") -> Json:
    schema: Json = {"type": "string"}
    if pattern:
        schema["pattern"] = pattern
    return {"description": description, "schema": schema}


_WHOLE = {"type": "integer", "minimum": 1}
HEADERS: Json = {
    "Cache-Control": {
        "description": "Answers are never stored.",
        "required": True,
        "schema": {"const": "no-store"},
    },
    "Request-Id": {
        **_header("Names the request in logs.", "^[A-Za-z0-9._-]{1,64}$"),
        "required": True,
    },
    "Pay-Version": {"description": "Version that was spoken.", "schema": _VERSION},
    "WCP-Version": {"description": "The same under an older name.", "schema": _VERSION},
    "RateLimit-Policy": _header('Allowed per window, e.g. `"key";q=12000;w=60`.'),
    "RateLimit": _header('Left of it, e.g. `"key";r=11999;t=1`.'),
    "Retry-After": {"description": "Seconds to wait before the next try.", "schema": _WHOLE},
    "Idempotent-Replayed": {
        "description": "The answer is that of an earlier request with the same key.",
        "schema": {"const": "true"},
    },
    "Deprecation": _header("Since when the operation is deprecated.", "^@[0-9]+$"),
    "Link": _header("What to call instead.", '; rel="successor-version"$'),
}
# a proxy that compresses an event stream holds its events back
_STREAM_CACHE_CONTROL: Json = {
    "description": "Events are never stored or transformed.",
    "required": True,
    "schema": {"const": "no-store, no-transform"},
}
_REF = "#/components/headers/"
_ALWAYS = ("Cache-Control", "Request-Id")
_RESOLVED = ("Pay-Version", "WCP-Version")
_LIMITS = ("RateLimit-Policy", "RateLimit")
_REQUIRED_KEY = (access_pb2.IDEMPOTENCY_RULE_REQUIRED, access_pb2.IDEMPOTENCY_RULE_PERMANENT)
_WALLETS = access_pb2.CALLER_FAMILY_GATEWAY


def rule_of(operation: Operation) -> access_pb2.AccessRule:
    """Who may call an operation."""
    rule: access_pb2.AccessRule = operation.method.GetOptions().Extensions[access_pb2.access]
    return rule


def rest_of(operation: Operation) -> json_pb2.RestRule:
    """How an operation behaves over HTTP."""
    rule: json_pb2.RestRule = operation.method.GetOptions().Extensions[json_pb2.rest]
    return rule


def parameters(operation: Operation) -> list[Json]:
    """The request headers of an operation, as references."""
    rule = rule_of(operation)
    names = ["MerchantId"] if rule.family == access_pb2.CALLER_FAMILY_PAYMENTS else []
    if rule.idempotency in _REQUIRED_KEY:
        names.append("RequiredIdempotencyKey")
    elif rule.idempotency:
        names.append("IdempotencyKey")
    if operation.binding.resume:
        names.append("LastEventId")
    names += ["PayVersion", "WcpVersion", "SdkName", "SdkVersion", "SdkPlatform", "RequestId"]
    return [{"$ref": f"#/components/parameters/{name}"} for name in names]


def security(operation: Operation) -> list[Json]:
    """The ways to prove who calls."""
    if rule_of(operation).family == _WALLETS:
        return [{"AppId": [], "ClientId": []}, {"ApiKey": []}]
    if rest_of(operation).header_aliases:
        return [{"ApiKey": []}, {"XApiKey": []}]
    return [{"ApiKey": []}]


def answered(operation: Operation, status: int) -> Json:
    """The headers of one answer."""
    names = [*_ALWAYS, *_RESOLVED, *_LIMITS]
    succeeded = status < 300
    if status in {409, 429, 502, 503}:
        names.append("Retry-After")
    if succeeded and rule_of(operation).idempotency:
        names.append("Idempotent-Replayed")
    rest = rest_of(operation)
    names += ["Deprecation"] if rest.deprecated_since else []
    names += ["Link"] if rest.successor else []
    told: Json = {name: {"$ref": _REF + name} for name in names}
    must = (
        {*_RESOLVED, "Deprecation", "Link"} if succeeded and not operation.binding.stream else set()
    )
    must |= {"Retry-After"} if status == 429 else set()
    for name in must & told.keys():
        told[name] = {**HEADERS[name], "required": True}
    if status == 200 and operation.binding.stream:
        told["Cache-Control"] = _STREAM_CACHE_CONTROL
    return told


def plain(*, stream: bool = False) -> Json:
    """Describe the headers of answers outside the versioned API, or of event streams there."""
    described: Json = {name: {"$ref": _REF + name} for name in _ALWAYS}
    if stream:
        described["Cache-Control"] = _STREAM_CACHE_CONTROL
    return described
