"""Failed sign-ins to the consoles, counted so that no stranger can fill the audit log.

Each minute has at most one entry per address. Above some entries an hour, one entry a minute stands
for all addresses.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from florin_server.db.context import StorageContext
from florin_server.domain.audit import (
    Actor,
    ActorKind,
    AuditAction,
    AuditChange,
    AuditChannel,
    AuditObject,
    list_changes,
)
from florin_server.operations.service.audit_log import record_now

ENTRIES_PER_HOUR: Final = 60
# in a minute; the failures of further ones are counted together
ADDRESSES_MAX: Final = 20
_HOUR_US: Final = 3_600_000_000


class SignInFailures:
    """The failures that this process has not recorded yet, by console and address."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._hour = 0
        self._entries = 0

    def count(self, console: str, address: str) -> None:
        """Count one."""
        place = console, address
        if place not in self._counts and len(self._counts) >= ADDRESSES_MAX:
            place = console, ""
        self._counts[place] += 1

    async def flush(self, app: StorageContext) -> None:
        """Record what was counted since the last time."""
        counts, self._counts = self._counts, Counter()
        hour = app.clock.now_us() // _HOUR_US
        if hour != self._hour:
            self._hour, self._entries = hour, 0
        if self._entries + len(counts) > ENTRIES_PER_HOUR:
            merged: Counter[tuple[str, str]] = Counter()
            for (console, _), number in counts.items():
                merged[console, ""] += number
            counts = merged
        self._entries += len(counts)
        for (console, address), number in sorted(counts.items()):
            change = AuditChange(
                AuditAction.SIGN_IN_FAILED,
                AuditObject.SESSION,
                "",
                changes=list_changes(
                    {}, {"console": console, "addresses": None if address else "several"}
                ),
                count=number,
            )
            actor = Actor(ActorKind.STRANGER, AuditChannel.CONSOLE, peer=address)
            await record_now(app, [change], actor)
