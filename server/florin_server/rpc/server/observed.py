"""Who looks at calls: told of each when it is over, by its method and the status it ended with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

import grpc

from florin_server.rpc.server.methods import Method


class Observation(Protocol):
    """One call as somebody looks at it."""

    def end(self, code: str, answer: Any) -> None:
        """The call is over; `answer` is None if it was refused, or a stream."""


Observe = Callable[[Method, Any, Any], Observation]
"""Begins to look at a call, by its method, its request and its context."""


def unary(
    method: Method, inner: Callable[[Any, Any], Awaitable[Any]], observe: Observe
) -> Callable[[Any, Any], Awaitable[Any]]:
    """A handler that does the same, and is looked at."""

    async def answer(request: Any, context: Any) -> Any:
        seen, answered, code = observe(method, request, context), None, "CANCELLED"
        try:
            answered = await inner(request, context)
            code = "OK"
        except asyncio.CancelledError:
            raise
        except BaseException:
            code = _code(context)
            raise
        finally:
            seen.end(code, answered)
        return answered

    return answer


def stream(
    method: Method, inner: Callable[[Any, Any], AsyncIterator[Any]], observe: Observe
) -> Callable[[Any, Any], AsyncIterator[Any]]:
    """The same of a stream; who leaves it has ended it well."""

    async def answer(request: Any, context: Any) -> AsyncIterator[Any]:
        seen, code = observe(method, request, context), "OK"
        try:
            async for message in inner(request, context):
                yield message
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException:
            code = _code(context)
            raise
        finally:
            seen.end(code, None)

    return answer


def _code(context: Any) -> str:
    """The status that a call was refused with."""
    code = context.code()
    if isinstance(code, grpc.StatusCode):
        return code.name
    known = {one.value[0]: one.name for one in grpc.StatusCode}
    return known.get(code, "UNKNOWN") if code else "UNKNOWN"
