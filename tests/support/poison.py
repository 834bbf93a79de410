"""Faults that are injected into what workers ask: operations of the store and calls of rails.

A point is what one worker asks, as it is met while a story runs. A fault is an error that no worker
expects. It is raised for a number of passes in a row, or for as long as it is armed for whatever
names an item.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, wraps
from typing import Any, cast

from florin_server.boot import service, workers
from florin_server.flows.app import Core
from florin_server.rails import provisioning, roles
from florin_server.store.engine.query import Operation
from florin_server.store.engine.store import Store

WORKER: ContextVar[str] = ContextVar("worker", default="")
# what keeps the quarantine itself has tests of its own
_OWN = "quarantine.items."
# asked by whichever worker comes first
_ANYBODYS = {"payouts.covered.settle_covered", "screening.blocklists.lists"}


_PLAIN = frozenset({str, int, bool, bytes, float, type(None)})
_SEQUENCES = frozenset({list, tuple, set, frozenset})


class Injected(Exception):
    """An error that no worker expects."""


@dataclass
class Fault:
    """What fails at a point: `times` passes in a row, or with `names` all that name an item."""

    point: str
    times: int = 1
    names: Collection[str] = ()
    hits: int = 0

    def meets(self, args: object) -> bool:
        """Return whether a pass with these arguments fails."""
        if self.names:
            return any(text in self.names for text in texts_of(args))
        return self.hits < self.times


class Injector:
    """Knows the points that were passed, and raises at those that are armed.

    `naming` are the points that were passed with a name out of `watched`. `parts` are operations
    that were passed as a part of another one, which fail with it. `hits` tells how often each
    point failed since faults were armed last.
    """

    def __init__(self) -> None:
        self.points: dict[str, int] = {}
        self.parts: set[str] = set()
        self.naming: set[str] = set()
        self.watched: Collection[str] = ()
        self.hits: dict[str, int] = {}
        self._faults: dict[str, Fault] = {}

    def arm(self, *faults: Fault) -> None:
        """Fail at the points of faults from now on, and nowhere else."""
        self._faults, self.hits = {fault.point: fault for fault in faults}, {}

    def disarm(self) -> None:
        """Fail no more."""
        self._faults = {}

    def passing(self, name: str, args: object) -> None:
        """Count a point that is passed; raise Injected if it is armed."""
        worker = WORKER.get()
        if not worker:
            return
        point = f"{'any' if name in _ANYBODYS else worker}: {name}"
        self.points[point] = self.points.get(point, 0) + 1
        if not self._faults:
            self._learn(point, args)
        fault = self._faults.get(point)
        if fault is not None and fault.meets(args):
            fault.hits += 1
            self.hits[point] = fault.hits
            raise Injected(f"injected at {point}")

    def _learn(self, point: str, args: object) -> None:
        """Note what a point has for its arguments."""
        found = list(_values(args))
        self.parts.update(name_of(one) for one in found if isinstance(one, Operation))
        if self.watched and any(one in self.watched for one in found):
            self.naming.add(point)


def inject(monkeypatch: Any) -> Injector:
    """Watch what workers of services that start from now on ask of stores and rails."""
    injector = Injector()
    supervised, core_of = workers.supervise, service.core_of

    def core_with_watched_rails(*args: Any, **kwargs: Any) -> Core:
        core = core_of(*args, **kwargs)
        _inject_rails(monkeypatch, injector, core)
        return core

    async def supervise(core: Any, name: str, work: Any) -> None:
        # of a chain only its kind
        WORKER.set(name.partition(":")[0])
        await supervised(core, name, work)

    monkeypatch.setattr(workers, "supervise", supervise)
    monkeypatch.setattr(service, "core_of", core_with_watched_rails)
    for kind in (Store, *Store.__subclasses__()):
        for method in ("write", "read", "survey"):
            if method in vars(kind) and not getattr(
                vars(kind)[method], "__isabstractmethod__", False
            ):
                monkeypatch.setattr(kind, method, _asking(injector, vars(kind)[method]))
    return injector


def _inject_rails(monkeypatch: Any, injector: Injector, app: Core) -> None:
    """Watch every role of every rail; classes that are watched already stay as they are."""
    for kind, _, name in rail_methods(app):
        if not hasattr(vars(kind)[name], "is_watched"):
            point = f"rail.{kind.__name__}.{name}"
            monkeypatch.setattr(kind, name, _calling(injector, point, vars(kind)[name]))


def rail_methods(app: Core) -> Iterator[tuple[type, str, str]]:
    """Yield the class, the rail's member and the method of every role of every rail, each once."""
    done: set[tuple[type, str]] = set()
    for rail in app.rails.values():
        for role, methods in _roles():
            subject = getattr(rail, role, None)
            for name in methods if subject is not None else ():
                kind = next((one for one in type(subject).__mro__ if name in vars(one)), None)
                if kind is not None and (kind, name) not in done:
                    done.add((kind, name))
                    yield kind, role, name


def _roles() -> Iterator[tuple[str, list[str]]]:
    """Yield each role by the name of a rail's member, with its public methods."""
    by_name = {
        name: kind
        for module in (roles, provisioning)
        for name, kind in inspect.getmembers(module, inspect.isclass)
        if kind.__module__ == module.__name__ and getattr(kind, "_is_protocol", False)
    }
    members = {"DirectSettlement": "direct"}
    for name, kind in by_name.items():
        methods = [
            method
            for method, value in vars(kind).items()
            if inspect.isfunction(value) and not method.startswith("_")
        ]
        # who waits for a block has nothing to set aside: its worker is started again
        yield members.get(name, _snake(name)), [one for one in methods if one != "wait_for_block"]


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def name_of(op: Operation[Any]) -> str:
    """Return the name of an operation, with its module."""
    module = op.steps.__module__.removeprefix("florin_server.")
    return f"{module.removeprefix('store.')}.{op.steps.__name__}"


def _asking(injector: Injector, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    async def asked(self: Store, op: Operation[Any]) -> Any:
        name = name_of(op)
        if not name.startswith(_OWN):
            injector.passing(name, _arguments(op))
        return await method(self, op)

    return asked


def _calling(injector: Injector, point: str, method: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def called(self: Any, *args: Any, **kwargs: Any) -> Any:
            injector.passing(point, (args, kwargs))
            return await method(self, *args, **kwargs)

        called.is_watched = True  # type: ignore[attr-defined]
        return called

    @wraps(method)
    def called_at_once(self: Any, *args: Any, **kwargs: Any) -> Any:
        injector.passing(point, (args, kwargs))
        return method(self, *args, **kwargs)

    called_at_once.is_watched = True  # type: ignore[attr-defined]
    return called_at_once


def _arguments(op: Operation[Any]) -> tuple[Any, Any]:
    return op._args, op._kwargs  # noqa: SLF001  (nobody else looks into them)


def texts_of(value: object) -> Iterator[str]:
    """Yield every text in a value, however deep."""
    return (one for one in _values(value) if isinstance(one, str))


def _values(value: object, depth: int = 6) -> Iterator[object]:
    """Yield the texts and operations in a value."""
    if isinstance(value, str | Operation):
        yield value
    if depth:
        for one in _parts(value):
            yield from _values(one, depth - 1)


def _parts(value: object) -> Iterable[object]:
    """Return what a value is made of; nothing for numbers, bytes and the like."""
    kind = type(value)
    if kind in _PLAIN:
        return ()
    if kind in _SEQUENCES:
        return cast("Iterable[object]", value)
    if isinstance(value, Operation):
        return _arguments(value)
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    return [getattr(value, name, None) for name in _field_names(kind)]


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind)) if is_dataclass(kind) else ()
