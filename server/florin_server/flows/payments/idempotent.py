"""Doing something once for each idempotency key, together with storing its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from florin_server.domain.errors import FlorinError
from florin_server.flows.app import App, Caller
from florin_server.store.accounts import standing
from florin_server.store.engine.query import Op, Operation, operation
from florin_server.store.payments import idempotency
from florin_server.store.payments.idempotency import Claim, Replay

_T = TypeVar("_T")


async def once(
    app: App, caller: Caller, work: Operation[_T], answer: Callable[[_T], bytes]
) -> _T | Replay:
    """Runs a store operation, or tells the answer that the caller's key stands for.

    `answer` gives the bytes that are stored under the key, in the same transaction. Faults that are
    found before the operation belong into it (see `failing`): an equal request gets its answer even
    if it would be refused by now. Whoever may not call any more is refused before all that, and is
    told no stored answer either.
    """
    key = caller.idempotency
    claim = None
    if key is not None:
        ttl_us = None if key.permanent else app.settings.idempotency_ttl_s * 1_000_000
        claim = Claim(key.scope, key.key, key.fingerprint, app.clock.now_us(), ttl_us)
    done = idempotency.once(claim, work, answer)
    return await app.store.write(standing.checked(caller.standing, done))


@operation
def failing(fault: FlorinError) -> Op[NoReturn]:
    """An operation that is refused."""
    # makes it a generator: it is refused when it runs
    yield from ()
    raise fault


def unstored(_result: Any) -> bytes:
    """The answer of work that no key stands for."""
    return b""
