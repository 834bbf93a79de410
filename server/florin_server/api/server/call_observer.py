"""Observe calls: report each ended call with its method and status."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

import grpc

from florin_server.api.server.methods import MethodSpec


class CallObservation(Protocol):
    """The observation of one call."""

    def end(self, code: str, answer: Any) -> None:
        """End the observation; `answer` is None if the call was refused, or is a stream."""


CallObserver = Callable[[MethodSpec, Any, Any], CallObservation]
"""Starts the observation of a call, by its method, request and context."""


def observe_unary(
    method: MethodSpec, handler: Callable[[Any, Any], Awaitable[Any]], observe: CallObserver
) -> Callable[[Any, Any], Awaitable[Any]]:
    """Return the handler with an observer around it."""

    async def answer(request: Any, context: Any) -> Any:
        seen, answered, code = observe(method, request, context), None, "CANCELLED"
        try:
            answered = await handler(request, context)
            code = "OK"
        except asyncio.CancelledError:
            raise
        except BaseException:
            code = _get_status_code(context)
            raise
        finally:
            seen.end(code, answered)
        return answered

    return answer


def observe_stream(
    method: MethodSpec, handler: Callable[[Any, Any], AsyncIterator[Any]], observe: CallObserver
) -> Callable[[Any, Any], AsyncIterator[Any]]:
    """Return the stream handler with an observer around it; a caller that leaves ends it well."""

    async def answer(request: Any, context: Any) -> AsyncIterator[Any]:
        seen, code = observe(method, request, context), "OK"
        try:
            async for message in handler(request, context):
                yield message
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException:
            code = _get_status_code(context)
            raise
        finally:
            seen.end(code, None)

    return answer


def _get_status_code(context: Any) -> str:
    """Return the status that a call was refused with."""
    code = context.code()
    if isinstance(code, grpc.StatusCode):
        return code.name
    status_names = {status_code.value[0]: status_code.name for status_code in grpc.StatusCode}
    return status_names.get(code, "UNKNOWN") if code else "UNKNOWN"
