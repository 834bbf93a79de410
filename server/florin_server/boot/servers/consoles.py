"""The consoles: the merchants' beside REST, the operator's beside metrics, if they are wanted.

Their pages call the RPCs of this process through gates of their own, with all that every caller
passes.
"""

from __future__ import annotations

from types import MappingProxyType
from urllib.parse import urlsplit

from florin_gateway.backends import Local

from florin_server.boot.servers.grpc_server import GrpcServers
from florin_server.config import Settings
from florin_server.flows.app import App
from florin_server.web import metrics
from florin_server.web.console import routes
from florin_server.web.console.routes import Routes

_NONE: Routes = MappingProxyType({})
_NEAR = frozenset({"127.0.0.1", "::1", "localhost"})


def wants_merchants(settings: Settings) -> bool:
    """True if merchants may sign in: unless it is said, where nobody but this machine can."""
    if settings.console is not None:
        return settings.console
    linked = urlsplit(settings.pay_url).hostname if settings.pay_url else None
    near = settings.host in _NEAR and (linked is None or linked in _NEAR)
    return near and not settings.trusted_proxies


def of_merchants(app: App, grpc: GrpcServers) -> Routes:
    """Pages for merchants; none if they are not wanted."""
    if not wants_merchants(app.settings):
        return _NONE
    proving, proven = Local([grpc.gate]), Local([grpc.consoles.merchants])
    for local in (proving, proven):
        grpc.register(local)
    return routes.of_merchants(app, proving, proven, grpc.consoles.kept.console_key)


def of_operator(app: App, grpc: GrpcServers) -> Routes:
    """Pages for the operator; none if they are not wanted."""
    if app.settings.console is False:
        return _NONE
    consoles = grpc.consoles
    local = Local([consoles.operator])
    consoles.register_operator(local)
    kept = consoles.kept
    return routes.of_operator(app, local, kept.operator_token, kept.console_key, metrics.is_near)
