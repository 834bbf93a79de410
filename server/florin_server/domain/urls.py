"""URLs that merchants give, checked by their form; nothing is fetched."""

from __future__ import annotations

from urllib.parse import urlsplit

# what browsers and proxies are sure to take
URL_CHARS_MAX = 2048


def is_https_url(text: str) -> bool:
    """Tells whether a text is an absolute https URL that every parser reads in the same way.

    It names no user, and holds neither blanks, control characters, backslashes nor anything that
    is not ASCII.
    """
    if not 0 < len(text) <= URL_CHARS_MAX or "\\" in text:
        return False
    if not text.isascii() or any(ch <= " " or ch == "\x7f" for ch in text):
        return False
    try:
        parts = urlsplit(text)
        port_ok = parts.port is None or parts.port > 0
    except ValueError:
        return False
    return (
        parts.scheme == "https"
        and bool(parts.hostname)
        and port_ok
        and parts.username is None
        and parts.password is None
    )


def with_parameter(url: str, name: str, value: str) -> str:
    """A URL with one more query parameter; query and fragment stay as they are."""
    before, mark, fragment = url.partition("#")
    joint = "" if before[-1] in "?&" else "&" if "?" in before else "?"
    return f"{before}{joint}{name}={value}{mark}{fragment}"
