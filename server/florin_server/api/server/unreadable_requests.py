"""Placeholder for gRPC requests whose bytes are not a message of their type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError

from florin_server.domain.errors import ApiError, ErrorCode


class UnreadableRequest:
    """Placeholder for a request that cannot be parsed.

    gRPC would end the call as UNKNOWN, with the name of a Python class, before any check of the
    caller: the error must come after the credential checks.
    """

    @property
    def refusal(self) -> ApiError:
        """Return the error for the caller."""
        text = "Validation error: the request is not a valid message"
        return ApiError(ErrorCode.PARAMS_VALIDATION, text)


def make_lenient_deserializer(
    deserialize: Callable[[bytes], Any] | None,
) -> Callable[[bytes], Any] | None:
    """Return a deserializer that returns UnreadableRequest for bytes that `deserialize` refuses."""
    if deserialize is None:
        return None

    def read(raw: bytes) -> Any:
        try:
            return deserialize(raw)
        except DecodeError:
            return UnreadableRequest()

    return read
