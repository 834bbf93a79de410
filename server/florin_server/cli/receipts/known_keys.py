"""Where the keys come from that a receipt is checked with: never from the receipt itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from joserfc.jwk import OKPKey

from florin_server.domain.receipts.signature import key_set
from florin_server.domain.urls import is_loopback
from florin_server.outbound.outbound import NoAnswer, Outbound
from florin_server.outbound.reach import Reach

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


async def of_public_address(url: str) -> Mapping[str, OKPKey]:
    """Fetch the keys from an address that a receipt names, by their thumbprints.

    Only https at a public address is asked: a stranger wrote it, and must not choose what is
    fetched inside the network of whoever checks. NoKeys otherwise.
    """
    outbound = Outbound(Reach())
    try:
        answer = await outbound.send(
            "GET", url, headers={}, timeout_s=_TIMEOUT_S, answer_bytes=_BYTES_MAX
        )
    except NoAnswer as fault:
        raise NoKeys(
            f"the receipt names {url[:200]}: {fault}; name the issuer's keys by --jwks"
        ) from None
    finally:
        await outbound.close()
    if answer.status != 200:
        raise NoKeys(f"{url[:200]} answered HTTP {answer.status} when asked for keys")
    try:
        return key_set(answer.body)
    except ValueError as fault:
        raise NoKeys(f"{url[:200]}: {fault}") from None


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
    return scheme == "http" and is_loopback(host)
