"""Florin with all that it imports only when it is needed, for processes that fork."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import florin_gateway
import florin_server
from florin_server.boot import memory
from florin_server.store.engine.query import Statement

# whole packages that a service or a command imports when it first needs them
OTHERS = ("aiohttp.web", "eth_account", "uvicorn.lifespan.off")


def load() -> None:
    """Imports all of it, compiles its statements, and keeps the collector of forks off it."""
    for package in (florin_gateway, florin_server):
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            # those of migrations are no modules: a tool runs them
            if ".migrations" not in found.name:
                importlib.import_module(found.name)
    for name in OTHERS:
        importlib.import_module(name)
    for module in list(sys.modules.values()):
        for value in vars(module).values():
            if isinstance(value, Statement):
                # compiled here, once
                value.sqlite  # noqa: B018
    memory.keep()
