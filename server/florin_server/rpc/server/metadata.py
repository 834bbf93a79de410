"""The metadata of a call: what of it is read, and in what form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.versions import DEPLOYED_SDK

# everything else is ignored
KNOWN = frozenset(
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
# nothing about the caller's rights follows from these, and callers may choose them freely
PROVE_NOTHING = frozenset(
    ("sdk-name", "sdk-version", "sdk-platform", "idempotency-key", "request-id")
)
# versions keep their empty value: an empty selector is malformed, not absent
_KEPT_EMPTY = frozenset({"pay-version", "wcp-version"})
_PRINTABLE = re.compile(r"[\x20-\x7e]*")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


def read(entries: Any) -> Mapping[str, str]:
    """The known metadata; refuses what could be read in two ways. Empty values count as absent."""
    sent: dict[str, str] = {}
    seen: list[str] = []
    for key, value in entries:
        if key not in KNOWN:
            continue
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        if not _PRINTABLE.fullmatch(text):
            # an id of the caller's own that we cannot repeat is replaced, and no fault
            if key == "request-id":
                continue
            raise FlorinError(Code.HEADER_NOT_ASCII)
        if key in seen:
            raise FlorinError(Code.INVALID_PARAMS, f"{key} was sent twice")
        seen.append(key)
        if text or key in _KEPT_EMPTY:
            sent[key] = text
    return sent


def request_id(entries: Any) -> str | None:
    """The caller's own id of the request, if it is one that can be repeated."""
    for key, value in entries:
        if key == "request-id" and isinstance(value, str) and _REQUEST_ID.fullmatch(value):
            return value
    return None


def wcp_profile(sent: Mapping[str, str]) -> bool:
    """Return whether the caller speaks the deployed wire profile.

    Names of version headers decide; without any, the name of an SDK that sends none.
    """
    if "pay-version" in sent or "wcp-version" in sent:
        return "pay-version" not in sent
    return sent.get("sdk-name", "").lower() == DEPLOYED_SDK
