"""What the operator tells about the nodes of one chain, and the connections that follow from it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from florin_server.rails.connection.endpoints import Endpoints
from florin_server.rails.connection.family import Family
from florin_server.rails.connection.jsonrpc import BATCH_MAX, HttpTransport, JsonRpc, Transport

_WITNESSES = 2  # that agree on what ends a payment, if there are so many
_Url = Annotated[str, Field(min_length=1)]


class NodeSettings(BaseModel):
    """The nodes of a chain, and how far they are trusted."""

    # a mistyped address may hold an access key: it is not repeated
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    rpc_url: _Url | Annotated[tuple[_Url, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="JSON-RPC address of a node, or a list of them, the preferred one first",
    )
    ws_url: Annotated[str, Field(pattern=r"^wss?://[^/]")] | None = Field(
        default=None, description="WebSocket where a node announces new blocks; unset: it is polled"
    )
    agreement: int | None = Field(
        default=None,
        ge=1,
        description="nodes that must tell the same of what ends a payment; unset: two, if there "
        "are two",
    )
    lag_max: int = Field(
        default=5, ge=1, description="a node that is further behind the others is left out"
    )
    batch_max: int = Field(
        default=BATCH_MAX, ge=1, le=1000, description="calls that the nodes take in one payload"
    )
    poll_ms: int = Field(
        default=1000,
        ge=10,
        le=600_000,
        description="between two looks at the head, while no announcements come",
    )

    @model_validator(mode="after")
    def _agreement_is_possible(self) -> Self:
        if self.agreement is not None and self.agreement > max(1, len(self.rpc_urls)):
            raise ValueError("agreement is more than there are addresses in rpc_url")
        if len(set(self.rpc_urls)) != len(self.rpc_urls):
            raise ValueError("an address is listed twice in rpc_url")
        return self

    @property
    def rpc_urls(self) -> tuple[str, ...]:
        """The addresses in the order of preference; none when a transport is handed over."""
        if self.rpc_url is None:
            return ()
        return (self.rpc_url,) if isinstance(self.rpc_url, str) else self.rpc_url


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
