"""Attribute processor time to parts of the service by sampling its stack every millisecond.

Unlike a profiler, sampling costs the measured code almost nothing, however often it calls.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

INTERVAL_S = 0.001
OTHER = "other"

# names by path fragments; the innermost call with a matching module decides
Parts = Mapping[str, str]


class PartSampler:
    """A sampler that adds up CPU seconds of the main thread by part, and of other threads by name.

    The main thread's seconds go to the innermost function of a module in `parts`, whose values are
    names. `background` has fragments that decide anywhere on the stack. Only the main thread gets
    signals, so use the sampler there.
    """

    def __init__(self, parts: Parts, background: Parts) -> None:
        self._parts = parts
        self._background = background
        self._part_of: dict[str, str | None] = {}  # by file
        self._background_of: dict[str, str | None] = {}
        self._last_s = 0.0
        self.used_s: Counter[str] = Counter()
        self.threads_s: Counter[str] = Counter()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Sample while the block runs."""
        before = _thread_times()
        usual = signal.signal(signal.SIGPROF, self._sample)
        self._last_s = time.thread_time()
        signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, usual)
            for name, used_s in _thread_times().items():
                self.threads_s[name] += used_s - before.get(name, 0.0)

    def _sample(self, _signal: int, frame: FrameType | None) -> None:
        now_s = time.thread_time()
        self.used_s[self._part(frame)] += now_s - self._last_s
        self._last_s = now_s

    def _part(self, frame: FrameType | None) -> str:
        innermost: str | None = None
        while frame is not None:
            file = frame.f_code.co_filename
            background = _named(self._background_of, self._background, file)
            if background is not None:
                return background
            innermost = innermost or _named(self._part_of, self._parts, file)
            frame = frame.f_back
        return innermost or OTHER


def _named(existing: dict[str, str | None], parts: Parts, file: str) -> str | None:
    if file not in existing:
        existing[file] = next((part for path, part in parts.items() if path in file), None)
    return existing[file]


def _thread_times() -> dict[str, float]:
    """Return the CPU seconds of all threads except the main thread, by name."""
    counter: Counter[str] = Counter()
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and thread.ident is not None:
            clock = time.pthread_getcpuclockid(thread.ident)
            counter[thread.name] += time.clock_gettime(clock)
    return counter
