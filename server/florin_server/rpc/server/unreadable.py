"""Bytes of a gRPC request that are no message of its type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError

from florin_server.domain.errors import Code, FlorinError


class Unreadable:
    """What stands in for a request that cannot be read.

    gRPC would end the call as UNKNOWN, with the name of a Python class, before anybody asked who
    calls: the refusal takes its turn behind the credential.
    """

    @property
    def refusal(self) -> FlorinError:
        """What the caller is answered."""
        text = "Validation error: the request is not a valid message"
        return FlorinError(Code.PARAMS_VALIDATION, text)


def lenient(deserialize: Callable[[bytes], Any] | None) -> Callable[[bytes], Any] | None:
    """Return a deserializer that returns Unreadable for what the other one refuses."""
    if deserialize is None:
        return None

    def read(raw: bytes) -> Any:
        try:
            return deserialize(raw)
        except DecodeError:
            return Unreadable()

    return read
