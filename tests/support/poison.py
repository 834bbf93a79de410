"""Faults that are injected into the calls of workers: store operations and calls of rails.

A point is a call of one worker that is passed while a test runs. A fault is an error that no worker
expects. It is raised for a number of passes in a row, or, while it is armed, for every pass that
names an item.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, wraps
from typing import Any, cast

from florin_server.app import service, workers
from florin_server.app.core import Core
from florin_server.db.engine.query import Operation
from florin_server.db.engine.store import Store

from tests.support.rail_roles import list_role_methods

WORKER: ContextVar[str] = ContextVar("worker", default="")
# the quarantine's own operations have separate tests
_QUARANTINE_PREFIX = "operations.quarantine."
# called by whichever worker comes first
_SHARED_OPERATIONS = {
    "money.payouts.covered.settle_covered",
    "compliance.screening.list_blocklists",
}


_PLAIN = frozenset({str, int, bool, bytes, float, type(None)})
_SEQUENCES = frozenset({list, tuple, set, frozenset})


class InjectedError(Exception):
    """An error that no worker expects."""


@dataclass
class InjectedFault:
    """A fault at a point: for `times` passes, or with `names` for all passes that name an item."""

    point: str
    times: int = 1
    names: Collection[str] = ()
    hits: int = 0

    def is_hit(self, args: object) -> bool:
        """Return whether a pass with these arguments fails."""
        if self.names:
            return any(text in self.names for text in list_texts(args))
        return self.hits < self.times


class FaultInjector:
    """Records the points that were passed, and raises at those that are armed.

    `naming` are the points that were passed with a name out of `watched`. `parts` are operations
    that were passed as a part of another one, and fail with it. `hits` counts how often each point
    failed since faults were last armed.
    """

    def __init__(self) -> None:
        self.points: dict[str, int] = {}
        self.parts: set[str] = set()
        self.naming: set[str] = set()
        self.watched: Collection[str] = ()
        self.hits: dict[str, int] = {}
        self._faults: dict[str, InjectedFault] = {}

    def arm(self, *faults: InjectedFault) -> None:
        """Fail at the points of these faults from now on, and nowhere else."""
        self._faults, self.hits = {fault.point: fault for fault in faults}, {}

    def disarm(self) -> None:
        """Stop failing."""
        self._faults = {}

    def record_pass(self, name: str, args: object) -> None:
        """Count a point that is passed; raise InjectedError if it is armed."""
        worker = WORKER.get()
        if not worker:
            return
        point = f"{'any' if name in _SHARED_OPERATIONS else worker}: {name}"
        self.points[point] = self.points.get(point, 0) + 1
        if not self._faults:
            self._learn(point, args)
        fault = self._faults.get(point)
        if fault is not None and fault.is_hit(args):
            fault.hits += 1
            self.hits[point] = fault.hits
            raise InjectedError(f"injected at {point}")

    def _learn(self, point: str, args: object) -> None:
        """Record the operations and watched names in a point's arguments."""
        results = list(_list_values(args))
        self.parts.update(
            get_operation_name(item) for item in results if isinstance(item, Operation)
        )
        if self.watched and any(item in self.watched for item in results):
            self.naming.add(point)


def install_injector(monkeypatch: Any) -> FaultInjector:
    """Watch the store operations and rail calls of workers in services that start from now on."""
    injector = FaultInjector()
    supervised, core_of = workers.supervise, service.build_core

    def core_with_watched_rails(*args: Any, **kwargs: Any) -> Core:
        core = core_of(*args, **kwargs)
        _inject_rails(monkeypatch, injector, core)
        return core

    async def supervise(core: Any, name: str, work: Any) -> None:
        # of a chain's worker only the kind
        WORKER.set(name.partition(":")[0])
        await supervised(core, name, work)

    monkeypatch.setattr(workers, "supervise", supervise)
    monkeypatch.setattr(service, "build_core", core_with_watched_rails)
    for kind in (Store, *Store.__subclasses__()):
        for method in ("write", "read", "scan"):
            if method in vars(kind) and not getattr(
                vars(kind)[method], "__isabstractmethod__", False
            ):
                monkeypatch.setattr(kind, method, _wrap_store_method(injector, vars(kind)[method]))
    return injector


def _inject_rails(monkeypatch: Any, injector: FaultInjector, app: Core) -> None:
    """Watch every role of every rail; classes that are watched already are left as they are."""
    for kind, _, name in list_rail_methods(app):
        if not hasattr(vars(kind)[name], "is_watched"):
            point = f"rail.{kind.__name__}.{name}"
            monkeypatch.setattr(kind, name, _wrap_rail_method(injector, point, vars(kind)[name]))


def list_rail_methods(app: Core) -> Iterator[tuple[type, str, str]]:
    """Yield the class, the rail's member and the method of every role of every rail, each once."""
    done: set[tuple[type, str]] = set()
    for rail in app.rails.values():
        for role, methods in list_role_methods():
            subject = getattr(rail, role, None)
            for name in methods if subject is not None else ():
                if name == "wait_for_block":
                    # has no item to quarantine: its worker is restarted
                    continue
                kind = next((item for item in type(subject).__mro__ if name in vars(item)), None)
                if kind is not None and (kind, name) not in done:
                    done.add((kind, name))
                    yield kind, role, name


def get_operation_name(op: Operation[Any]) -> str:
    """Return the name of an operation, as `name_operation` does."""
    return name_operation(op.steps)


def name_operation(steps: Callable[..., Any]) -> str:
    """Return the name of an operation's function, with its noun: `money.payouts.payouts.claim`."""
    module = steps.__module__.removeprefix("florin_server.")
    noun = ".".join(part for part in module.split(".") if part != "store")
    return f"{noun}.{steps.__name__}"


def _wrap_store_method(injector: FaultInjector, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    async def call_method(self: Store, op: Operation[Any]) -> Any:
        name = get_operation_name(op)
        if not name.startswith(_QUARANTINE_PREFIX):
            injector.record_pass(name, _get_arguments(op))
        return await method(self, op)

    return call_method


def _wrap_rail_method(
    injector: FaultInjector, point: str, method: Callable[..., Any]
) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def called(self: Any, *args: Any, **kwargs: Any) -> Any:
            injector.record_pass(point, (args, kwargs))
            return await method(self, *args, **kwargs)

        called.is_watched = True  # type: ignore[attr-defined]
        return called

    @wraps(method)
    def called_at_once(self: Any, *args: Any, **kwargs: Any) -> Any:
        injector.record_pass(point, (args, kwargs))
        return method(self, *args, **kwargs)

    called_at_once.is_watched = True  # type: ignore[attr-defined]
    return called_at_once


def _get_arguments(op: Operation[Any]) -> tuple[Any, Any]:
    return op._args, op._kwargs  # noqa: SLF001  (no public accessor)


def list_texts(value: object) -> Iterator[str]:
    """Yield every text in a value, however deep."""
    return (item for item in _list_values(value) if isinstance(item, str))


def _list_values(value: object, depth: int = 6) -> Iterator[object]:
    """Yield the texts and operations in a value."""
    if isinstance(value, str | Operation):
        yield value
    if depth:
        for part in _list_parts(value):
            yield from _list_values(part, depth - 1)


def _list_parts(value: object) -> Iterable[object]:
    """Return the parts of a value; nothing for numbers, bytes and the like."""
    kind = type(value)
    if kind in _PLAIN:
        return ()
    if kind in _SEQUENCES:
        return cast("Iterable[object]", value)
    if isinstance(value, Operation):
        return _get_arguments(value)
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    return [getattr(value, name, None) for name in _field_names(kind)]


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()
