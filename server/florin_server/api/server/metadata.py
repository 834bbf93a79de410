"""Read the known metadata of a call and check its form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from grpc_rest_gateway.jsonignored import IGNORED_KEY

from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.versions import DEPLOYED_SDK

VERSION_KEYS = ("pay-version", "wcp-version")
SDK_KEYS = ("sdk-name", "sdk-version", "sdk-platform")
# what callers send, over REST as headers of the same names
CALLER_KEYS = (
    "api-key",
    "merchant-id",
    "app-id",
    "client-id",
    *VERSION_KEYS,
    *SDK_KEYS,
    "idempotency-key",
    # outside of the operator's API it is no credential: the error then names the right one
    "authorization",
)
# the operator's programs name themselves, for the audit log
CHANNEL_KEY = "florin-channel"
# all other keys are ignored
KNOWN_KEYS = frozenset((*CALLER_KEYS, "request-id", IGNORED_KEY, CHANNEL_KEY))
# no rights of the caller depend on these, and callers choose them freely
NON_CREDENTIAL_KEYS = frozenset(
    (*SDK_KEYS, "idempotency-key", "request-id", IGNORED_KEY, CHANNEL_KEY)
)
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
        # an empty version is malformed, not absent
        if text or key in VERSION_KEYS:
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
