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
from florin_server.rpc.server.turns import Turns, in_flight
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
    """Whose turn it is under one key, and the fingerprint that was found when it was taken."""

    __slots__ = ("known", "lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0
        self.known: bytes | None = None


class Guards:
    """Keys that refuse another request; equal ones under a key come one after the other.

    A key is bound by the first success. One instance serves all listeners of a process. Where
    other processes have the store too, a turn in the store keeps them away, so long as this one
    lives.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._turns: dict[tuple[str, str], _Turn] = {}
        self._shared: Turns | None = None
        if app.sharing is not None:
            self._shared = Turns(app.store, app.clock, app.sharing.process)

    @property
    def calls(self) -> int:
        """How many calls have their turn under a key, or wait for it."""
        return sum(turn.users for turn in self._turns.values())

    async def take(self, key: IdempotencyKey, remaining_s: float | None) -> None:
        """Waits for the turn of a call; `run` gives it back, or `leave` without any work.

        FlorinError(idempotency_conflict) if the calls before it take longer than it has time.
        """
        seconds = _PATIENCE_S if remaining_s is None else max(0.0, remaining_s - _MARGIN_S)
        until = asyncio.get_running_loop().time() + seconds
        turn = self._turns.setdefault((key.scope, key.key), _Turn())
        turn.users += 1
        try:
            async with asyncio.timeout_at(until):
                await turn.lock.acquire()
        except TimeoutError:
            self._left(key, turn)
            raise in_flight() from None
        except BaseException:
            self._left(key, turn)
            raise
        try:
            turn.known = await self._begin(key, until)
        except BaseException:
            self.leave(key)
            raise

    async def run(
        self, key: IdempotencyKey, work: Callable[[], Awaitable[Any]], caller: Caller
    ) -> Any:
        """Does the work in the turn that was taken; FlorinError if the key means another request.

        Work that fails leaves the key as it was, and counts for nothing. FlorinError(rate_limited)
        if a public App-Id has had too many new keys kept.
        """
        try:
            known = self._turns[key.scope, key.key].known
            if known not in (None, key.fingerprint):
                raise FlorinError(Code.IDEMPOTENCY_CONFLICT, details={"reason": "different_body"})
            result = await (work() if known else self._counted(work, caller))
            if known is None:
                await self._bind(key)
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

        def over() -> None:
            turn.lock.release()
            self._left(key, turn)

        if self._shared is None:
            over()
        else:
            self._shared.give_back(key.scope, key.key, over)

    async def _begin(self, key: IdempotencyKey, until: float) -> bytes | None:
        """Begins a turn in which no other process works; answers what the key stands for."""
        if self._shared is not None:
            return await self._shared.take(self._claim(key), until)
        now_us = self._app.clock.now_us()
        return await self._app.store.read(idempotency.find(key.scope, key.key, now_us))

    async def _bind(self, key: IdempotencyKey) -> None:
        claim = self._claim(key)
        if self._shared is not None:
            await self._shared.bind(claim)
        else:
            await self._app.store.write(idempotency.guard(claim))

    def _claim(self, key: IdempotencyKey) -> Claim:
        now_us, ttl_us = self._app.clock.now_us(), self._app.settings.idempotency_ttl_s * 1_000_000
        return Claim(key.scope, key.key, key.fingerprint, now_us, ttl_us)

    def _left(self, key: IdempotencyKey, turn: _Turn) -> None:
        turn.users -= 1
        if not turn.users:
            del self._turns[key.scope, key.key]
