"""Responses that can be stored responses of an idempotency key."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from google.protobuf.message import Message

from florin_server.api.server.call import current_call
from florin_server.idempotency.store.responses import StoredResponse

_T = TypeVar("_T")
_M = TypeVar("_M", bound=Message)


def make_response_encoder(build: Callable[[_T], Message]) -> Callable[[_T], bytes]:
    """Return an encoder of responses for storage under an idempotency key."""
    return lambda result: build(result).SerializeToString(deterministic=True)


def build_response(
    outcome: _T | StoredResponse, build: Callable[[_T], _M], response_type: type[_M]
) -> _M:
    """Return the response of a service: built from its result, or the stored response."""
    if not isinstance(outcome, StoredResponse):
        return build(outcome)
    current_call.get().is_replay = True
    return response_type.FromString(outcome.body)
