"""Subscriptions to notifications within a process."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable

from florin_server.base.topics import Topic


class Subscriptions:
    """Subscribers of this process, by topic and key; a blank key stands for every notification."""

    def __init__(self) -> None:
        self._subscribers: dict[Topic, dict[str, dict[int, Callable[[], None]]]] = {
            topic: {} for topic in Topic
        }
        self._numbers = itertools.count()

    def subscribe(
        self, topic: Topic, subscriber: Callable[[], None] | asyncio.Event, key: str = ""
    ) -> Callable[[], None]:
        """Call a function, or set an event, whenever the topic's key is notified.

        Return what ends the subscription. A subscriber neither raises nor ends subscriptions.
        """
        by_key, number = self._subscribers[topic], next(self._numbers)
        subscribers = by_key.setdefault(key, {})
        subscribers[number] = (
            subscriber.set if isinstance(subscriber, asyncio.Event) else subscriber
        )

        def unsubscribe() -> None:
            subscribers.pop(number, None)
            if not subscribers and by_key.get(key) is subscribers:
                del by_key[key]

        return unsubscribe

    def notify(self, topic: Topic, key: str = "") -> None:
        """Notify this process's subscribers of a key, and those of the topic's every key."""
        by_key = self._subscribers[topic]
        if subscribers := by_key.get(""):
            for call in subscribers.values():
                call()
        if key and (subscribers := by_key.get(key)):
            for call in subscribers.values():
                call()

    def notify_all(self, topic: Topic) -> None:
        """Notify this process's subscribers of any key."""
        for subscribers in self._subscribers[topic].values():
            for call in subscribers.values():
                call()

    def list_keys(self, topic: Topic) -> list[str]:
        """Return the subscribed keys, without the blank one."""
        return [key for key in self._subscribers[topic] if key]

    def filter_keys(self, topic: Topic, keys: Iterable[str]) -> set[str]:
        """Return the keys that have subscribers, and the blank one if it has any."""
        return self._subscribers[topic].keys() & {"", *keys}
