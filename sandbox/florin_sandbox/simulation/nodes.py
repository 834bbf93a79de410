"""JSON-RPC clients of the embedded chains, with the faults that only a sandbox supports."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import orjson

RpcHandler = Callable[[bytes], Awaitable[bytes]]


class NodeRefusal(Exception):  # noqa: N818  (an answer of a node)
    """An error that a node returned."""


class SandboxNode:
    """JSON-RPC client of an embedded chain in this process."""

    def __init__(self, handle: RpcHandler) -> None:
        self._handle = handle

    async def call(self, method: str, *params: Any) -> Any:
        """Return the result of one call; NodeRefusal if the node returns an error."""
        (result,) = await self.call_batch([(method, params)])
        return result

    async def call_batch(self, calls: Sequence[tuple[str, Sequence[Any]]]) -> list[Any]:
        """Return the results of one batch, in its order; NodeRefusal at the first error."""
        if not calls:
            return []
        payload = orjson.dumps(
            [
                {"jsonrpc": "2.0", "id": n, "method": method, "params": list(params)}
                for n, (method, params) in enumerate(calls)
            ]
        )
        answers = sorted(orjson.loads(await self._handle(payload)), key=lambda item: item["id"])
        for (method, _), answer in zip(calls, answers, strict=True):
            if "error" in answer:
                raise NodeRefusal(f"{method}: {answer['error']}")
        return [each_answer["result"] for each_answer in answers]

    async def arm_fault(self, kind: str, **options: Any) -> Any:
        """Inject a fault into the chain."""
        return await self.call("florin_fault", {"kind": kind, **options})
