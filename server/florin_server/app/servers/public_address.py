"""The public view of the installation: the URL of payment links, and the certificate."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

import aiohttp

from florin_server.app.servers.certificates import CertificateStore
from florin_server.domain.conditions import ConditionName
from florin_server.settings import Settings

_TIMEOUT_S = 5.0


def list_conditions(
    settings: Settings, base_url: str, certificates: CertificateStore | None
) -> Mapping[ConditionName, str]:
    """Return its conditions, in sentences; `base_url` is the beginning of payment links."""
    report = {} if certificates is None else dict(certificates.list_conditions())
    report[ConditionName.PAY_URL_LOCAL] = find_link_problem(base_url) if settings.has_live else ""
    return report


def find_link_problem(base_url: str) -> str:
    """Return why live payments should not have links that begin so; empty if they can."""
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    if _is_local(host):
        return f"payment links begin with {base_url}, which buyers elsewhere cannot reach"
    if parts.scheme != "https":
        return f"payment links begin with {base_url}, which anyone on the network path can change"
    return ""


async def check_reachable(base_url: str) -> str:
    """Return why no Florin is reachable there from this machine; empty if one answers."""
    parts = urlsplit(base_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            await asyncio.get_running_loop().getaddrinfo(
                parts.hostname, port, type=socket.SOCK_STREAM
            )
    except (OSError, TimeoutError) as error:
        return f"the name {parts.hostname} is not found: {error or 'no answer'}"
    patience = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=patience) as session,
            session.get(f"{base_url}/healthz", allow_redirects=False) as answer,
        ):
            if answer.status != 200 or b'"ok"' not in await answer.content.read(100):
                return f"{base_url}/healthz answers {answer.status}, which is not Florin's answer"
    except (aiohttp.ClientError, TimeoutError) as error:
        return f"{base_url} cannot be reached from this machine: {error or 'no answer'}"
    return ""


def _is_local(host: str) -> bool:
    try:
        at = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".local", ".internal"))
    return not at.is_global
