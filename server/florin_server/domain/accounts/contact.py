"""How a merchant presents itself and where it is reached: name, e-mail address, logo."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from florin_server.domain.errors import Issue
from florin_server.domain.urls import is_https_url

# letters and symbols by their category that show nothing: fillers of Hangul, an empty Braille cell
_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")
# letters, numbers, punctuation and symbols; not marks, blanks and what only steers the others
_VISIBLE = frozenset("LNPS")
# what mail headers give a meaning of their own, and quoting, which nobody's address needs
_LOCAL = re.compile(r'[^@"(),:;<>\[\]\\]{1,64}')
_LABEL = re.compile(r"(?!-)(?:[A-Za-z0-9-]|[^\x00-\x7f]){1,63}(?<!-)")
_EMAIL_CHARS_MAX = 254


def faults(name: str | None, email: str | None, icon_url: str | None) -> Iterator[Issue]:
    """What is wrong with each of them; None is not looked at."""
    if name is not None and not is_name(name):
        yield Issue("merchantName", "must have a visible character")
    if email is not None and not is_email(email):
        yield Issue("merchantEmail", "must be an e-mail address")
    if icon_url is not None and not is_https_url(icon_url):
        yield Issue("iconUrl", "must be an absolute https URL")


def is_name(text: str) -> bool:
    """Tells whether a reader sees anything of a name."""
    return any(unicodedata.category(ch)[0] in _VISIBLE and ch not in _BLANK for ch in text)


def is_email(text: str) -> bool:
    """Tells whether a text has the form of an e-mail address, in any script.

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
