"""Answers that may be repeated ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from google.protobuf.message import Message

from florin_server.rpc.server.call import CALL
from florin_server.store.payments.idempotency import Replay

_T = TypeVar("_T")
_M = TypeVar("_M", bound=Message)


def stored(build: Callable[[_T], Message]) -> Callable[[_T], bytes]:
    """The answer as it is stored under an idempotency key."""
    return lambda result: build(result).SerializeToString(deterministic=True)


def answer(outcome: _T | Replay, build: Callable[[_T], _M], kind: type[_M]) -> _M:
    """The answer of a flow: built from its result, or the one that is stored."""
    if not isinstance(outcome, Replay):
        return build(outcome)
    CALL.get().replayed = True
    return kind.FromString(outcome.body)
