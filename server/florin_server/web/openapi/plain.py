"""Operations that are not RPCs: published versions, documents, health."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grpc_rest_gateway.openapi import build_stream_responses

from florin_server.domain.errors import ErrorCode
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.domain.versions import PREVIEW_VERSIONS, STABLE_VERSIONS
from florin_server.web.headers import GATEWAY_SETTINGS
from florin_server.web.openapi.error_responses import SharedResponses
from florin_server.web.openapi.examples import PAYMENT_ID
from florin_server.web.openapi.headers import VERSION_REF, describe_plain_headers
from florin_server.web.openapi.refusals import TRANSPORT

JsonObject = dict[str, Any]


def _describe_response(description: str, schema: JsonObject, example: Any = None) -> JsonObject:
    content: JsonObject = {"schema": schema}
    if example is not None:
        content["example"] = example
    return {
        "description": description,
        "headers": describe_plain_headers(),
        "content": {"application/json": content},
    }


def _make_object_schema(**properties: JsonObject) -> JsonObject:
    return {"type": "object", "required": list(properties), "properties": properties}


def _describe_operation(
    operation_id: str, summary: str, responses: Mapping[str, JsonObject], **more: Any
) -> JsonObject:
    return {
        "operationId": operation_id,
        "summary": summary,
        "tags": ["Service"],
        "security": [],
        **more,
        "responses": dict(responses),
    }


_VERSIONS = {"type": "array", "items": {"type": "string"}}
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_VERSION_IN_PATH = {
    "name": "version",
    "in": "path",
    "required": True,
    "description": "A published version.",
    "schema": VERSION_REF,
    "example": STABLE_VERSIONS[-1],
}
_PAYMENT_IN_PATH = {
    "name": "paymentId",
    "in": "path",
    "required": True,
    "description": "Payment id, or a link that contains one.",
    "schema": {"type": "string"},
    "example": PAYMENT_ID,
}
_STATE: JsonObject = {
    "type": "object",
    "required": ["status", "isFinal", "expiresAt"],
    "properties": {
        "status": {"type": "string", "enum": [str(status) for status in PaymentStatus]},
        "isFinal": {"type": "boolean", "description": "True if the status is final."},
        "pollInMs": {
            "type": "integer",
            "description": "Suggested wait before the next request, in ms; absent when final.",
        },
        "expiresAt": {
            "type": "integer",
            "description": "Unix seconds from which the payment can no longer be confirmed.",
        },
    },
}
_STREAM_RESPONSES = build_stream_responses(
    {
        **_STATE,
        "required": [*_STATE["required"], "version"],
        "properties": {
            **_STATE["properties"],
            "version": {"type": "integer", "description": "Increases by one with every change."},
        },
    },
    GATEWAY_SETTINGS.stream_event,
)
# error codes by status; the status of every operation's refusals, and those of some
_REFUSALS = dict.fromkeys((400, *TRANSPORT), (ErrorCode.INVALID_PARAMS,))
_LINK_REFUSALS = {
    404: (ErrorCode.INVALID_PARAMS, ErrorCode.PAYMENT_NOT_FOUND),
    429: (ErrorCode.RATE_LIMITED,),
}
_OWN_REFUSALS: Mapping[str, Mapping[int, tuple[ErrorCode, ...]]] = {
    "/{paymentId}/state": _LINK_REFUSALS,
    "/{paymentId}/events": _LINK_REFUSALS,
    "/spec/{version}/openapi.json": {
        400: (
            ErrorCode.INVALID_PARAMS,
            ErrorCode.INVALID_API_VERSION,
            ErrorCode.UNKNOWN_API_VERSION,
        )
    },
}
_PATHS: JsonObject = {
    "/{paymentId}/state": _describe_operation(
        "getPaymentState",
        "Returns the status of a payment to the buyer's page",
        {
            "200": _describe_response(
                "Current status.",
                _STATE,
                {
                    "status": PaymentStatus.REQUIRES_ACTION,
                    "isFinal": False,
                    "pollInMs": 1000,
                    "expiresAt": 1800000900,
                },
            ),
        },
        parameters=[_PAYMENT_IN_PATH],
    ),
    "/{paymentId}/events": _describe_operation(
        "watchPaymentState",
        "Streams the status of a payment to the buyer's page, now and after each change",
        {
            status: {**response, "headers": describe_plain_headers(stream=status == "200")}
            for status, response in _STREAM_RESPONSES.items()
        },
        parameters=[_PAYMENT_IN_PATH, {"$ref": "#/components/parameters/LastEventId"}],
    ),
    "/versions": _describe_operation(
        "listVersions",
        "Lists the published versions",
        {
            "200": _describe_response(
                "The published versions, oldest first.",
                _make_object_schema(stable=_VERSIONS, preview=_VERSIONS),
                {"stable": list(STABLE_VERSIONS), "preview": list(PREVIEW_VERSIONS)},
            )
        },
    ),
    "/spec/{version}/openapi.json": _describe_operation(
        "getOpenApiDocument",
        "Returns this document for a version",
        {
            "200": _describe_response("An OpenAPI 3.1 document.", {"type": "object"}),
        },
        parameters=[_VERSION_IN_PATH],
    ),
    "/healthz": _describe_operation(
        "getHealth",
        "Answers while the process runs",
        {"200": _describe_response("It runs.", _make_object_schema(status={"const": "ok"}))},
    ),
    "/readyz": _describe_operation(
        "getReadiness",
        "Returns whether all dependencies are up",
        {
            "200": _describe_response(
                "All dependencies are up.", _make_object_schema(status={"const": "ready"})
            ),
            "503": _describe_response(
                "Not ready.", _make_object_schema(status={"const": "unready"}, checks=_TEXTS)
            ),
        },
    ),
}


def describe_paths(shared_responses: SharedResponses) -> JsonObject:
    """Return the operation of each path; all of them are GET."""
    described: JsonObject = {}
    for path, operation in _PATHS.items():
        refusals = {**_REFUSALS, **_OWN_REFUSALS.get(path, {})}
        answers = {
            str(status): shared_responses.add(
                status, codes, describe_plain_headers(), prefix="Service"
            )
            for status, codes in refusals.items()
        }
        described[path] = {**operation, "responses": {**answers, **operation["responses"]}}
    return described
