"""Error responses, each described once and referenced by every operation that returns it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from florin_server.domain.errors import ERROR_SPECS, ErrorCode
from florin_server.web.openapi.refusals import DEPLOYED_ONLY

JsonObject = dict[str, Any]

ERROR_REF = "#/components/schemas/Error"
_RESPONSE_REF = "#/components/responses/"
_SCHEMA_REF = "#/components/schemas/"
# start of the name of a response, by status
_STATUS_NAMES = {
    **{status: status.phrase.title().replace(" ", "").replace("-", "") for status in HTTPStatus},
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "HeadersTooLarge",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "BodyTooLarge",
}
# codes that say no more than the status; other codes are part of a response's name
_USUAL_CODES: Mapping[int, frozenset[ErrorCode]] = {
    400: frozenset(
        (
            ErrorCode.INVALID_PARAMS,
            ErrorCode.HEADER_NOT_ASCII,
            ErrorCode.CONFLICTING_AUTH_HEADERS,
            ErrorCode.INVALID_API_VERSION,
            ErrorCode.UNKNOWN_API_VERSION,
            ErrorCode.API_VERSION_DOWNGRADE,
        )
    ),
    401: frozenset(
        (
            ErrorCode.INVALID_API_KEY,
            ErrorCode.MISSING_AUTH_HEADERS,
            ErrorCode.MISSING_API_KEY,
            ErrorCode.MISSING_MERCHANT_API_KEY,
        )
    ),
    403: frozenset((ErrorCode.FORBIDDEN,)),
    **dict.fromkeys((408, 413, 415, 431), frozenset((ErrorCode.INVALID_PARAMS,))),
    429: frozenset((ErrorCode.RATE_LIMITED,)),
    500: frozenset((ErrorCode.INTERNAL_ERROR,)),
    502: frozenset((ErrorCode.BAD_GATEWAY,)),
    503: frozenset((ErrorCode.INTERNAL_ERROR,)),
}


class SharedResponses:
    """The error responses of the document and the schemas of their bodies, by name."""

    def __init__(self) -> None:
        self.responses: JsonObject = {}
        self.schemas: JsonObject = {}

    def add(
        self, status: int, codes: Iterable[ErrorCode], headers: JsonObject, *, prefix: str = ""
    ) -> JsonObject:
        """Return a reference to the response with these codes and headers.

        `prefix` distinguishes responses with the same codes and other headers. Raises ValueError if
        a response has the name already and differs.
        """
        sorted_codes = [code for code in ERROR_SPECS if code in set(codes)]
        name = prefix + _name_response(status, sorted_codes)
        schema_name = f"{name}Error"
        response = {
            "description": _list_codes(sorted_codes),
            "headers": headers,
            "content": {"application/json": {"schema": {"$ref": _SCHEMA_REF + schema_name}}},
        }
        self.schemas[schema_name] = _describe_body(sorted_codes)
        existing = self.responses.setdefault(name, response)
        if {**existing, "content": None} != {**response, "content": None}:
            raise ValueError(f"two error responses have the name {name}")
        return {"$ref": _RESPONSE_REF + name}

    def add_examples(self, reference: JsonObject, bodies: Iterable[JsonObject]) -> None:
        """Add one example per error code to a referenced response."""
        response = self.responses[reference["$ref"].removeprefix(_RESPONSE_REF)]
        content = response["content"]["application/json"]
        for body in bodies:
            content.setdefault("examples", {}).setdefault(body["code"], {"value": body})


def _name_response(status: int, codes: list[ErrorCode]) -> str:
    name = _STATUS_NAMES[HTTPStatus(status)]
    usual = _USUAL_CODES.get(status, frozenset())
    telling = [code for code in codes if code not in usual]
    if not telling and len(codes) < len(usual):
        telling = codes[1:]
    words = [code.title().replace("_", "") for code in telling]
    # NotFoundPayment, not NotFoundPaymentNotFound
    return name + "Or".join(word.removesuffix(name) or word for word in words)


def _list_codes(codes: list[ErrorCode]) -> str:
    # one line: generators repeat it at every operation
    return "Errors: " + ", ".join(f"`{code}`{_format_profile_note(code)}" for code in codes) + "."


def _describe_body(codes: list[ErrorCode]) -> JsonObject:
    """Return a schema with a name of its own: one type in a generated client, not many."""
    code_schema = {"properties": {"code": {"enum": [str(code) for code in codes]}}}
    return {
        "description": "Body of an error response.",
        "allOf": [{"$ref": ERROR_REF}, code_schema],
    }


def _format_profile_note(code: ErrorCode) -> str:
    return " (deployed profile only)" if code in DEPLOYED_ONLY else ""
