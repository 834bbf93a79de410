"""Long polls: a response waits until it changes, based on the stream that reports changes.

A read waits until its status differs from the first one seen. A call with an effect waits until
the status is final. When the time is over, or the gateway stops, the last one seen is returned.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import grpc

from grpc_rest_gateway.requestwait import Receive, RequestWait, WaitEnd
from grpc_rest_gateway.routes import PollPlan
from grpc_rest_gateway.rpc import CallError, MessageStream, Metadata

# a key was revoked, or an account suspended, during the poll
_REFUSED_CODES = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED})


class PollResult(NamedTuple):
    """The last response that a poll saw, if any, and whether its client left."""

    response: Any | None
    metadata: Metadata
    is_client_gone: bool


async def poll_response(
    plan: PollPlan,
    messages: MessageStream,
    last_response: Any | None,
    *,
    receive: Receive,
    timeout_s: float,
    waits: set[RequestWait],
) -> PollResult:
    """Read the stream until there is a response; always close the stream.

    `last_response` is the response that the caller already has. A stream that fails after a
    response was seen only ends the wait, unless the caller is refused from now on.
    """
    first, last = last_response, last_response
    metadata: Metadata = ()
    try:
        with RequestWait(receive, timeout_s=timeout_s, waits=waits) as wait:
            async for message in messages:
                answer = plan.get_response(message)
                metadata = metadata or await messages.metadata()
                last = answer
                if answer.is_final:
                    break
                if first is None:
                    first = answer
                elif not plan.waits_until_final and answer.status != first.status:
                    break
    except CallError as failure:
        if last is None or failure.code in _REFUSED_CODES:
            raise
    finally:
        await messages.close()
    return PollResult(last, metadata, wait.end is WaitEnd.CLIENT_GONE)
