"""The caller of a request: the transport's peer, or the one named by a trusted gateway or proxy."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grpc_rest_gateway.forwarded import PROXY_PROTOCOL, TrustedProxies
from grpc_rest_gateway.rpc import CLIENT_ADDRESS_KEY, GATEWAY_TOKEN_KEY

from florin_server.app.home import SetupError
from florin_server.base import logs
from florin_server.settings import Settings

_log = logging.getLogger(__name__)

# not guessable, if it was drawn at random
_CHARS_MIN = 32


class CallerResolver:
    """Returns the address (in gRPC's form) of the caller of a request.

    Only a gateway with the token, and a proxy in a trusted network, can name another address than
    the transport does. Other callers' statements about their address are ignored.
    """

    def __init__(self, token: str, proxies: TrustedProxies) -> None:
        self._token = token.encode()
        self._proxies = proxies
        self._has_warned = False

    def __call__(self, entries: Any, peer: str) -> str:
        """Return the address, by a call's metadata and the transport's peer."""
        tokens = [value for key, value in entries if key == GATEWAY_TOKEN_KEY]
        if tokens and self._is_token(tokens):
            return next((str(v) for key, v in entries if key == CLIENT_ADDRESS_KEY), peer)
        if tokens and not self._has_warned:
            self._has_warned = True
            _log.warning(
                "%s has a different gateway token: Florin ignores the caller addresses that it "
                "reports",
                peer,
            )
        listed = [str(value) for key, value in entries if key == self._proxies.header]
        return self._proxies.get_client(peer, listed) if listed else peer

    def is_gateway(self, entries: Any) -> bool:
        """Return True if the call comes from a gateway that knows the token."""
        tokens = [value for key, value in entries if key == GATEWAY_TOKEN_KEY]
        return bool(tokens) and self._is_token(tokens)

    def _is_token(self, values: Sequence[Any]) -> bool:
        (token, *more) = values
        is_equal = isinstance(token, str) and hmac.compare_digest(token.encode(), self._token)
        return is_equal and not more and bool(self._token)


def get_proxies(settings: Settings) -> TrustedProxies:
    """Return the proxies in front whose headers name their callers."""
    if settings.proxy_header == PROXY_PROTOCOL:
        return TrustedProxies()
    return TrustedProxies(settings.trusted_proxies, settings.proxy_header)


def find_token(settings: Settings) -> str | None:
    """Return the operator's token; None without one. SetupError if it cannot be read."""
    if settings.gateway_token is not None:
        token = settings.gateway_token.get_secret_value()
    elif settings.gateway_token_file is not None:
        token = _read_token(settings.gateway_token_file)
    else:
        return None
    if not (token.isascii() and token.isprintable()) or len(token) < _CHARS_MIN:
        raise SetupError(f"the gateway token needs {_CHARS_MIN} printable ASCII characters or more")
    logs.redactor.hide([token])
    return token


def _read_token(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"the gateway token cannot be read from {path}: {error}") from error
