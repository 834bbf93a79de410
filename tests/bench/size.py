"""How much is measured: all of it, or so little that a test can see whether it still works."""

from __future__ import annotations

import os
from typing import TypeVar

# in the environment, because parts of a subject run in processes of their own
SHORT = "FLORIN_BENCH_SHORT"

T = TypeVar("T")


def sized(whole: T, short: T) -> T:
    """What a run measures; a short one tells no figure that means anything."""
    return short if os.environ.get(SHORT) else whole
