"""Keeps the garbage collector off what start-up leaves behind.

Libraries fill the heap with objects that live as long as the process. Walking them in every full
collection costs a created payment about a fifth of its time, and the imports an eighth.
"""

from __future__ import annotations

import gc

_YOUNG, _MIDDLE, _OLD = 50_000, 20, 50  # allocations, then collections, between collections


def collect_rarely() -> None:
    """Collects less often from now on; modules that are imported leave little to collect."""
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)


def keep() -> None:
    """Sets apart what is there now: it stays as long as the process."""
    gc.collect()
    gc.freeze()
