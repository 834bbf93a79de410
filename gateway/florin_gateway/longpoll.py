"""Long polls: an answer that is held until it changes, stood on the stream that tells of changes.

A read is held until its status differs from the first one seen; a call that acted (confirm) is
held until the status is final. When time is up, or the gateway stops, the last one seen is told.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import grpc

from florin_gateway.hold import End, Hold, Receive
from florin_gateway.routes import PollPlan
from florin_gateway.rpc import CallError, Messages, Metadata

# a key that was revoked, or an account that was suspended, while the answer was held
_REFUSED = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED})


class Held(NamedTuple):
    """What a poll saw last, if anything, and whether its client is still there."""

    answer: Any | None
    metadata: Metadata
    client_gone: bool


async def hold_answer(
    plan: PollPlan,
    messages: Messages,
    seen: Any | None,
    *,
    receive: Receive,
    seconds: float,
    held: set[Hold],
) -> Held:
    """Read the stream until there is an answer; it is closed on every way out.

    `seen` is the answer that the caller has already. A stream that fails after an answer was seen
    costs nothing but the wait, unless the caller is refused from now on.
    """
    first, last = seen, seen
    metadata: Metadata = ()
    try:
        with Hold(receive, seconds=seconds, held=held) as wait:
            async for message in messages:
                answer = plan.answer_in(message)
                metadata = metadata or await messages.metadata()
                last = answer
                if answer.is_final:
                    break
                if first is None:
                    first = answer
                elif not plan.until_final and answer.status != first.status:
                    break
    except CallError as failure:
        if last is None or failure.code in _REFUSED:
            raise
    finally:
        await messages.close()
    return Held(last, metadata, wait.end is End.CLIENT_GONE)
