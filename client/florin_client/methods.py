"""Turns what builds a call into a method of a service, with the same arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload

P = ParamSpec("P")
R = TypeVar("R")


class Service:
    """The calls of one service of the protos; `transport` makes them."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport


class Method(Generic[P, R]):
    """A method that hands to the service's transport what `build` makes of its arguments."""

    def __init__(self, build: Callable[P, Any], run: Callable[[Any, Any], R]) -> None:
        self._build = build
        self._run = run
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, service: None, owner: type) -> Self: ...
    @overload
    def __get__(self, service: Service, owner: type) -> Callable[P, R]: ...

    def __get__(self, service: Service | None, owner: type) -> Self | Callable[P, R]:
        """The method of a service."""
        if service is None:
            return self
        build, run, transport = self._build, self._run, service._transport  # noqa: SLF001

        @wraps(build)
        def made(*args: P.args, **kwargs: P.kwargs) -> R:
            return run(transport, build(*args, **kwargs))

        return made
