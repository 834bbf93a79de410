"""Convert functions that build calls to methods of a service, with equal arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload

P = ParamSpec("P")
R = TypeVar("R")


class ServiceClient:
    """The calls of one service of the protos; `transport` makes them."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport


class ServiceMethod(Generic[P, R]):
    """A method that builds a call with `build` and passes it to the service's transport."""

    def __init__(self, build: Callable[P, Any], run: Callable[[Any, Any], R]) -> None:
        self._build = build
        self._run = run
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, service: None, owner: type) -> Self: ...
    @overload
    def __get__(self, service: ServiceClient, owner: type) -> Callable[P, R]: ...

    def __get__(self, service: ServiceClient | None, owner: type) -> Self | Callable[P, R]:
        """Return the bound method of a service."""
        if service is None:
            return self
        build, run, transport = self._build, self._run, service._transport  # noqa: SLF001

        @wraps(build)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return run(transport, build(*args, **kwargs))

        return call
