"""Idempotency keys: their fingerprints, and locks for wallet calls that a key only guards."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from florin.v1 import access_pb2
from google.protobuf.message import Message

from florin_server.api.server.key_leases import KeyLeases, make_in_flight_error
from florin_server.api.server.methods import MethodSpec
from florin_server.db.context import StorageContext
from florin_server.domain.accounts.caller import Caller, IdempotencyKey
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.refusals import missing_idempotency_key_error
from florin_server.idempotency.store import responses as idempotency
from florin_server.idempotency.store.responses import IdempotencyClaim
from florin_server.limits.context import LimitContext
from florin_server.settings.context import SettingsContext


class _Context(LimitContext, SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_KEY_CHARS_MAX = 255
_KEY_PERMANENT = access_pb2.IDEMPOTENCY_RULE_PERMANENT
_KEY_REQUIRED = frozenset({access_pb2.IDEMPOTENCY_RULE_REQUIRED, _KEY_PERMANENT})
# without a deadline, a call waits for an equal one as long as calls of the REST gateway do
_WAIT_S = 30.0
# time for an error to reach its caller before the deadline
_MARGIN_S = 0.2


def build_idempotency_key(
    method: MethodSpec, caller: Caller, text: str | None, request: Message
) -> IdempotencyKey | None:
    """Return the key of a call with its scope and fingerprint; None if the call has no key.

    Raise ApiError if a required key is missing, or a key is too long. The fingerprint covers the
    parsed request, so REST and gRPC share it.
    """
    if not text:
        if method.rule.idempotency in _KEY_REQUIRED:
            raise missing_idempotency_key_error(wcp_profile=caller.wcp_profile)
        return None
    if len(text) > _KEY_CHARS_MAX:
        raise ApiError(ErrorCode.INVALID_PARAMS, "Idempotency-Key is longer than 255 characters")
    mode = "live" if caller.live else "test"
    if method.is_key_guarded:
        scope = f"guard/{caller.credential}/{mode}"
    else:
        merchant = caller.merchant.id if caller.merchant else ""
        scope = f"{caller.partner_id}/{merchant}/{mode}"
    body = request.SerializeToString(deterministic=True)
    fingerprint = hashlib.sha256(method.name.encode() + b"\0" + body).digest()
    return IdempotencyKey(scope, text, fingerprint, method.rule.idempotency == _KEY_PERMANENT)


class _KeyLock:
    """The lock of one key, and the fingerprint that was found when it was taken."""

    __slots__ = ("fingerprint", "lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0
        self.fingerprint: bytes | None = None


class IdempotencyLocks:
    """Locks by idempotency key: a different request is refused, equal requests run in sequence.

    The first success binds a key. One instance serves all listeners of a process. If other
    processes use the store too, a lease in the store excludes them while this process runs.
    """

    def __init__(self, app: _Context) -> None:
        self._app = app
        self._locks: dict[tuple[str, str], _KeyLock] = {}
        self._leases: KeyLeases | None = None
        if app.limit_sync is not None:
            self._leases = KeyLeases(app.store, app.clock, app.limit_sync.process_id)

    @property
    def call_count(self) -> int:
        """Return the number of calls that have a lock or wait for it."""
        return sum(turn.users for turn in self._locks.values())

    async def acquire(self, key: IdempotencyKey, remaining_s: float | None) -> None:
        """Wait for the lock of a call; `run` releases it, or `leave` without any work.

        Raise ApiError(idempotency_conflict) if the calls before it take longer than its deadline.
        """
        seconds = _WAIT_S if remaining_s is None else max(0.0, remaining_s - _MARGIN_S)
        until = asyncio.get_running_loop().time() + seconds
        turn = self._locks.setdefault((key.scope, key.key), _KeyLock())
        turn.users += 1
        try:
            async with asyncio.timeout_at(until):
                await turn.lock.acquire()
        except TimeoutError:
            self._remove_user(key, turn)
            raise make_in_flight_error() from None
        except BaseException:
            self._remove_user(key, turn)
            raise
        try:
            turn.fingerprint = await self._acquire_lease(key, until)
        except BaseException:
            self.release(key)
            raise

    async def run_locked(
        self, key: IdempotencyKey, work: Callable[[], Awaitable[Any]], caller: Caller
    ) -> Any:
        """Run the work with the lock taken; raise ApiError if the key is bound to another request.

        Failed work leaves the key unchanged and counts for nothing. Raise ApiError(rate_limited) if
        a public App-Id has stored too many new keys.
        """
        try:
            bound_fingerprint = self._locks[key.scope, key.key].fingerprint
            if bound_fingerprint not in (None, key.fingerprint):
                raise ApiError(ErrorCode.IDEMPOTENCY_CONFLICT, details={"reason": "different_body"})
            result = await (work() if bound_fingerprint else self._run_counted(work, caller))
            if bound_fingerprint is None:
                await self._bind_key(key)
            return result
        finally:
            self.release(key)

    async def _run_counted(self, work: Callable[[], Awaitable[Any]], caller: Caller) -> Any:
        """Run the work under a new key, counted first: concurrent calls share the limit."""
        if caller.app is None:
            return await work()
        self._app.limits.count_idempotency_key(caller.network)
        try:
            return await work()
        except BaseException:
            self._app.limits.release_idempotency_key(caller.network)
            raise

    def release(self, key: IdempotencyKey) -> None:
        """Release a lock that was taken."""
        turn = self._locks[key.scope, key.key]

        def over() -> None:
            turn.lock.release()
            self._remove_user(key, turn)

        if self._leases is None:
            over()
        else:
            self._leases.release(key.scope, key.key, over)

    async def _acquire_lease(self, key: IdempotencyKey, until: float) -> bytes | None:
        """Exclude other processes, if they share the store; return the fingerprint of the key."""
        if self._leases is not None:
            return await self._leases.acquire(self._build_claim(key), until)
        now_us = self._app.clock.now_us()
        return await self._app.store.read(idempotency.find_fingerprint(key.scope, key.key, now_us))

    async def _bind_key(self, key: IdempotencyKey) -> None:
        claim = self._build_claim(key)
        if self._leases is not None:
            await self._leases.bind(claim)
        else:
            await self._app.store.write(idempotency.bind(claim))

    def _build_claim(self, key: IdempotencyKey) -> IdempotencyClaim:
        now_us, ttl_us = self._app.clock.now_us(), self._app.settings.idempotency_ttl_s * 1_000_000
        return IdempotencyClaim(key.scope, key.key, key.fingerprint, now_us, ttl_us)

    def _remove_user(self, key: IdempotencyKey, key_lock: _KeyLock) -> None:
        key_lock.users -= 1
        if not key_lock.users:
            del self._locks[key.scope, key.key]
