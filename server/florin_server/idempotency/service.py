"""Doing something once for each idempotency key, together with storing its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Protocol, TypeVar

from florin_server.accounts.store import credential_checks
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, Operation, operation
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.errors import ApiError
from florin_server.idempotency.store import responses as idempotency
from florin_server.idempotency.store.responses import IdempotencyClaim, StoredResponse
from florin_server.settings.context import SettingsContext


class _Context(SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_T = TypeVar("_T")


async def run_once(
    app: _Context, caller: Caller, op: Operation[_T], encode_response: Callable[[_T], bytes]
) -> _T | StoredResponse:
    """Run a store operation, or return the stored response of the caller's key.

    `encode_response` returns the bytes that are stored under the key, in the same transaction.
    Faults that are found before the operation belong into it (see `fail_with`): an equal request
    gets its response even if it would be refused by now. A caller that is no longer allowed is
    refused before that, and gets no stored response either.
    """
    key = caller.idempotency_key
    claim = None
    if key is not None:
        ttl_us = None if key.permanent else app.settings.idempotency_ttl_s * 1_000_000
        claim = IdempotencyClaim(key.scope, key.key, key.fingerprint, app.clock.now_us(), ttl_us)
    done = idempotency.run_once(claim, op, encode_response)
    return await app.store.write(credential_checks.run_if_active(caller.credential_status, done))


@operation
def fail_with(error: ApiError) -> Op[NoReturn]:
    """Return an operation that is refused."""
    # makes it a generator: it is refused when it runs
    yield from ()
    raise error


def discard_response(_result: Any) -> bytes:
    """Return no bytes: the response of work without a key is not stored."""
    return b""
