"""The connections that the operator's node settings describe."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from urllib.parse import urlsplit

from florin_server.rails.connection.endpoints import FailoverRpc
from florin_server.rails.connection.jsonrpc import HttpTransport, JsonRpcClient, RpcTransport
from florin_server.rails.connection.node_dialect import NodeDialect
from florin_server.rails.connection.settings import NodeSettings

_AGREEMENT_DEFAULT = 2  # endpoints that must agree on what ends a payment, if there are as many


def create_rpc(
    settings: NodeSettings,
    dialect: NodeDialect,
    transport: RpcTransport | None,
    now: Callable[[], float] = time.monotonic,
) -> FailoverRpc:
    """Return a chain's endpoints; a transport leads to a trusted node of this process."""
    if transport is not None:
        rpc = JsonRpcClient(transport, batch_max=settings.batch_max)
        return FailoverRpc({"this process": rpc}, dialect, trusted=True)
    if not settings.rpc_urls:
        raise ValueError("neither a node's URL nor a transport")
    rpcs = {
        name: JsonRpcClient(HttpTransport(url), batch_max=settings.batch_max)
        for name, url in zip(_format_hosts(settings.rpc_urls), settings.rpc_urls, strict=True)
    }
    agreement = settings.agreement or min(_AGREEMENT_DEFAULT, len(rpcs))
    return FailoverRpc(rpcs, dialect, agreement=agreement, now=now)


def _format_hosts(urls: tuple[str, ...]) -> list[str]:
    """Return hosts only, as a URL may contain an access key; number equal hosts."""
    hosts = [urlsplit(url).hostname or "?" for url in urls]
    count = Counter(hosts)
    return [
        host if count[host] == 1 else f"{host}#{index}" for index, host in enumerate(hosts, start=1)
    ]
