"""The operations that are no RPCs: published versions, documents, health."""

from __future__ import annotations

from typing import Any

from florin_gateway.openapi import streamed

from florin_server.domain.errors import Code
from florin_server.domain.payments.payment import Status
from florin_server.domain.versions import PREVIEW, PUBLISHED, STABLE
from florin_server.web.openapi.headers import plain

Json = dict[str, Any]


def _answer(description: str, schema: Json, example: Any = None) -> Json:
    content: Json = {"schema": schema}
    if example is not None:
        content["example"] = example
    return {
        "description": description,
        "headers": plain(),
        "content": {"application/json": content},
    }


def _refused(*codes: Code) -> Json:
    told = [str(code) for code in codes]
    return _answer(
        "Refused:\n" + "\n".join(f"- `{code}`" for code in told),
        {
            "allOf": [
                {"$ref": "#/components/schemas/Error"},
                {"properties": {"code": {"enum": told}}},
            ]
        },
    )


def _object(**properties: Json) -> Json:
    return {"type": "object", "required": list(properties), "properties": properties}


def _operation(name: str, summary: str, responses: Json, **more: Any) -> Json:
    transport = {str(s): _refused(Code.INVALID_PARAMS) for s in (400, 408, 413, 415, 431)}
    return {
        "operationId": f"Service_{name}",
        "summary": summary,
        "tags": ["Service"],
        "security": [],
        **more,
        "responses": transport | responses,
    }


_VERSIONS = {"type": "array", "items": {"type": "string"}}
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_VERSION_IN_PATH = {
    "name": "version",
    "in": "path",
    "required": True,
    "description": "A published version.",
    "schema": {"type": "string", "enum": list(PUBLISHED)},
}
_PAYMENT_IN_PATH = {
    "name": "paymentId",
    "in": "path",
    "required": True,
    "description": "Payment id, or a link that holds one.",
    "schema": {"type": "string"},
}
_STATE: Json = {
    "type": "object",
    "required": ["status", "isFinal", "expiresAt"],
    "properties": {
        "status": {"type": "string", "enum": [str(status) for status in Status]},
        "isFinal": {"type": "boolean", "description": "The status will never change again."},
        "pollInMs": {
            "type": "integer",
            "description": "Milliseconds until it is worth asking again; left out when final.",
        },
        "expiresAt": {
            "type": "integer",
            "description": "Unix seconds from which on it can no longer be confirmed.",
        },
    },
}
_STREAMED = streamed(
    {
        **_STATE,
        "required": [*_STATE["required"], "version"],
        "properties": {
            **_STATE["properties"],
            "version": {"type": "integer", "description": "Rises by one with every change."},
        },
    }
)
_OF_A_LINK = {
    "404": _refused(Code.INVALID_PARAMS, Code.PAYMENT_NOT_FOUND),
    "429": _refused(Code.RATE_LIMITED),
}
PATHS: Json = {
    "/{paymentId}/state": _operation(
        "GetState",
        "Tells a buyer's page where its payment stands",
        {
            "200": _answer(
                "Where it stands.",
                _STATE,
                {
                    "status": Status.REQUIRES_ACTION,
                    "isFinal": False,
                    "pollInMs": 1000,
                    "expiresAt": 1800000900,
                },
            ),
            **_OF_A_LINK,
        },
        parameters=[_PAYMENT_IN_PATH],
    ),
    "/{paymentId}/events": _operation(
        "WatchState",
        "Tells a buyer's page where its payment stands, and again whenever that has changed",
        {
            **{
                status: {**told, "headers": plain(stream=status == "200")}
                for status, told in _STREAMED.items()
            },
            **_OF_A_LINK,
        },
        parameters=[_PAYMENT_IN_PATH, {"$ref": "#/components/parameters/LastEventId"}],
    ),
    "/versions": _operation(
        "ListVersions",
        "Tells the published versions",
        {
            "200": _answer(
                "The published versions, oldest first.",
                _object(stable=_VERSIONS, preview=_VERSIONS),
                {"stable": list(STABLE), "preview": list(PREVIEW)},
            )
        },
    ),
    "/spec/{version}/openapi.json": _operation(
        "GetDocument",
        "Tells this document for a version",
        {
            "200": _answer("An OpenAPI 3.1 document.", {"type": "object"}),
            "400": _refused(
                Code.INVALID_PARAMS, Code.INVALID_API_VERSION, Code.UNKNOWN_API_VERSION
            ),
        },
        parameters=[_VERSION_IN_PATH],
    ),
    "/healthz": _operation(
        "GetHealth",
        "Answers while the process lives",
        {"200": _answer("It lives.", _object(status={"const": "ok"}))},
    ),
    "/readyz": _operation(
        "GetReadiness",
        "Tells whether everything that is needed is up",
        {
            "200": _answer("Everything is up.", _object(status={"const": "ready"})),
            "503": _answer(
                "Something is not.", _object(status={"const": "unready"}, checks=_TEXTS)
            ),
        },
    ),
}
