"""What others see of the installation: the address of payment links, and the certificate."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

import aiohttp

from florin_server.boot.servers.certificates import Certificates
from florin_server.config import Settings
from florin_server.domain.conditions import ConditionName

_PATIENCE_S = 5.0


def conditions(
    settings: Settings, links: str, certificates: Certificates | None
) -> Mapping[ConditionName, str]:
    """What is wrong with it, in sentences; `links` is what payment links begin with."""
    told = {} if certificates is None else dict(certificates.conditions())
    told[ConditionName.PAY_URL_LOCAL] = problem(links) if settings.has_live else ""
    return told


def problem(links: str) -> str:
    """Why live payments should have no links that begin so; empty if they may."""
    parts = urlsplit(links)
    host = parts.hostname or ""
    if _is_local(host):
        return f"payment links begin with {links}, which buyers elsewhere cannot reach"
    if parts.scheme != "https":
        return f"payment links begin with {links}, and others on the way can change what is there"
    return ""


async def unreachable(links: str) -> str:
    """Why a Florin is not reached there from this machine; empty if one answers."""
    parts = urlsplit(links)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await asyncio.get_running_loop().getaddrinfo(
                parts.hostname, port, type=socket.SOCK_STREAM
            )
    except (OSError, TimeoutError) as error:
        return f"the name {parts.hostname} is not found: {error or 'no answer'}"
    patience = aiohttp.ClientTimeout(total=_PATIENCE_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=patience) as session,
            session.get(f"{links}/healthz", allow_redirects=False) as answer,
        ):
            if answer.status != 200 or b'"ok"' not in await answer.content.read(100):
                return f"{links}/healthz answers {answer.status}, and not as Florin does"
    except (aiohttp.ClientError, TimeoutError) as error:
        return f"{links} is not reached from this machine: {error or 'no answer'}"
    return ""


def _is_local(host: str) -> bool:
    try:
        at = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".local", ".internal"))
    return not at.is_global
