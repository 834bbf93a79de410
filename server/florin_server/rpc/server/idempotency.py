"""Idempotency keys: what a request stands for, and wallet calls that a key only guards."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

from florin.v1 import access_pb2
from google.protobuf.message import Message

from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.refusals import idempotency_key_missing
from florin_server.flows.app import App, Caller, IdempotencyKey
from florin_server.rpc.server.methods import Method
from florin_server.store.payments import idempotency
from florin_server.store.payments.idempotency import Claim

_CHARS_MAX = 255
_PERMANENT = access_pb2.IDEMPOTENCY_RULE_PERMANENT
_DEMANDED = frozenset({access_pb2.IDEMPOTENCY_RULE_REQUIRED, _PERMANENT})
# a call without a deadline waits for an equal one as long as the REST gateway's calls do
_PATIENCE_S = 30.0
# what a refusal needs to reach its caller before the deadline does
_MARGIN_S = 0.2


def key_of(
    method: Method, caller: Caller, text: str | None, request: Message
) -> IdempotencyKey | None:
    """The key of a call with its scope and what it stands for; None if the call has none.

    FlorinError if it is missing where it is demanded, or too long. The fingerprint is that of the
    parsed request, so REST and gRPC share it.
    """
    if not text:
        if method.rule.idempotency in _DEMANDED:
            raise idempotency_key_missing(wcp_profile=caller.wcp_profile)
        return None
    if len(text) > _CHARS_MAX:
        raise FlorinError(Code.INVALID_PARAMS, "Idempotency-Key is longer than 255 characters")
    mode = "live" if caller.live else "test"
    if method.guarded:
        scope = f"guard/{caller.credential}/{mode}"
    else:
        merchant = caller.merchant.id if caller.merchant else ""
        scope = f"{caller.partner_id}/{merchant}/{mode}"
    body = request.SerializeToString(deterministic=True)
    fingerprint = hashlib.sha256(method.name.encode() + b"\0" + body).digest()
    return IdempotencyKey(scope, text, fingerprint, method.rule.idempotency == _PERMANENT)


class _Turn:
    """Whose turn it is under one key."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class Guards:
    """Keys that refuse another request; equal ones under a key come one after the other.

    A key is bound by the first success. One instance serves all listeners of a process.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._turns: dict[tuple[str, str], _Turn] = {}

    @property
    def calls(self) -> int:
        """How many calls have their turn under a key, or wait for it."""
        return sum(turn.users for turn in self._turns.values())

    async def take(self, key: IdempotencyKey, remaining_s: float | None) -> None:
        """Waits for the turn of a call; `run` gives it back, or `leave` without any work.

        FlorinError(idempotency_conflict) if the calls before it take longer than it has time.
        """
        seconds = _PATIENCE_S if remaining_s is None else max(0.0, remaining_s - _MARGIN_S)
        turn = self._turns.setdefault((key.scope, key.key), _Turn())
        turn.users += 1
        try:
            async with asyncio.timeout(seconds):
                await turn.lock.acquire()
        except TimeoutError:
            self._left(key, turn)
            raise FlorinError(
                Code.IDEMPOTENCY_CONFLICT,
                "A request under this key is still running",
                details={"reason": "in_flight"},
                retry_after_s=1,
                like=Code.VERSION_CONFLICT,
            ) from None
        except BaseException:
            self._left(key, turn)
            raise

    async def run(
        self, key: IdempotencyKey, work: Callable[[], Awaitable[Any]], caller: Caller
    ) -> Any:
        """Does the work in the turn that was taken; FlorinError if the key means another request.

        Work that fails leaves the key as it was, and counts for nothing. FlorinError(rate_limited)
        if a public App-Id has had too many new keys kept.
        """
        try:
            now_us = self._app.clock.now_us()
            known = await self._app.store.read(idempotency.find(key.scope, key.key, now_us))
            if known not in (None, key.fingerprint):
                raise FlorinError(Code.IDEMPOTENCY_CONFLICT, details={"reason": "different_body"})
            result = await (work() if known else self._counted(work, caller))
            if known is None:
                ttl_us = self._app.settings.idempotency_ttl_s * 1_000_000
                claim = Claim(key.scope, key.key, key.fingerprint, now_us, ttl_us)
                await self._app.store.write(idempotency.guard(claim))
            return result
        finally:
            self.leave(key)

    async def _counted(self, work: Callable[[], Awaitable[Any]], caller: Caller) -> Any:
        """Does the work under a new key, which is counted first: calls at once share the limit."""
        if caller.app is None:
            return await work()
        self._app.limits.guard(caller.network)
        try:
            return await work()
        except BaseException:
            self._app.limits.unguard(caller.network)
            raise

    def leave(self, key: IdempotencyKey) -> None:
        """Gives back a turn that was taken."""
        turn = self._turns[key.scope, key.key]
        turn.lock.release()
        self._left(key, turn)

    def _left(self, key: IdempotencyKey, turn: _Turn) -> None:
        turn.users -= 1
        if not turn.users:
            del self._turns[key.scope, key.key]
