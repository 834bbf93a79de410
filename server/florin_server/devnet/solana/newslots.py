"""`slotSubscribe` and `rootSubscribe`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from florin_server.devnet.socket import Topic

Look = Callable[[], Awaitable[tuple[int, int]]]
"""The newest slot and the newest final one."""


class _NewSlots:
    """The newest slot when it changed; those in between are left out."""

    def __init__(self, look: Look, *, roots: bool) -> None:
        self._look = look
        self._roots = roots
        self._told = 0

    async def news(self) -> list[Any]:
        """What changed."""
        slot, root = await self._look()
        newest = root if self._roots else slot
        if newest == self._told:
            return []
        self._told = newest
        return [root] if self._roots else [{"slot": slot, "parent": max(0, slot - 1), "root": root}]


class SolanaDialect:
    """Subscriptions as Solana's nodes have them."""

    def __init__(self, look: Look) -> None:
        self._look = look

    @property
    def subscribe(self) -> frozenset[str]:
        """Methods that begin a subscription."""
        return frozenset({"slotSubscribe", "rootSubscribe"})

    @property
    def unsubscribe(self) -> frozenset[str]:
        """Methods that end one."""
        return frozenset({"slotUnsubscribe", "rootUnsubscribe"})

    def topic(self, method: str, params: list[Any]) -> Topic | None:
        """Slots, or final ones."""
        return _NewSlots(self._look, roots=method == "rootSubscribe") if not params else None

    def name(self, number: int) -> Any:
        """A number."""
        return number

    def message(self, method: str, name: Any, result: Any) -> Mapping[str, Any]:
        """A notification."""
        told = method.replace("Subscribe", "Notification")
        return {"method": told, "params": {"subscription": name, "result": result}}
