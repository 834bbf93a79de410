"""Values that are good enough for a while, a bounded number of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class TtlCache(Generic[_T]):
    """Remembers values for `age_us` microseconds; the `size` that were used last stay."""

    def __init__(self, size: int, age_us: int) -> None:
        self._size = size
        self._age_us = age_us
        self._entries: OrderedDict[Hashable, tuple[int, _T]] = OrderedDict()

    def get(self, key: Hashable, now_us: int) -> _T | None:
        """Return the value, if it is there and not too old."""
        entry = self._entries.get(key)
        # a value from the future was stored before the clock was set back: its age is unknown
        if entry is None or not 0 <= now_us - entry[0] <= self._age_us:
            return None
        self._entries.move_to_end(key)
        return entry[1]

    def put(self, key: Hashable, value: _T, now_us: int) -> None:
        """Remember a value as it is now."""
        self._entries[key] = (now_us, value)
        self._entries.move_to_end(key)
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)

    def remove(self, key: Hashable) -> None:
        """Forget a value that is not good any more."""
        self._entries.pop(key, None)
