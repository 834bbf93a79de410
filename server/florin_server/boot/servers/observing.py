"""Who looks at the requests of one process, for its meters."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from florin_gateway.observed import Observe, RawHeaders
from florin_gateway.rpc import Metadata

from florin_server.meters import Meters
from florin_server.rpc.server import observed
from florin_server.rpc.server.methods import Method


class _Request:
    """One request over REST."""

    __slots__ = ("_began", "_meters", "metadata")

    def __init__(self, meters: Meters) -> None:
        self._meters = meters
        self._began = time.perf_counter()
        self.metadata: Metadata = ()

    def end(self, route: str, status: int) -> None:
        self._meters.request("rest", route, str(status), time.perf_counter() - self._began)


class _Call:
    """One call over gRPC."""

    __slots__ = ("_began", "_meters", "_name")

    def __init__(self, meters: Meters, name: str) -> None:
        self._meters = meters
        self._name = name
        self._began = time.perf_counter()

    def end(self, code: str, _answer: Any) -> None:
        self._meters.request("grpc", self._name, code, time.perf_counter() - self._began)


def of_rest(meters: Meters) -> Observe:
    """Looks at what a gateway is asked."""

    def observe(_headers: RawHeaders, _client: Callable[[], str]) -> _Request:
        return _Request(meters)

    return observe


def of_grpc(meters: Meters) -> observed.Observe:
    """Looks at what a gRPC server is asked."""

    def observe(method: Method, _request: Any, _context: Any) -> _Call:
        return _Call(meters, method.short_name)

    return observe
