"""The consoles: the merchants' beside REST, the operator's beside metrics, if they are wanted.

Their pages call the RPCs of this process through gates of their own, with all that every caller
passes.
"""

from __future__ import annotations

from types import MappingProxyType
from urllib.parse import urlsplit

from grpc_rest_gateway.backends import LocalBackend

from florin_server.app.core import App
from florin_server.app.servers.grpc_server import GrpcServers
from florin_server.settings import Settings
from florin_server.web import metrics
from florin_server.web.console import routes
from florin_server.web.handlers import Routes

_NO_ROUTES: Routes = MappingProxyType({})
_LOCAL_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})


def has_merchant_console(settings: Settings) -> bool:
    """Return True if merchants can sign in; by default, where only this machine can."""
    if settings.console is not None:
        return settings.console
    linked = urlsplit(settings.pay_url).hostname if settings.pay_url else None
    near = settings.host in _LOCAL_HOSTS and (linked is None or linked in _LOCAL_HOSTS)
    return near and not settings.trusted_proxies


def build_merchant_routes(app: App, grpc: GrpcServers) -> Routes:
    """Return the pages for merchants; none if they are off."""
    if not has_merchant_console(app.settings):
        return _NO_ROUTES
    proving, proven = (
        LocalBackend([grpc.interceptor]),
        LocalBackend([grpc.consoles.merchant_interceptor]),
    )
    for local in (proving, proven):
        grpc.register(local)
    return routes.build_merchant_routes(
        app, proving, proven, grpc.consoles.installation_secrets.console_key
    )


def build_operator_routes(app: App, grpc: GrpcServers) -> Routes:
    """Return the pages for the operator; none if they are off."""
    if app.settings.console is False:
        return _NO_ROUTES
    consoles = grpc.consoles
    local = LocalBackend([consoles.operator_interceptor])
    consoles.register_operator(local)
    installation_secrets = consoles.installation_secrets
    return routes.build_operator_routes(
        app,
        local,
        installation_secrets.operator_token,
        installation_secrets.console_key,
        metrics.is_allowed_host,
    )
