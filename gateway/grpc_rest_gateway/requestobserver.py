"""Observe requests: from their headers to their route and status.

A route is reported by name, never by path, so that the number of values equals the number of
routes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from typing import Any, Protocol, TypeAlias

from grpc_rest_gateway.exchange import HttpExchange
from grpc_rest_gateway.rpc import Metadata

# the client left before a response, in the convention of proxies
CLIENT_GONE_STATUS = 499
RawHeaders: TypeAlias = Iterable[tuple[bytes, bytes]]


class RequestObservation(Protocol):
    """The observation of one request; `metadata` is sent with its RPC."""

    @property
    def metadata(self) -> Metadata:
        """Return metadata for a remote backend, in addition to the metadata of the request."""

    def end(self, route: str, status: int) -> None:
        """End the observation; `route` is empty without a route."""


# gets a request's headers, and a function for its client's address in gRPC's form
RequestObserver: TypeAlias = Callable[[RawHeaders, Callable[[], str]], RequestObservation]


class ObservedExchange:
    """Records the response to a request."""

    __slots__ = ("_exchange", "_observation", "_send", "_status")

    def __init__(self, exchange: HttpExchange, observation: RequestObservation) -> None:
        self._exchange = exchange
        self._observation = observation
        self._send = exchange.send
        self._status = CLIENT_GONE_STATUS
        exchange.send = self._record_status
        exchange.request_headers.metadata += observation.metadata

    async def _record_status(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        await self._send(message)

    def end(self) -> None:
        """Report the response to the observation."""
        self._observation.end(self._exchange.route, self._status)
