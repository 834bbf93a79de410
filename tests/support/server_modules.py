"""The modules of the server's nouns, by their part: store, service or worker."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType

from florin_server import (
    accounts,
    compliance,
    features,
    idempotency,
    limits,
    money,
    operations,
)

_PACKAGES = (accounts, compliance, features, idempotency, limits, money, operations)


def import_parts(part: str) -> Iterator[ModuleType]:
    """Import every module of a part of a noun: `worker.py`, or each module of `worker/`."""
    for package in _PACKAGES:
        yield from import_modules(package, part)


def import_modules(package: ModuleType, part: str = "") -> Iterator[ModuleType]:
    """Import every module of a package, or of one part of its nouns."""
    for module_info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not part or part in module_info.name.split("."):
            yield importlib.import_module(module_info.name)


def is_in_part(module: str, part: str) -> bool:
    """Return whether a module, by its name, is a part of a noun."""
    names = tuple(f"{package.__name__}." for package in _PACKAGES)
    return module.startswith(names) and part in module.split(".")
