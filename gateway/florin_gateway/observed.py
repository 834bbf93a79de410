"""Who looks at requests: begun with their headers, over with a route and a status.

What is told of a route is its name, never a path: as many different ones as there are routes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from typing import Any, Protocol, TypeAlias

from florin_gateway.exchange import Exchange
from florin_gateway.rpc import Metadata

# the client left before anything was answered, as proxies write it
GONE = 499
RawHeaders: TypeAlias = Iterable[tuple[bytes, bytes]]


class Observation(Protocol):
    """One request as somebody looks at it; `metadata` goes along with its RPC."""

    @property
    def metadata(self) -> Metadata:
        """What a back end elsewhere is told beside the metadata of the request."""

    def end(self, route: str, status: int) -> None:
        """The request is over; `route` is empty if there was none."""


# by a request's headers, and what tells the address of its client in gRPC's form
Observe: TypeAlias = Callable[[RawHeaders, Callable[[], str]], Observation]


class Observed:
    """Notes how a request is answered."""

    __slots__ = ("_exchange", "_observation", "_send", "_status")

    def __init__(self, exchange: Exchange, observation: Observation) -> None:
        self._exchange = exchange
        self._observation = observation
        self._send = exchange.send
        self._status = GONE
        exchange.send = self._noting
        exchange.incoming.metadata += observation.metadata

    async def _noting(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        await self._send(message)

    def end(self) -> None:
        """Tells it."""
        self._observation.end(self._exchange.route, self._status)
