"""A REST gateway for gRPC services, driven by google.api.http and a JSON dialect in protos."""

from florin_gateway.app import Gateway
from florin_gateway.backends import Local
from florin_gateway.plain import PlainAnswer, PlainEvent, PlainEvents, PlainHandler, PlainRequest
from florin_gateway.profiles import Profile
from florin_gateway.remote import Remote
from florin_gateway.routes import RouteError
from florin_gateway.rpc import Backend, CallError
from florin_gateway.server import HttpServer
from florin_gateway.settings import GatewaySettings, GuardSettings, HeaderSettings, ServerSettings

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
