"""The client of a request, as far as the proxies in front can be trusted."""

from __future__ import annotations

import logging

from grpc_rest_gateway.exchange import Scope, get_peer
from grpc_rest_gateway.forwarded import TrustedProxies, is_private_peer

logger = logging.getLogger(__name__)

_SCHEMES = (b"http", b"https")


class ClientReader:
    """Reads what proxies report of a client; logs once if a proxy seems not to be trusted yet."""

    def __init__(self, proxies: TrustedProxies) -> None:
        self._proxies = proxies
        self._header = proxies.header.encode()
        self._has_warned = False

    def get_peer(self, scope: Scope) -> str:
        """Return the address of the client, in gRPC's form."""
        peer = get_peer(scope)
        listed = [
            value.decode("latin-1") for name, value in scope["headers"] if name == self._header
        ]
        if not listed:
            return peer
        client = self._proxies.get_client(peer, listed)
        if client == peer and not self._has_warned and is_private_peer(peer):
            self._has_warned = True
            logger.warning(
                "%s sends forwarding headers but is no trusted proxy: all its clients count as one "
                "address; if it is your proxy, add it to the trusted proxies",
                peer,
            )
        return client

    def get_scheme(self, scope: Scope) -> str:
        """Return the scheme that the client used, as reported by a proxy that ends TLS."""
        scheme: bytes | None = dict(scope["headers"]).get(b"x-forwarded-proto")
        if scheme in _SCHEMES and self._proxies.is_trusted(get_peer(scope)):
            return str(scheme, "ascii")
        # servers can omit it: ASGI defines a default
        return str(scope.get("scheme", "http"))
