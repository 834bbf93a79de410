"""Who makes a call: the transport's peer, or whom a gateway or a proxy that is trusted names."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from florin_gateway.forwarded import PROXY_PROTOCOL, Proxies
from florin_gateway.rpc import CLIENT_ADDRESS_KEY, GATEWAY_TOKEN_KEY

from florin_server import logs
from florin_server.boot.home import Refused
from florin_server.config import Settings

_log = logging.getLogger(__name__)

# what nobody guesses, if it was drawn
_CHARS_MIN = 32


class Peers:
    """Tells the address (in gRPC's form) of whoever makes a call.

    Only a gateway that knows the token may name another than the transport does, and a proxy in a
    trusted network. What anybody else says about its address is ignored.
    """

    def __init__(self, token: str, proxies: Proxies) -> None:
        self._token = token.encode()
        self._proxies = proxies
        self._wondered = False

    def __call__(self, entries: Any, peer: str) -> str:
        """The address, by a call's metadata and the transport's peer."""
        given = [value for key, value in entries if key == GATEWAY_TOKEN_KEY]
        if given and self._knows(given):
            return next((str(v) for key, v in entries if key == CLIENT_ADDRESS_KEY), peer)
        if given and not self._wondered:
            self._wondered = True
            _log.warning("%s has another gateway token: what it says of its callers is lost", peer)
        listed = [str(value) for key, value in entries if key == self._proxies.header]
        return self._proxies.client(peer, listed) if listed else peer

    def is_gateway(self, entries: Any) -> bool:
        """True if the call comes from a gateway that knows the token."""
        given = [value for key, value in entries if key == GATEWAY_TOKEN_KEY]
        return bool(given) and self._knows(given)

    def _knows(self, given: Sequence[Any]) -> bool:
        (token, *more) = given
        known = isinstance(token, str) and hmac.compare_digest(token.encode(), self._token)
        return known and not more and bool(self._token)


def proxies_of(settings: Settings) -> Proxies:
    """The proxies in front whose headers name their callers."""
    if settings.proxy_header == PROXY_PROTOCOL:
        return Proxies()
    return Proxies(settings.trusted_proxies, settings.proxy_header)


def chosen_token(settings: Settings) -> str | None:
    """The token that the operator set; None if there is none. Refused if it cannot be read."""
    if settings.gateway_token is not None:
        token = settings.gateway_token.get_secret_value()
    elif settings.gateway_token_file is not None:
        token = _read(settings.gateway_token_file)
    else:
        return None
    if not (token.isascii() and token.isprintable()) or len(token) < _CHARS_MIN:
        raise Refused(f"the gateway token needs {_CHARS_MIN} printable ASCII characters or more")
    logs.redactor.hide([token])
    return token


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"the gateway token cannot be read from {path}: {error}") from error
