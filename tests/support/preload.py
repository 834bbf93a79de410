"""Florin with all modules that it otherwise imports on demand, for processes that fork."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import florin_server
import grpc_rest_gateway
from florin_server.app import memory
from florin_server.db.engine.query import CoreStatement

# whole packages that a service or a command imports on demand
LAZY_MODULES = ("aiohttp.web", "eth_account", "uvicorn.lifespan.off")


def load_all() -> None:
    """Import all modules, compile their statements, and keep the forks' collector off them."""
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
    memory.freeze_startup_objects()
