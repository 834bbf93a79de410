"""The last uses of API keys: noted in memory with each call, and stored from time to time.

A call only writes to a dictionary. A process stores the uses of all keys in one batch, and those of
one key at most once in five minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from florin_server.accounts.store import key_uses
from florin_server.db.engine.store import Store

WRITE_INTERVAL_US: Final = 300_000_000
# keys that are in use at the same time; a use of a further one is noted after the next batch
KEYS_MAX: Final = 10_000


class KeyUses:
    """The last uses that this process saw, by key id."""

    def __init__(self) -> None:
        self._uses: dict[str, int] = {}
        # the use that was stored, and when
        self._written: dict[str, tuple[int, int]] = {}

    def note(self, key_id: str, now_us: int) -> None:
        """Note that a key is used."""
        if key_id in self._uses or len(self._uses) < KEYS_MAX:
            self._uses[key_id] = now_us

    def merge(self, stored: Mapping[str, int]) -> dict[str, int]:
        """Return the stored uses with those that are later here."""
        uses = {
            key_id: max(used_us, stored.get(key_id, 0)) for key_id, used_us in self._uses.items()
        }
        return {**stored, **uses}

    async def flush(self, store: Store, now_us: int, *, is_last: bool = False) -> None:
        """Store the uses that are due; all of them if it `is_last`."""
        due = {
            key_id: used_us
            for key_id, used_us in self._uses.items()
            if self._is_due(key_id, used_us, now_us, is_last=is_last)
        }
        if due:
            await store.write(key_uses.record_uses(due))
        for key_id, used_us in due.items():
            self._written[key_id] = used_us, now_us
        if len(self._uses) >= KEYS_MAX:
            # those that are still in use come back
            self._uses, self._written = {}, {}

    def _is_due(self, key_id: str, used_us: int, now_us: int, *, is_last: bool) -> bool:
        written_use_us, written_at_us = self._written.get(key_id, (0, 0))
        is_late = is_last or now_us - written_at_us >= WRITE_INTERVAL_US
        return used_us > written_use_us and is_late
