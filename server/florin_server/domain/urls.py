"""URLs that merchants give, checked and converted by their form; nothing is fetched."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

import idna

# what browsers and proxies are sure to take
URL_CHARS_MAX = 2048


def is_loopback(host: str) -> bool:
    """Return whether a host, without brackets, is `localhost` or an address of this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


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


class UrlError(ValueError):
    """A URL that cannot be used; the text says what it must be."""


_DEFAULT_PORTS: Final = {"https": 443, "http": 80}
# a label may have an underscore, which names of hosts outside of DNS have too
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
        host = _host_of(parts)
        port = "" if parts.port is None else f":{parts.port}"
        rest = text.split("://", 1)[1]
        rest = rest[min([at for mark in "/?#" if (at := rest.find(mark)) >= 0] or [len(rest)]) :]
        text = f"{parts.scheme}://{host}{port}{_encode_beyond_ascii(rest)}"
    if len(text) > URL_CHARS_MAX:
        raise UrlError(f"must be at most {URL_CHARS_MAX} characters")
    if not is_https_url(text):
        raise UrlError("must be an absolute https URL without a user")
    return text


def checkout_urls(success_url: str, error_url: str) -> tuple[tuple[str, str] | None, str | None]:
    """Return both URLs that a buyer may be sent to, or None and the reason.

    Half a redirect would strand a buyer, so one that is missing or unusable turns both off. There
    is no reason if neither was given.
    """
    if not success_url and not error_url:
        return None, None
    made = []
    for name, url in (("successUrl", success_url), ("errorUrl", error_url)):
        try:
            made.append(to_ascii_url(url))
        except UrlError as error:
            return None, f"the redirect is off: {name} {error}"
    return (made[0], made[1]), None


def canonical_url(text: str, *, with_http: bool = False) -> str:
    """Return the one spelling of a URL that requests are sent to; UrlError with the reason.

    Scheme and host are in lower case, the host in Punycode without a final dot, the default port
    and the fragment are left out, percent-encodings are those of RFC 3986, and dot segments of the
    path are removed. `with_http` allows http too.
    """
    if len(text) > URL_CHARS_MAX:
        raise UrlError(f"must be at most {URL_CHARS_MAX} characters")
    parts = _split(text)
    if parts.scheme != "https" and not (with_http and parts.scheme == "http"):
        raise UrlError("must be an absolute https URL without a user")
    host, port = _host_of(parts), parts.port
    if port == 0:
        raise UrlError("must have a port above 0")
    place = host if port in {None, _DEFAULT_PORTS[parts.scheme]} else f"{host}:{port}"
    path = _without_dots(_encode(parts.path, _PATH)) or "/"
    query = f"?{_encode(parts.query, _QUERY)}" if parts.query else ""
    url = f"{parts.scheme}://{place}{path}{query}"
    if len(url) > URL_CHARS_MAX:
        raise UrlError(f"must be at most {URL_CHARS_MAX} characters once it is percent-encoded")
    return url


def _split(text: str) -> SplitResult:
    if "\\" in text or any(ch <= " " or ch == "\x7f" for ch in text):
        raise UrlError("must have no blanks, control characters or backslashes")
    try:
        text.encode()
        parts = urlsplit(text)
        parts.port  # noqa: B018  (raises for one that is no number)
    except UnicodeEncodeError:
        raise UrlError("must be valid Unicode") from None
    except ValueError:
        raise UrlError("must be an absolute https URL without a user") from None
    if not parts.scheme or not parts.netloc or not parts.hostname:
        raise UrlError("must be an absolute https URL without a user")
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise UrlError("must be an absolute https URL without a user")
    return parts


def _host_of(parts: SplitResult) -> str:
    """Return the host in Punycode, or the address in its shortest form."""
    host = parts.hostname or ""
    if parts.netloc.startswith("["):
        try:
            return f"[{IPv6Address(host)}]"
        except ValueError:
            raise UrlError("has a host that is no IPv6 address") from None
    try:
        host = idna.encode(host, uts46=True).decode() if not host.isascii() else host.lower()
        # what an existing Punycode label stands for has to be valid too
        if "xn--" in host:
            host = idna.encode(idna.decode(host), uts46=True).decode()
    except (idna.IDNAError, UnicodeError):
        raise UrlError("has a host that is no internationalized domain name (UTS #46)") from None
    host = host.removesuffix(".")
    if not _HOST.fullmatch(host) or len(host) > _HOST_CHARS_MAX:
        raise UrlError("has a host with characters that no host name has")
    last = host.rpartition(".")[2]
    if last.isdecimal() or last.startswith("0x"):
        # other programs read 1.2.3, 0x7f.1 or 017.0.0.1 as addresses, each in its own way
        try:
            return str(IPv4Address(host))
        except ValueError:
            raise UrlError("has a host that is no IPv4 address") from None
    return host


def _encode_beyond_ascii(text: str) -> str:
    return "".join(
        ch if ch.isascii() else "".join(f"%{byte:02X}" for byte in ch.encode()) for ch in text
    )


def _encode(text: str, allowed: frozenset[int]) -> str:
    """Return a part of a URL with every byte encoded that has to be, and no other."""
    raw, made, at = text.encode(), [], 0
    while at < len(raw):
        if (known := _ENCODED.match(raw, at)) is not None:
            byte = int(known[1], 16)
            made.append(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}")
            at += 3
        else:
            made.append(chr(raw[at]) if raw[at] in allowed else f"%{raw[at]:02X}")
            at += 1
    return "".join(made)


def _without_dots(path: str) -> str:
    """Return a path without the segments `.` and `..` (RFC 3986, 5.2.4)."""
    kept: list[str] = []
    segments = path.split("/")
    for segment in segments:
        if segment == "..":
            # the first is what stands before the leading slash
            del kept[max(1, len(kept) - 1) :]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in {".", ".."}:
        kept.append("")
    return "/".join(kept)
