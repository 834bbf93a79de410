"""Where the keys come from that a receipt is checked with: never from the receipt itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from joserfc.jwk import OKPKey

from florin_server.domain.receipts.signature import key_set

PUBLISHED: Final = "/.well-known/jwks.json"
_BYTES_MAX: Final = 256 * 1024
_TIMEOUT_S: Final = 10.0


class NoKeys(Exception):  # noqa: N818  (a state of the world, not a mistake)
    """The keys were not to be had; the text says why."""


async def of_place(place: str) -> Mapping[str, OKPKey]:
    """The keys in a file, or at an https address (http on this machine), by their thumbprints."""
    try:
        content = await _fetched(place) if "://" in place else await _read(Path(place))
        return key_set(content)
    except ValueError as fault:
        raise NoKeys(f"{place}: {fault}") from None


async def _read(file: Path) -> bytes:
    try:
        return await asyncio.to_thread(_head, file)
    except OSError as fault:
        raise NoKeys(f"{file}: {fault.strerror}") from None


def _head(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(_BYTES_MAX)


async def _fetched(url: str) -> bytes:
    parts = urlsplit(url)
    if not parts.hostname or not (
        parts.scheme == "https" or _is_here(parts.scheme, parts.hostname)
    ):
        raise NoKeys(f"keys are fetched over https only, not from {url[:200]}")
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session,
            # who answers for the issuer is the issuer, and not whom it sends elsewhere
            session.get(url, allow_redirects=False) as response,
        ):
            if response.status != 200:
                raise NoKeys(
                    f"{parts.hostname} answered HTTP {response.status} when asked for keys"
                )
            content = await response.content.read(_BYTES_MAX)
            while len(content) < _BYTES_MAX and (more := await response.content.read(_BYTES_MAX)):
                content += more
            return content[:_BYTES_MAX]
    except TimeoutError:
        raise NoKeys(f"{parts.hostname} did not answer in time when asked for keys") from None
    except (aiohttp.ClientError, OSError) as fault:
        raise NoKeys(f"{parts.hostname}: {type(fault).__name__} when asked for keys") from None


def _is_here(scheme: str, host: str) -> bool:
    """True for plain http to this machine, as a sandbox has it."""
    try:
        return scheme == "http" and (host == "localhost" or ip_address(host).is_loopback)
    except ValueError:
        return False
