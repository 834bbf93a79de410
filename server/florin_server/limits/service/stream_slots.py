"""One kind of limit of held answers: so many places for each key, with those that others hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import islice

from florin_server.domain.pending_counts import compute_threshold

# of each kind; calls under other keys are not reported, and each process counts them alone
_REPORTED_MAX = 250
# it was reported, but whether the store kept it is unknown
_UNCONFIRMED = -1


class StreamSlots:
    """The number of open calls, by key; a limit of 0 counts nothing.

    `due` is called when changes must be reported to other processes.
    """

    __slots__ = (
        "_limit",
        "_remote_counts",
        "_reported",
        "_share",
        "_shared_keys",
        "counts",
        "kind",
        "on_due",
        "on_refused",
    )

    def __init__(self, kind: str, limit: int, on_refused: Callable[[], None]) -> None:
        self.kind = kind
        self.on_refused = on_refused
        self.on_due: Callable[[], None] = _ignore
        self.counts: Counter[str] = Counter()
        self._limit = limit
        # this many are reported; 0 if the process is alone
        self._share = 0
        self._shared_keys: dict[str, None] = {}
        self._reported: dict[str, int] = {}
        self._remote_counts: Mapping[str, int] = {}

    def take(self, key: str) -> bool:
        """Take a slot; return False if none is free."""
        if not self._limit:
            return True
        count = self.counts[key]
        if count + self._remote_counts.get(key, 0) >= self._limit:
            return False
        self.counts[key] = count + 1
        if self._share and count + 1 >= self._share:
            self._share_key(key, count + 1)
        return True

    def release(self, key: str) -> None:
        """Undo one `take`."""
        if self._limit:
            self.counts[key] -= 1
            if not self.counts[key]:
                del self.counts[key]

    # with other processes
    def set_process_count(self, process_count: int) -> None:
        """Set how many processes share the slots."""
        share = compute_threshold(self._limit, process_count)
        if share != self._share:
            much = (key for key, n in self.counts.items() if share and n >= share)
            self._shared_keys = dict.fromkeys(islice(much, _REPORTED_MAX))
            self._share = share

    def list_shared_keys(self) -> list[str]:
        """Return the keys with so many open calls that they are reported."""
        return list(self._shared_keys)

    def take_changes(self) -> dict[str, int]:
        """Return the differences from the last report; 0 for keys to report no longer.

        Until `record_reported` is called, it is unknown what other processes know of them.
        """
        share, counts = self._share, self.counts
        held = {key: counts[key] for key in self._shared_keys if share and counts[key] >= share}
        self._shared_keys = dict.fromkeys(held)
        gone = dict.fromkeys(self._reported.keys() - held.keys(), 0)
        changed = {key: n for key, n in held.items() if self._reported.get(key) != n}
        self._reported.update(dict.fromkeys(changed, _UNCONFIRMED))
        return gone | changed

    def record_reported(self, changes: Mapping[str, int], *, was_known: bool) -> None:
        """Record that others know these counts; unless we were `was_known` before, only these."""
        if not was_known:
            self._reported.clear()
        for key, n in changes.items():
            if n:
                self._reported[key] = n
            else:
                self._reported.pop(key, None)

    def set_remote_counts(self, remote_counts: Mapping[str, int]) -> None:
        """Store the others' counts of shared keys."""
        self._remote_counts = remote_counts

    def _share_key(self, key: str, count: int) -> None:
        if key not in self._shared_keys and len(self._shared_keys) >= _REPORTED_MAX:
            return
        self._shared_keys[key] = None
        if count >= self._reported.get(key, 0) + self._share:
            self.on_due()


def _ignore() -> None:
    """Do nothing; no other process needs the report."""
