"""The operations that are no RPCs: published versions, documents, health."""

from __future__ import annotations

from typing import Any

from florin_server.boot.openapi.headers import plain
from florin_server.domain.errors import Code
from florin_server.domain.versions import PREVIEW, PUBLISHED, STABLE

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
PATHS: Json = {
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
