"""Read the known metadata of a call and check its form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.versions import DEPLOYED_SDK

# all other keys are ignored
KNOWN_KEYS = frozenset(
    (
        "api-key",
        "merchant-id",
        "app-id",
        "client-id",
        "pay-version",
        "wcp-version",
        "sdk-name",
        "sdk-version",
        "sdk-platform",
        "idempotency-key",
        "request-id",
        "authorization",
    )
)
# no rights of the caller depend on these, and callers choose them freely
NON_CREDENTIAL_KEYS = frozenset(
    ("sdk-name", "sdk-version", "sdk-platform", "idempotency-key", "request-id")
)
# versions keep their empty value: an empty selector is malformed, not absent
_EMPTY_VALUE_KEYS = frozenset({"pay-version", "wcp-version"})
_PRINTABLE = re.compile(r"[\x20-\x7e]*")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


def parse_metadata(entries: Any) -> Mapping[str, str]:
    """Return the known metadata; refuse ambiguous values. Empty values count as absent."""
    sent: dict[str, str] = {}
    seen: list[str] = []
    for key, value in entries:
        if key not in KNOWN_KEYS:
            continue
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        if not _PRINTABLE.fullmatch(text):
            # an id of the caller that cannot be returned is replaced, without an error
            if key == "request-id":
                continue
            raise ApiError(ErrorCode.HEADER_NOT_ASCII)
        if key in seen:
            raise ApiError(ErrorCode.INVALID_PARAMS, f"{key} was sent twice")
        seen.append(key)
        if text or key in _EMPTY_VALUE_KEYS:
            sent[key] = text
    return sent


def find_request_id(entries: Any) -> str | None:
    """Return the caller's own id of the request, if it can be returned."""
    for key, value in entries:
        if key == "request-id" and isinstance(value, str) and _REQUEST_ID.fullmatch(value):
            return value
    return None


def is_wcp_profile(headers: Mapping[str, str]) -> bool:
    """Return whether the caller uses the deployed wire profile.

    The names of version headers decide; without any, the name of an SDK that sends none.
    """
    if "pay-version" in headers or "wcp-version" in headers:
        return "pay-version" not in headers
    return headers.get("sdk-name", "").lower() == DEPLOYED_SDK
