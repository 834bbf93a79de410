"""Values that are good enough for a while, a bounded number of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Recent(Generic[_T]):
    """Remembers values for `age_us` microseconds; the `size` that were used last stay."""

    def __init__(self, size: int, age_us: int) -> None:
        self._size = size
        self._age_us = age_us
        self._kept: OrderedDict[Hashable, tuple[int, _T]] = OrderedDict()

    def get(self, key: Hashable, now_us: int) -> _T | None:
        """The value, if it is there and not too old."""
        entry = self._kept.get(key)
        # a value from the future was kept before the clock was set back: its age is unknown
        if entry is None or not 0 <= now_us - entry[0] <= self._age_us:
            return None
        self._kept.move_to_end(key)
        return entry[1]

    def keep(self, key: Hashable, value: _T, now_us: int) -> None:
        """Remembers a value as it is now."""
        self._kept[key] = (now_us, value)
        self._kept.move_to_end(key)
        if len(self._kept) > self._size:
            self._kept.popitem(last=False)

    def drop(self, key: Hashable) -> None:
        """Forgets a value that is not good any more."""
        self._kept.pop(key, None)
