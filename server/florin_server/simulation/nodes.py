"""The embedded chains as everybody may ask them, and what only a sandbox can do to them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import orjson

Handle = Callable[[bytes], Awaitable[bytes]]


class NodeRefused(Exception):  # noqa: N818  (an answer of a node)
    """A node's own refusal."""


class Node:
    """JSON-RPC of one chain of this process."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def ask(self, method: str, *params: Any) -> Any:
        """The result of one call; NodeRefused if there is none."""
        (found,) = await self.ask_all([(method, params)])
        return found

    async def ask_all(self, calls: Sequence[tuple[str, Sequence[Any]]]) -> list[Any]:
        """The results of one batch, in its order."""
        if not calls:
            return []
        payload = orjson.dumps(
            [
                {"jsonrpc": "2.0", "id": n, "method": method, "params": list(params)}
                for n, (method, params) in enumerate(calls)
            ]
        )
        answers = sorted(orjson.loads(await self._handle(payload)), key=lambda one: one["id"])
        for (method, _), one in zip(calls, answers, strict=True):
            if "error" in one:
                raise NodeRefused(f"{method}: {one['error']}")
        return [one["result"] for one in answers]

    async def fault(self, kind: str, **options: Any) -> Any:
        """Something goes wrong on purpose."""
        return await self.ask("florin_fault", {"kind": kind, **options})
