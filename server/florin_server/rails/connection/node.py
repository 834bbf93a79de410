"""Calls to a node of any kind of chain.

A refused call raises RailUnavailable: it answers nothing about the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from florin_server.rails.connection.jsonrpc import ChainRpc, RpcCall, RpcError
from florin_server.rails.types import RailUnavailable


class ChainNode:
    """The node of one chain, of any kind."""

    def __init__(self, rpc: ChainRpc) -> None:
        self.rpc = rpc

    async def call(self, method: str, *params: Any) -> Any:
        """Return the result of one call; raise RailUnavailable if the node refuses it."""
        try:
            return await self.rpc.call(method, *params)
        except RpcError as refusal:
            raise RailUnavailable(f"{method}: {refusal}") from refusal

    async def batch(self, calls: Sequence[RpcCall]) -> list[Any]:
        """Return the result or the RpcError of each call."""
        return await self.rpc.batch(calls)


def require_result(answer: Any) -> Any:
    """Return the result of a batched call; raise RailUnavailable if the node refused it."""
    if isinstance(answer, RpcError):
        raise RailUnavailable(f"the node refused a call: {answer}") from answer
    return answer
