"""`slotSubscribe` and `rootSubscribe`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from florin_sandbox.devnet.socket import SubscriptionTopic

SlotReader = Callable[[], Awaitable[tuple[int, int]]]
"""Return the newest slot and the newest final slot."""


class _NewSlotsTopic:
    """The newest slot when it changed; slots in between are left out."""

    def __init__(self, look: SlotReader, *, roots: bool) -> None:
        self._look = look
        self._roots = roots
        self._announced = 0

    async def read_news(self) -> list[Any]:
        """Return the changes."""
        slot, root = await self._look()
        newest = root if self._roots else slot
        if newest == self._announced:
            return []
        self._announced = newest
        return [root] if self._roots else [{"slot": slot, "parent": max(0, slot - 1), "root": root}]


class SolanaSubscriptionDialect:
    """Subscriptions in the format of Solana's nodes."""

    def __init__(self, look: SlotReader) -> None:
        self._look = look

    @property
    def subscribe_methods(self) -> frozenset[str]:
        """Return the methods that start a subscription."""
        return frozenset({"slotSubscribe", "rootSubscribe"})

    @property
    def unsubscribe_methods(self) -> frozenset[str]:
        """Return the methods that end a subscription."""
        return frozenset({"slotUnsubscribe", "rootUnsubscribe"})

    def find_topic(self, method: str, params: list[Any]) -> SubscriptionTopic | None:
        """Return the topic of slots, or of final slots."""
        return _NewSlotsTopic(self._look, roots=method == "rootSubscribe") if not params else None

    def format_id(self, number: int) -> Any:
        """Return the number unchanged."""
        return number

    def build_notification(
        self, method: str, subscription_id: Any, result: Any
    ) -> Mapping[str, Any]:
        """Return a notification."""
        notification_method = method.replace("Subscribe", "Notification")
        return {
            "method": notification_method,
            "params": {"subscription": subscription_id, "result": result},
        }
