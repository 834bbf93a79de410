"""The store operations and rail calls in the code of the workers.

They are read from the source, so that a test run that finds its points at run time knows which it
missed.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any

from florin_server.app import housekeeping, process_bus
from florin_server.app import workers as jobs
from florin_server.app.core import Core

from tests.support.poison import list_rail_methods, name_operation
from tests.support.server_modules import import_modules, import_parts, is_in_part

# the names under which workers hold a role of a rail
_ROLES = {
    "relay": {"relay"},
    "observer": {"observer"},
    "blocks": {"blocks"},
    "terms": {"terms"},
    "direct_settlement": {"direct_settlement"},
    "direct": {"direct_settlement"},
    "requests": {"transaction_requests"},
    "transfers": {"transfer_requests"},
    "reader": {"deposits"},
    "deposits": {"deposits"},
    "sweeper": {"sweeper"},
    "addresses": {"addresses"},
    "facilitator": {"facilitator"},
    "nonces": {"account_nonces"},
    "account_nonces": {"account_nonces"},
    "gas": {"gas"},
    "treasury": {"payouts"},
    "work": {"durable_nonces", "token_accounts"},
}


class WorkerCodeScan:
    """References of workers: `operations` by name, `calls` as (role of a rail, method)."""

    def __init__(self) -> None:
        self.operations: set[str] = set()
        self.calls: set[tuple[str, str]] = set()
        self._seen: set[FunctionType] = set()
        for module in (
            *import_parts("worker"),
            *import_modules(process_bus),
            *import_modules(housekeeping),
            jobs,
        ):
            self._scan(ast.parse(inspect.getsource(module)), vars(module))

    def rail_points(self, app: Core) -> set[str]:
        """Return the calls that workers make of the rails of an app, as points name them."""
        return {
            f"rail.{kind.__name__}.{method}"
            for kind, role, method in list_rail_methods(app)
            if (role, method) in self.calls
        }

    def _scan(self, tree: ast.AST, names: Mapping[str, Any]) -> None:
        """Record the references of a piece of code, and those of the services that it calls."""
        parts = set(_list_parts(tree))
        for node in ast.walk(tree):
            self._note_call(node)
            if node in parts:
                continue
            value = _resolve_node(node, names)
            if _is_operation(value):
                self.operations.add(name_operation(value.__wrapped__))
            elif _is_service(value) and value not in self._seen:
                self._seen.add(value)
                source = textwrap.dedent(inspect.getsource(inspect.unwrap(value)))
                self._scan(ast.parse(source), inspect.unwrap(value).__globals__)

    def _note_call(self, node: ast.AST) -> None:
        if not isinstance(node, ast.Attribute):
            return
        base = node.value
        holder = getattr(base, "attr", getattr(base, "id", "")).lstrip("_")
        self.calls |= {(role, node.attr) for role in _ROLES.get(holder, ())}


def _list_parts(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts that run as a part of another operation."""
    for node in ast.walk(tree):
        if isinstance(node, ast.YieldFrom):
            yield from ast.walk(node)


def _resolve_node(node: ast.AST, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        module = names.get(node.value.id)
        return getattr(module, node.attr, None) if isinstance(module, ModuleType) else None
    return None


def _is_operation(value: Any) -> bool:
    return inspect.isgeneratorfunction(getattr(value, "__wrapped__", None))


def _is_service(value: Any) -> bool:
    return isinstance(value, FunctionType) and is_in_part(value.__module__, "service")
