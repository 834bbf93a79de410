"""URLs that merchants give, checked and converted by their form; nothing is fetched."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

import idna

# a length that browsers and proxies accept for certain
URL_CHARS_MAX = 2048


def is_loopback(host: str) -> bool:
    """Return whether a host, without brackets, is `localhost` or an address of this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def is_https_url(text: str) -> bool:
    """Return whether a text is an absolute https URL that every parser reads in the same way.

    It has no user name, spaces, control characters or backslashes, and is ASCII.
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


def add_query_parameter(url: str, name: str, value: str) -> str:
    """Return a URL with one more query parameter; query and fragment are unchanged."""
    before, mark, fragment = url.partition("#")
    joint = "" if before[-1] in "?&" else "&" if "?" in before else "?"
    return f"{before}{joint}{name}={value}{mark}{fragment}"


class UrlError(ValueError):
    """A URL that cannot be used; the text says what it must be."""


_DEFAULT_PORTS: Final = {"https": 443, "http": 80}
# labels can have an underscore, as names of hosts outside of DNS do
_HOST: Final = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
_HOST_CHARS_MAX: Final = 253
_UNRESERVED: Final = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
)
_PATH: Final = _UNRESERVED | frozenset(b"!$&'()*+,;=:@/")
_QUERY: Final = _PATH | frozenset(b"?")
_ENCODED: Final = re.compile(rb"%([0-9A-Fa-f]{2})")


def to_ascii_url(text: str) -> str:
    """Return an https URL in ASCII; UrlError, with the reason, for what is none.

    The host is converted by IDNA (UTS #46), other characters beyond ASCII are percent-encoded as
    UTF-8. A URL in ASCII stays as it is.
    """
    if not text.isascii():
        parts = _split(text)
        host = _parse_host(parts)
        port = "" if parts.port is None else f":{parts.port}"
        rest = text.split("://", 1)[1]
        rest = rest[min([at for mark in "/?#" if (at := rest.find(mark)) >= 0] or [len(rest)]) :]
        text = f"{parts.scheme}://{host}{port}{_encode_beyond_ascii(rest)}"
    if len(text) > URL_CHARS_MAX:
        raise UrlError(f"must be at most {URL_CHARS_MAX} characters")
    if not is_https_url(text):
        raise UrlError("must be an absolute https URL without a user name")
    return text


def parse_redirect_urls(
    success_url: str, error_url: str
) -> tuple[tuple[str, str] | None, str | None]:
    """Return both URLs of a redirect, or None and the reason.

    Half a redirect would strand a buyer, so one missing or unusable URL turns both off. If neither
    was given, the reason is None.
    """
    if not success_url and not error_url:
        return None, None
    urls = []
    for name, url in (("successUrl", success_url), ("errorUrl", error_url)):
        try:
            urls.append(to_ascii_url(url))
        except UrlError as error:
            return None, f"the redirect is off: {name} {error}"
    return (urls[0], urls[1]), None


def canonicalize_url(text: str, *, allow_http: bool = False) -> str:
    """Return the canonical URL for requests; UrlError with the reason.

    Scheme and host are in lower case, the host in Punycode without a final dot. The default port
    and the fragment are left out. Percent-encodings are those of RFC 3986, and dot segments of the
    path are removed. `allow_http` allows http too.
    """
    if len(text) > URL_CHARS_MAX:
        raise UrlError(f"must be at most {URL_CHARS_MAX} characters")
    parts = _split(text)
    if parts.scheme != "https" and not (allow_http and parts.scheme == "http"):
        raise UrlError("must be an absolute https URL without a user name")
    host, port = _parse_host(parts), parts.port
    if port == 0:
        raise UrlError("must have a port above 0")
    place = host if port in {None, _DEFAULT_PORTS[parts.scheme]} else f"{host}:{port}"
    path = _remove_dot_segments(_encode(parts.path, _PATH)) or "/"
    query = f"?{_encode(parts.query, _QUERY)}" if parts.query else ""
    url = f"{parts.scheme}://{place}{path}{query}"
    if len(url) > URL_CHARS_MAX:
        raise UrlError(f"must be at most {URL_CHARS_MAX} characters once it is percent-encoded")
    return url


def _split(text: str) -> SplitResult:
    if "\\" in text or any(ch <= " " or ch == "\x7f" for ch in text):
        raise UrlError("must not contain spaces, control characters or backslashes")
    try:
        text.encode()
        parts = urlsplit(text)
        parts.port  # noqa: B018  (raises for one that is no number)
    except UnicodeEncodeError:
        raise UrlError("must be valid Unicode") from None
    except ValueError:
        raise UrlError("must be an absolute https URL without a user name") from None
    if not parts.scheme or not parts.netloc or not parts.hostname:
        raise UrlError("must be an absolute https URL without a user name")
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise UrlError("must be an absolute https URL without a user name")
    return parts


def _parse_host(parts: SplitResult) -> str:
    """Return the host in Punycode, or the address in its shortest form."""
    host = parts.hostname or ""
    if parts.netloc.startswith("["):
        try:
            return f"[{IPv6Address(host)}]"
        except ValueError:
            raise UrlError("has a host that is not a valid IPv6 address") from None
    try:
        host = idna.encode(host, uts46=True).decode() if not host.isascii() else host.lower()
        # the decoded form of an existing Punycode label must be valid too
        if "xn--" in host:
            host = idna.encode(idna.decode(host), uts46=True).decode()
    except (idna.IDNAError, UnicodeError):
        raise UrlError(
            "has a host that is not a valid internationalized domain name (UTS #46)"
        ) from None
    host = host.removesuffix(".")
    if not _HOST.fullmatch(host) or len(host) > _HOST_CHARS_MAX:
        raise UrlError("has a host with invalid characters")
    last = host.rpartition(".")[2]
    if last.isdecimal() or last.startswith("0x"):
        # other programs read 1.2.3, 0x7f.1 or 017.0.0.1 as addresses, each in its own way
        try:
            return str(IPv4Address(host))
        except ValueError:
            raise UrlError("has a host that is not a valid IPv4 address") from None
    return host


def _encode_beyond_ascii(text: str) -> str:
    return "".join(
        ch if ch.isascii() else "".join(f"%{byte:02X}" for byte in ch.encode()) for ch in text
    )


def _encode(text: str, allowed: frozenset[int]) -> str:
    """Return a part of a URL with exactly the required bytes encoded."""
    raw, chunks, at = text.encode(), [], 0
    while at < len(raw):
        if (match := _ENCODED.match(raw, at)) is not None:
            byte = int(match[1], 16)
            chunks.append(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}")
            at += 3
        else:
            chunks.append(chr(raw[at]) if raw[at] in allowed else f"%{raw[at]:02X}")
            at += 1
    return "".join(chunks)


def _remove_dot_segments(path: str) -> str:
    """Return a path without the segments `.` and `..` (RFC 3986, 5.2.4)."""
    normalized: list[str] = []
    segments = path.split("/")
    for segment in segments:
        if segment == "..":
            # the first segment is the one before the leading slash
            del normalized[max(1, len(normalized) - 1) :]
        elif segment != ".":
            normalized.append(segment)
    if segments[-1] in {".", ".."}:
        normalized.append("")
    return "/".join(normalized)
