"""Choose the size of a measurement: the whole, or a short form for tests."""

from __future__ import annotations

import os
from typing import TypeVar

# in the environment, because parts of a subject run in separate processes
SHORT = "FLORIN_BENCH_SHORT"

T = TypeVar("T")


def sized(total: T, short: T) -> T:
    """Return a run's size; figures of a short run mean nothing."""
    return short if os.environ.get(SHORT) else total
