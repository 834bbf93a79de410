"""The connections that follow from what the operator told about a chain's nodes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from urllib.parse import urlsplit

from florin_server.rails.connection.endpoints import Endpoints
from florin_server.rails.connection.family import Family
from florin_server.rails.connection.jsonrpc import HttpTransport, JsonRpc, Transport
from florin_server.rails.connection.settings import NodeSettings

_WITNESSES = 2  # that agree on what ends a payment, if there are so many


def connect(
    settings: NodeSettings,
    family: Family,
    transport: Transport | None,
    now: Callable[[], float] = time.monotonic,
) -> Endpoints:
    """The endpoints of a chain; a transport leads to a node of this process, which is trusted."""
    if transport is not None:
        rpc = JsonRpc(transport, batch_max=settings.batch_max)
        return Endpoints({"this process": rpc}, family, trusted=True)
    if not settings.rpc_urls:
        raise ValueError("neither a node's URL nor a transport")
    rpcs = {
        name: JsonRpc(HttpTransport(url), batch_max=settings.batch_max)
        for name, url in zip(_names(settings.rpc_urls), settings.rpc_urls, strict=True)
    }
    agreement = settings.agreement or min(_WITNESSES, len(rpcs))
    return Endpoints(rpcs, family, agreement=agreement, now=now)


def _names(urls: tuple[str, ...]) -> list[str]:
    """Hosts only, as an address may hold an access key; told apart by their order if equal."""
    hosts = [urlsplit(url).hostname or "?" for url in urls]
    count = Counter(hosts)
    return [
        host if count[host] == 1 else f"{host}#{index}" for index, host in enumerate(hosts, start=1)
    ]
