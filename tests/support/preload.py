"""Florin with all modules that it otherwise imports on demand, for processes that fork."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from typing import Any

import florin_server
import grpc_rest_gateway
from florin_server.app import memory
from florin_server.app.servers import gateway
from florin_server.app.servers.grpc_server import PUBLIC_SERVICES
from florin_server.base.outbound import outbound
from florin_server.db.engine.query import CoreStatement
from grpc_rest_gateway.routes import compile_routes

# whole packages that a service or a command imports on demand
LAZY_MODULES = ("aiohttp.web", "eth_account", "uvicorn.lifespan.off")


class _NoBackend:
    """A backend for routes that are compiled and never called."""

    def get_unary(self, _method: object) -> None:
        return None

    get_stream = get_unary


def load_all() -> None:
    """Import all modules, prepare what each start needs, and keep the forks' collector off them.

    The statements and the routes are compiled, and the trusted authorities are read.
    """
    for package in (grpc_rest_gateway, florin_server):
        for module_info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            # migrations are no modules: a tool runs them
            if ".migrations" not in module_info.name:
                importlib.import_module(module_info.name)
    for name in LAZY_MODULES:
        importlib.import_module(name)
    for module in list(sys.modules.values()):
        for value in vars(module).values():
            if isinstance(value, CoreStatement):
                # compiled here, once
                value.sqlite  # noqa: B018
    # the codec keeps what it compiles
    backend: Any = _NoBackend()
    list(compile_routes(PUBLIC_SERVICES, backend, gateway._CODEC))  # noqa: SLF001
    outbound._default_ssl_context()  # noqa: SLF001
    memory.freeze_startup_objects()
