"""Asking a node of any kind of chain.

A refused answer is RailUnavailable: it tells nothing about what was asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from florin_server.rails.connection.jsonrpc import Call, Rpc, RpcError
from florin_server.rails.types import RailUnavailable


class AnyNode:
    """One chain's node, of whatever kind."""

    def __init__(self, rpc: Rpc) -> None:
        self.rpc = rpc

    async def ask(self, method: str, *params: Any) -> Any:
        """The result of one call; a refusal is RailUnavailable."""
        try:
            return await self.rpc.call(method, *params)
        except RpcError as refusal:
            raise RailUnavailable(f"{method}: {refusal}") from refusal

    async def batch(self, calls: Sequence[Call]) -> list[Any]:
        """A result or an RpcError for each call."""
        return await self.rpc.batch(calls)


def answered(answer: Any) -> Any:
    """The result of a batched call that must not be refused."""
    if isinstance(answer, RpcError):
        raise RailUnavailable(f"the node refused a call: {answer}") from answer
    return answer
