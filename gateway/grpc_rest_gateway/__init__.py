"""A REST gateway for gRPC services, driven by google.api.http and a JSON dialect in protos.

Names are imported on first use: converting a message to JSON needs no web server.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grpc_rest_gateway.app import RestGateway
    from grpc_rest_gateway.backends import LocalBackend
    from grpc_rest_gateway.plain import (
        PlainEvent,
        PlainEvents,
        PlainHandler,
        PlainRequest,
        PlainResponse,
    )
    from grpc_rest_gateway.profiles import JsonProfile
    from grpc_rest_gateway.remote import RemoteBackend
    from grpc_rest_gateway.routes import RouteError
    from grpc_rest_gateway.rpc import CallError, RpcBackend
    from grpc_rest_gateway.server import HttpServer
    from grpc_rest_gateway.settings import (
        GatewaySettings,
        GuardSettings,
        HeaderSettings,
        ServerSettings,
    )

__all__ = [
    "CallError",
    "GatewaySettings",
    "GuardSettings",
    "HeaderSettings",
    "HttpServer",
    "JsonProfile",
    "LocalBackend",
    "PlainEvent",
    "PlainEvents",
    "PlainHandler",
    "PlainRequest",
    "PlainResponse",
    "RemoteBackend",
    "RestGateway",
    "RouteError",
    "RpcBackend",
    "ServerSettings",
]

_MODULES = {
    "app": ("RestGateway",),
    "backends": ("LocalBackend",),
    "plain": ("PlainEvent", "PlainEvents", "PlainHandler", "PlainRequest", "PlainResponse"),
    "profiles": ("JsonProfile",),
    "remote": ("RemoteBackend",),
    "routes": ("RouteError",),
    "rpc": ("CallError", "RpcBackend"),
    "server": ("HttpServer",),
    "settings": ("GatewaySettings", "GuardSettings", "HeaderSettings", "ServerSettings"),
}
_MODULE_BY_NAME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Return one of the names, imported from its module."""
    if name not in _MODULE_BY_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_BY_NAME[name]}"), name)
