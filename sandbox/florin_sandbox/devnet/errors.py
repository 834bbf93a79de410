"""Errors of the embedded chain."""

from __future__ import annotations

from typing import Any

from florin_server.app.home import SetupError


class DevChainError(SetupError):
    """The chain cannot be opened or has stopped; the text says why and what to do."""


class RpcFault(Exception):  # noqa: N818  (an answer to the caller, not a mistake of ours)
    """A JSON-RPC error, with the codes and texts of the node software that it imitates."""

    def __init__(self, message: str, code: int = -32000, data: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.data = data


def invalid_params_fault(message: str) -> RpcFault:
    """Return the fault for arguments that do not fit the method."""
    return RpcFault(message, -32602)
