"""A merchant's name, e-mail address, logo and color, and its contact for buyers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from florin_server.domain.errors import FieldIssue
from florin_server.domain.urls import is_https_url

# letters and symbols by their category that are invisible: Hangul fillers, an empty Braille cell
_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")
# letters, numbers, punctuation and symbols; not marks, spaces and control characters
_VISIBLE = frozenset("LNPS")
# characters with a meaning of their own in mail headers, and quoting: no real address needs them
_LOCAL = re.compile(r'[^@"(),:;<>\[\]\\]{1,64}')
_LABEL = re.compile(r"(?!-)(?:[A-Za-z0-9-]|[^\x00-\x7f]){1,63}(?<!-)")
_COLOR = re.compile(r"#[0-9a-fA-F]{6}")
_EMAIL_CHARS_MAX = 254
# pages link the address of buyers' questions, and these have a meaning in such a link
_LINK_CHARS = frozenset("?&%#/")


@dataclass(frozen=True, slots=True)
class SupportContact:
    """A contact for buyers' questions in a request: None keeps a value, empty text removes it."""

    email: str | None = None
    url: str | None = None

    def list_issues(self) -> Iterator[FieldIssue]:
        """Yield the faults of both values."""
        if self.email and (not is_valid_email(self.email) or _LINK_CHARS & set(self.email)):
            yield FieldIssue("supportEmail", "must be an e-mail address")
        if self.url and not is_https_url(self.url):
            yield FieldIssue("supportUrl", "must be an absolute https URL")


def list_issues(name: str | None, email: str | None, icon_url: str | None) -> Iterator[FieldIssue]:
    """Yield the faults of the three values; None is not checked."""
    if name is not None and not is_valid_name(name):
        yield FieldIssue("merchantName", "must contain a visible character")
    if email is not None and not is_valid_email(email):
        yield FieldIssue("merchantEmail", "must be an e-mail address")
    if icon_url is not None and not is_https_url(icon_url):
        yield FieldIssue("iconUrl", "must be an absolute https URL")


def list_accent_issues(accent: str | None) -> Iterator[FieldIssue]:
    """Yield the fault of a color; None and empty text are not checked."""
    if accent and not _COLOR.fullmatch(accent):
        yield FieldIssue("accent", "must be a color such as #3c4bd3")


def is_valid_name(text: str) -> bool:
    """Return whether a reader sees anything of a name."""
    return any(unicodedata.category(ch)[0] in _VISIBLE and ch not in _BLANK for ch in text)


def is_valid_email(text: str) -> bool:
    """Return whether a text has the form of an e-mail address, in any script.

    Whether mail arrives there is another question: the form only keeps out what cannot be one.
    """
    if len(text) > _EMAIL_CHARS_MAX or any(unicodedata.category(ch)[0] in "CZ" for ch in text):
        return False
    local, at, domain = text.rpartition("@")
    labels = domain.split(".")
    dots_ok = not (local.startswith(".") or local.endswith(".") or ".." in local)
    return (
        bool(at)
        and dots_ok
        and _LOCAL.fullmatch(local) is not None
        and len(labels) > 1
        and all(_LABEL.fullmatch(label) for label in labels)
    )
