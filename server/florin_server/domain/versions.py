"""Versions of the API, and which one a call uses."""

from __future__ import annotations

import re
from datetime import date

from florin_server.domain.errors import ApiError, ErrorCode

STABLE_VERSIONS = ("2026-02-18",)
PREVIEW_VERSIONS = ("2026-02-19.preview",)
PUBLISHED_VERSIONS = STABLE_VERSIONS + PREVIEW_VERSIONS
# the pin of new accounts
NEWEST_STABLE_VERSION = max(STABLE_VERSIONS)
# the SDK, in lower case, whose releases without a version header read the deployed wire profile
DEPLOYED_SDK = "js-walletconnect-pay"

_FORM = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(\.preview)?")


def resolve_version(header: str | None, pin: str) -> str:
    """Return the version of a call: its header's, else the account's pin.

    `header` is the value of the version header, None if it was not sent; `pin` is a published
    version. ApiError invalid_api_version if the header is not a version, unknown_api_version if
    it was never published, api_version_downgrade if it is older than the pin.
    """
    if header is not None and _get_published_age(header) < _parse_age(pin):
        raise downgrade_error(pin)
    return pin if header is None else header


def list_versions_up_to(version: str) -> list[str]:
    """Return the published versions up to this one, which are the pins that can move to it.

    ApiError invalid_api_version if it is not a version, unknown_api_version if it was never
    published.
    """
    age = _get_published_age(version)
    return [
        published_version
        for published_version in PUBLISHED_VERSIONS
        if _parse_age(published_version) <= age
    ]


def downgrade_error(pin: str) -> ApiError:
    """Return the error for a version that is older than the pin of an account."""
    return ApiError(ErrorCode.API_VERSION_DOWNGRADE, details={"pinned": pin})


def check_published(version: str) -> None:
    """Raise ApiError as `list_versions_up_to` does, unless the version is published."""
    _get_published_age(version)


def _get_published_age(version: str) -> tuple[date, bool]:
    age = _parse_age(version)
    if version not in PUBLISHED_VERSIONS:
        raise ApiError(
            ErrorCode.UNKNOWN_API_VERSION, details={"supported": ", ".join(PUBLISHED_VERSIONS)}
        )
    return age


def _parse_age(version: str) -> tuple[date, bool]:
    """Return the sort key of a version: its date, and on one date the preview before the stable."""
    match = _FORM.fullmatch(version)
    if match is None:
        raise ApiError(ErrorCode.INVALID_API_VERSION)
    try:
        return date.fromisoformat(match[1]), match[2] is None
    except ValueError as error:
        raise ApiError(ErrorCode.INVALID_API_VERSION) from error
