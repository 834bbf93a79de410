"""How far an export has come, so that the next one writes only what is new or has changed.

Of each feed it holds the time up to which all roots were read, and digests of what was written of
roots that may still change, or are so young that one with an earlier time may yet be committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from florin_server.domain.exports.columns import Row
from florin_server.domain.exports.error import NotExported
from florin_server.domain.exports.roots import Root

# what is committed has a time that was taken before, by minutes at most: a commit waits for others,
# and a confirm for nodes of chains
MARGIN_US = 600 * 1_000_000
_DIGEST_BYTES = 8
# blocks that may still be told of by other transactions
_BLOCKS_MAX = 2_000


@dataclass(slots=True)
class Mark:
    """How far one feed was read. `after` is set while a pass through its roots is under way.

    A pass takes its time, and may be cut off and go on a day later. What is made meanwhile may have
    a key that it has passed already: it is no older than the pass, which `began_us`.
    """

    since_us: int = 0
    newest_us: int = 0
    began_us: int = 0
    after: str | None = None
    seen: dict[str, tuple[int, bool, frozenset[str]]] = field(default_factory=dict)
    _pruned: int = 0

    def begin(self, now_us: int) -> None:
        """A pass begins, unless one is to go on."""
        if self.after is None:
            self.began_us = now_us

    def open_keys(self) -> list[str]:
        """Roots that may have changed, whenever they were made."""
        return [key for key, (_, closed, _) in self.seen.items() if not closed]

    def news(self, root: Root) -> list[tuple[str, Row]]:
        """What of a root was not written yet; notes that it is from now on."""
        self.newest_us = max(self.newest_us, root.at_us)
        known = self.seen.get(root.key)
        stays = not root.closed or root.at_us > self._young_us
        if known is None and not stays:
            return root.rows
        digests = [_digest(name, row) for name, row in root.rows]
        self.seen[root.key] = (root.at_us, root.closed, frozenset(digests))
        before = frozenset() if known is None else known[2]
        return [one for one, made in zip(root.rows, digests, strict=True) if made not in before]

    def prune(self, *, rarely: bool = True) -> None:
        """Forgets what cannot come again; with `rarely` only once that is worth a look at all."""
        if rarely and len(self.seen) < 2 * self._pruned + 10_000:
            return
        young = self._young_us
        self.seen = {key: one for key, one in self.seen.items() if not one[1] or one[0] > young}
        self._pruned = len(self.seen)

    def finish(self) -> None:
        """A pass through all roots is over."""
        self.since_us = max(self.since_us, self._young_us)
        self.after = None
        self.prune(rarely=False)

    @property
    def _young_us(self) -> int:
        """What was made after this is read by the next pass too."""
        return min(self.newest_us, self.began_us) - MARGIN_US

    def plain(self) -> dict[str, Any]:
        """The same as JSON."""
        seen = {key: [at, closed, *sorted(had)] for key, (at, closed, had) in self.seen.items()}
        times = {"since": self.since_us, "newest": self.newest_us, "began": self.began_us}
        return {**times, "after": self.after, "seen": seen}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Mark:
        """From JSON."""
        seen = {
            key: (int(at), bool(closed), frozenset(had))
            for key, (at, closed, *had) in plain["seen"].items()
        }
        since, newest, began = (int(plain[name]) for name in ("since", "newest", "began"))
        return cls(since, newest, began, plain["after"], seen)


@dataclass(slots=True)
class Cursor:
    """How far an export of one origin has come; `parts` is the last number of each table."""

    origin: str
    marks: dict[str, Mark] = field(default_factory=dict)
    parts: dict[str, int] = field(default_factory=dict)
    blocks: dict[str, None] = field(default_factory=dict)

    def mark(self, feed: str) -> Mark:
        """How far a feed was read."""
        return self.marks.setdefault(feed, Mark())

    def unknown(self, rows: list[tuple[str, Row]]) -> Iterator[tuple[str, Row]]:
        """Rows without blocks that another root told of before."""
        for name, row in rows:
            if name == "blocks":
                key = _digest(name, row)
                if key in self.blocks:
                    continue
                self.blocks[key] = None
                if len(self.blocks) > _BLOCKS_MAX:
                    del self.blocks[next(iter(self.blocks))]
            yield name, row

    def plain(self) -> dict[str, Any]:
        """The same as JSON."""
        marks = {name: mark.plain() for name, mark in self.marks.items()}
        blocks = list(self.blocks)
        return {"origin": self.origin, "marks": marks, "parts": self.parts, "blocks": blocks}

    @classmethod
    def of(cls, plain: Any) -> Cursor:
        """From JSON; NotExported if it is none."""
        try:
            marks = {name: Mark.of(one) for name, one in plain["marks"].items()}
            parts = {name: int(last) for name, last in plain["parts"].items()}
            return cls(str(plain["origin"]), marks, parts, dict.fromkeys(plain["blocks"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise NotExported("the cursor is damaged: export into an empty folder") from error


def _digest(name: str, row: Row) -> str:
    return blake2b(f"{name}{row!r}".encode(), digest_size=_DIGEST_BYTES).hexdigest()
