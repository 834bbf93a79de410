"""A REST gateway for gRPC services, driven by google.api.http and a JSON dialect in protos.

A name is imported when it is asked for: who wants the JSON of a message needs no web server.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from florin_gateway.app import Gateway
    from florin_gateway.backends import Local
    from florin_gateway.plain import (
        PlainAnswer,
        PlainEvent,
        PlainEvents,
        PlainHandler,
        PlainRequest,
    )
    from florin_gateway.profiles import Profile
    from florin_gateway.remote import Remote
    from florin_gateway.routes import RouteError
    from florin_gateway.rpc import Backend, CallError
    from florin_gateway.server import HttpServer
    from florin_gateway.settings import (
        GatewaySettings,
        GuardSettings,
        HeaderSettings,
        ServerSettings,
    )

__all__ = [
    "Backend",
    "CallError",
    "Gateway",
    "GatewaySettings",
    "GuardSettings",
    "HeaderSettings",
    "HttpServer",
    "Local",
    "PlainAnswer",
    "PlainEvent",
    "PlainEvents",
    "PlainHandler",
    "PlainRequest",
    "Profile",
    "Remote",
    "RouteError",
    "ServerSettings",
]

_MODULES = {
    "app": ("Gateway",),
    "backends": ("Local",),
    "plain": ("PlainAnswer", "PlainEvent", "PlainEvents", "PlainHandler", "PlainRequest"),
    "profiles": ("Profile",),
    "remote": ("Remote",),
    "routes": ("RouteError",),
    "rpc": ("Backend", "CallError"),
    "server": ("HttpServer",),
    "settings": ("GatewaySettings", "GuardSettings", "HeaderSettings", "ServerSettings"),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """One of the names, from its module."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
