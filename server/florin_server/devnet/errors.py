"""What the embedded chain raises."""

from __future__ import annotations

from typing import Any


class DevChainError(Exception):
    """The chain cannot be opened or has stopped; the text tells why and what to do."""


class RpcFault(Exception):  # noqa: N818  (an answer to the caller, not a mistake of ours)
    """A JSON-RPC error answer, with the codes and texts of the nodes that it plays."""

    def __init__(self, message: str, code: int = -32000, data: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.data = data


def bad_params(message: str) -> RpcFault:
    """The caller's arguments do not fit the method."""
    return RpcFault(message, -32602)
