"""Florin with all that it imports only when it is needed, for processes that fork."""

from __future__ import annotations

import importlib
import pkgutil

import florin_gateway
import florin_server
from florin_server.boot import memory

# whole packages that a service or a command imports when it first needs them
OTHERS = ("aiohttp.web", "eth_account", "uvicorn.lifespan.off")


def load() -> None:
    """Imports all of it, and keeps the collector of forks off it."""
    for package in (florin_gateway, florin_server):
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            # those of migrations are no modules: a tool runs them
            if ".migrations" not in found.name:
                importlib.import_module(found.name)
    for name in OTHERS:
        importlib.import_module(name)
    memory.keep()
