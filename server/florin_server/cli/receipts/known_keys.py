"""Read the keys that verify a receipt. They never come from the receipt itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from joserfc.jwk import OKPKey

from florin_server.base.outbound.address_policy import AddressPolicy
from florin_server.base.outbound.outbound import RequestFailed, SafeHttpClient
from florin_server.domain.receipts.signature import parse_key_set
from florin_server.domain.urls import is_loopback

JWKS_PATH: Final = "/.well-known/jwks.json"
_BYTES_MAX: Final = 256 * 1024
_TIMEOUT_S: Final = 10.0


class KeysUnavailable(Exception):  # noqa: N818  (a state of the world, not a mistake)
    """The keys could not be read; the text says why."""


async def read_keys(source: str) -> Mapping[str, OKPKey]:
    """Read keys from a file or an https URL (http on this machine); return them by thumbprint."""
    try:
        content = await _fetch(source) if "://" in source else await _read_file(Path(source))
        return parse_key_set(content)
    except ValueError as fault:
        raise KeysUnavailable(f"{source}: {fault}") from None


async def fetch_public_keys(url: str) -> Mapping[str, OKPKey]:
    """Fetch keys from the URL that a receipt names; return them by thumbprint.

    Only https URLs with a public address are allowed: a stranger wrote the URL, and must not reach
    the verifier's own network. KeysUnavailable otherwise.
    """
    outbound = SafeHttpClient(AddressPolicy())
    try:
        answer = await outbound.send(
            "GET", url, headers={}, timeout_s=_TIMEOUT_S, response_bytes_max=_BYTES_MAX
        )
    except RequestFailed as fault:
        raise KeysUnavailable(
            f"the receipt names {url[:200]}: {fault}; pass the issuer's keys with --jwks"
        ) from None
    finally:
        await outbound.close()
    if answer.status != 200:
        raise KeysUnavailable(f"{url[:200]} returned HTTP {answer.status} instead of keys")
    try:
        return parse_key_set(answer.body)
    except ValueError as fault:
        raise KeysUnavailable(f"{url[:200]}: {fault}") from None


async def _read_file(file: Path) -> bytes:
    try:
        return await asyncio.to_thread(_read_head, file)
    except OSError as fault:
        raise KeysUnavailable(f"{file}: {fault.strerror}") from None


def _read_head(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(_BYTES_MAX)


async def _fetch(url: str) -> bytes:
    parts = urlsplit(url)
    if not parts.hostname or not (
        parts.scheme == "https" or _is_local_http(parts.scheme, parts.hostname)
    ):
        raise KeysUnavailable(f"{url[:200]} is not an https URL: keys are fetched over https only")
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session,
            # only the issuer's own host can vouch for it, not the target of a redirect
            session.get(url, allow_redirects=False) as response,
        ):
            if response.status != 200:
                raise KeysUnavailable(
                    f"{parts.hostname} returned HTTP {response.status} instead of keys"
                )
            content = await response.content.read(_BYTES_MAX)
            while len(content) < _BYTES_MAX and (more := await response.content.read(_BYTES_MAX)):
                content += more
            return content[:_BYTES_MAX]
    except TimeoutError:
        raise KeysUnavailable(f"{parts.hostname} did not return its keys in time") from None
    except (aiohttp.ClientError, OSError) as fault:
        raise KeysUnavailable(
            f"{parts.hostname}: {type(fault).__name__} while fetching its keys"
        ) from None


def _is_local_http(scheme: str, host: str) -> bool:
    """Return True for plain http to this machine, which a sandbox uses."""
    return scheme == "http" and is_loopback(host)
