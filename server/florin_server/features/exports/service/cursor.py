"""The progress of an export, so that the next run writes only new or changed roots.

For each feed it contains the time up to which all roots were read. It also contains digests of the
written roots that can still change, or are so young that an earlier one can still be committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from florin_server.domain.exports.columns import ExportRow
from florin_server.domain.exports.error import ExportError
from florin_server.domain.exports.roots import ExportRoot

# a committed row has an earlier time, by minutes at most: a commit waits for others, and a confirm
# for nodes
MARGIN_US = 600 * 1_000_000
_DIGEST_BYTES = 8
# blocks that other transactions can still refer to
_BLOCKS_MAX = 2_000


@dataclass(slots=True)
class FeedPosition:
    """The progress of one feed. `after_key` is set while a pass through its roots is in progress.

    A pass takes time, and can be interrupted and continued a day later. A root that is created
    meanwhile can have a key that the pass has left behind: it is no older than the pass, which
    `started_us`.
    """

    since_us: int = 0
    newest_us: int = 0
    started_us: int = 0
    after_key: str | None = None
    root_digests: dict[str, tuple[int, bool, frozenset[str]]] = field(default_factory=dict)
    _pruned_count: int = 0

    def begin(self, now_us: int) -> None:
        """Start a pass, unless one is to be continued."""
        if self.after_key is None:
            self.started_us = now_us

    def list_open_keys(self) -> list[str]:
        """Return the keys of roots that may have changed, of any age."""
        return [key for key, (_, closed, _) in self.root_digests.items() if not closed]

    def take_new_rows(self, root: ExportRoot) -> list[tuple[str, ExportRow]]:
        """Return the rows of a root that are not written yet; they count as written from now on."""
        self.newest_us = max(self.newest_us, root.at_us)
        seen = self.root_digests.get(root.key)
        stays = not root.closed or root.at_us > self._recheck_from_us
        if seen is None and not stays:
            return root.rows
        digests = [_compute_digest(name, row) for name, row in root.rows]
        self.root_digests[root.key] = (root.at_us, root.closed, frozenset(digests))
        before = frozenset() if seen is None else seen[2]
        return [row for row, digest in zip(root.rows, digests, strict=True) if digest not in before]

    def prune(self, *, only_if_large: bool = True) -> None:
        """Drop what cannot come again; with `only_if_large` only if that is worth the time."""
        if only_if_large and len(self.root_digests) < 2 * self._pruned_count + 10_000:
            return
        young = self._recheck_from_us
        self.root_digests = {
            key: digest_entry
            for key, digest_entry in self.root_digests.items()
            if not digest_entry[1] or digest_entry[0] > young
        }
        self._pruned_count = len(self.root_digests)

    def finish(self) -> None:
        """Finish a pass through all roots."""
        self.since_us = max(self.since_us, self._recheck_from_us)
        self.after_key = None
        self.prune(only_if_large=False)

    @property
    def _recheck_from_us(self) -> int:
        """Return the time from which on the next pass reads roots again."""
        return min(self.newest_us, self.started_us) - MARGIN_US

    def to_json(self) -> dict[str, Any]:
        """Return the position as JSON values."""
        seen = {
            key: [at, closed, *sorted(had)] for key, (at, closed, had) in self.root_digests.items()
        }
        times = {"since": self.since_us, "newest": self.newest_us, "began": self.started_us}
        return {**times, "after": self.after_key, "seen": seen}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FeedPosition:
        """Return a position from JSON values."""
        seen = {
            key: (int(at), bool(closed), frozenset(had))
            for key, (at, closed, *had) in data["seen"].items()
        }
        since, newest, began = (int(data[name]) for name in ("since", "newest", "began"))
        return cls(since, newest, began, data["after"], seen)


@dataclass(slots=True)
class ExportCursor:
    """The progress of an export of one origin; `last_parts` is the last number of each table."""

    origin: str
    positions: dict[str, FeedPosition] = field(default_factory=dict)
    last_parts: dict[str, int] = field(default_factory=dict)
    block_digests: dict[str, None] = field(default_factory=dict)

    def get_position(self, feed: str) -> FeedPosition:
        """Return the position of a feed."""
        return self.positions.setdefault(feed, FeedPosition())

    def filter_new_rows(self, rows: list[tuple[str, ExportRow]]) -> Iterator[tuple[str, ExportRow]]:
        """Return the rows without blocks that another root contained before."""
        for name, row in rows:
            if name == "blocks":
                key = _compute_digest(name, row)
                if key in self.block_digests:
                    continue
                self.block_digests[key] = None
                if len(self.block_digests) > _BLOCKS_MAX:
                    del self.block_digests[next(iter(self.block_digests))]
            yield name, row

    def to_json(self) -> dict[str, Any]:
        """Return the cursor as JSON values."""
        marks = {name: mark.to_json() for name, mark in self.positions.items()}
        blocks = list(self.block_digests)
        return {"origin": self.origin, "marks": marks, "parts": self.last_parts, "blocks": blocks}

    @classmethod
    def from_json(cls, data: Any) -> ExportCursor:
        """Return a cursor from JSON values; ExportError if they are none."""
        try:
            marks = {name: FeedPosition.from_json(mark) for name, mark in data["marks"].items()}
            parts = {name: int(last) for name, last in data["parts"].items()}
            return cls(str(data["origin"]), marks, parts, dict.fromkeys(data["blocks"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ExportError("the cursor is damaged: export into an empty folder") from error


def _compute_digest(name: str, row: ExportRow) -> str:
    return blake2b(f"{name}{row!r}".encode(), digest_size=_DIGEST_BYTES).hexdigest()
