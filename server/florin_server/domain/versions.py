"""Which version of the API a call speaks."""

from __future__ import annotations

import re
from datetime import date

from florin_server.domain.errors import Code, FlorinError

STABLE = ("2026-02-18",)
PREVIEW = ("2026-02-19.preview",)
PUBLISHED = STABLE + PREVIEW
# what new accounts are pinned to
NEWEST_STABLE = max(STABLE)
# the SDK, in lower case, whose releases without a version header read the deployed wire profile
DEPLOYED_SDK = "js-walletconnect-pay"

_FORM = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(\.preview)?")


def resolve(header: str | None, pin: str) -> str:
    """Gives the version of a call: the one its header asks for, else the account's pin.

    `header` is the one version header that counts, None if it was not sent; `pin` is a published
    version. FlorinError invalid_api_version if the header is no version, unknown_api_version if
    it was never published, api_version_downgrade if it is older than the pin.
    """
    if header is not None and _published_age(header) < _age(pin):
        raise downgrade(pin)
    return pin if header is None else header


def up_to(version: str) -> list[str]:
    """The published versions that are no newer than this one: the pins that may move to it.

    FlorinError invalid_api_version if it is no version, unknown_api_version if it was never
    published.
    """
    age = _published_age(version)
    return [one for one in PUBLISHED if _age(one) <= age]


def downgrade(pin: str) -> FlorinError:
    """The refusal of a version that is older than the pin of an account."""
    return FlorinError(Code.API_VERSION_DOWNGRADE, details={"pinned": pin})


def check_published(version: str) -> None:
    """FlorinError as from `up_to`, unless it is published."""
    _published_age(version)


def _published_age(version: str) -> tuple[date, bool]:
    age = _age(version)
    if version not in PUBLISHED:
        raise FlorinError(Code.UNKNOWN_API_VERSION, details={"supported": ", ".join(PUBLISHED)})
    return age


def _age(version: str) -> tuple[date, bool]:
    """What versions are ordered by: their date, and on one date the preview before the stable."""
    found = _FORM.fullmatch(version)
    if found is None:
        raise FlorinError(Code.INVALID_API_VERSION)
    try:
        return date.fromisoformat(found[1]), found[2] is None
    except ValueError as error:
        raise FlorinError(Code.INVALID_API_VERSION) from error
