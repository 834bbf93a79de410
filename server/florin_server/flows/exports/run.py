"""One run of an export: reads what is new or has changed, and adds it to a folder.

A row is read by key and not by number, and pages are snapshots of their own, so that neither a slow
disk nor a big store keeps a running service from its work. All that belongs to one root is of one
snapshot, and so is a whole page. What changes behind a page is written by the next run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from florin_server.domain.exports.columns import Row
from florin_server.domain.exports.roots import Root
from florin_server.domain.exports.tables import BUYER_DATA
from florin_server.flows.exports.feeds import PAGE, Feed, Origin
from florin_server.flows.exports.folder import Folder, create
from florin_server.flows.exports.formats import encoder
from florin_server.flows.exports.layout import Layout

# rows of one part: what was written before counts if the run is cut off
PART_ROWS = 500_000
# rows that are encoded at once
_BATCH = 2_048


class Part:
    """One part of a table while it is being written."""

    def __init__(self, folder: Folder, layout: Layout) -> None:
        self._folder = folder
        self._layout = layout
        self.table = layout.table.name
        self.number = folder.manifest.cursor.parts.get(self.table, 0) + 1
        self.rows = 0
        self._waiting: list[Row] = []
        self._file = create(folder.temporary(self.table, self.number))
        self._encoder = encoder(folder.manifest.shape.format, self._file, layout.columns)

    def add(self, told: Row) -> None:
        """Adds a row."""
        self._waiting.append(told)
        self.rows += 1
        if len(self._waiting) == _BATCH:
            self._flush()

    def close(self) -> None:
        """Puts the part in place; it is on the disk then."""
        self._flush()
        self._encoder.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._folder.put(self.table, self.number, self.rows)

    def _flush(self) -> None:
        self._encoder.write(self._layout.lay_out(self._waiting, self.number))
        self._waiting = []


class Run:
    """Adds to a folder what an origin has."""

    def __init__(self, folder: Folder, origin: Origin, part_rows: int = PART_ROWS) -> None:
        shape = folder.manifest.shape
        self._folder = folder
        self._origin = origin
        self._part_rows = part_rows
        self._cursor = folder.manifest.cursor
        self._layouts = {
            one.name: Layout(one, origin.decimals, personal=shape.personal) for one in shape.tables
        }
        self._parts: dict[str, Part] = {}
        self.written = dict.fromkeys(self._layouts, 0)

    def all(self) -> dict[str, int]:
        """Reads every feed once; tells how many rows were written, by table."""
        for feed in self._origin.feeds:
            if any(name in self._layouts for name in feed.tables):
                self._feed(feed)
        if self._origin.kept is not None and BUYER_DATA.name in self._layouts:
            self._keep(self._origin.kept())
        return self.written

    def _feed(self, feed: Feed) -> None:
        mark = self._cursor.mark(feed.name)
        mark.begin(self._origin.now_us)
        if not feed.whole:
            keys = mark.open_keys()
            for begin in range(0, len(keys), PAGE):
                self._take(feed.some(keys[begin : begin + PAGE]), feed)
        after = mark.after or ""
        while True:
            page = feed.pages(after, 0 if feed.whole else mark.since_us)
            self._take(page.roots, feed)
            if page.after is None:
                break
            after = page.after
            if not feed.whole:
                mark.prune()
            if any(part.rows >= self._part_rows for part in self._parts.values()):
                mark.after = None if feed.whole else after
                self._commit()
        if not feed.whole:
            mark.finish()
        self._begin(feed)
        self._commit()

    def _take(self, roots: list[Root], feed: Feed) -> None:
        mark = self._cursor.mark(feed.name)
        for root in roots:
            for name, row in self._cursor.unknown(mark.news(root)):
                if name in self._layouts:
                    self._part(name).add(row)
                    self.written[name] += 1

    def _part(self, name: str) -> Part:
        part = self._parts.get(name)
        if part is None:
            part = self._parts[name] = Part(self._folder, self._layouts[name])
        return part

    def _begin(self, feed: Feed) -> None:
        """A table without rows has a part all the same: readers find its columns there."""
        for name in feed.tables:
            if name in self._layouts and not self._cursor.parts.get(name):
                self._part(name)

    def _commit(self) -> None:
        for part in self._parts.values():
            part.close()
        self._parts = {}
        self._folder.commit()

    def _keep(self, rows: Iterator[Row]) -> None:
        """Writes a table anew: what was deleted since the last run is gone from the folder too."""
        former = self._folder.drop(BUYER_DATA.name)
        part = Part(self._folder, self._layouts[BUYER_DATA.name])
        for row in rows:
            part.add(row)
            self.written[BUYER_DATA.name] += 1
        part.close()
        self._folder.commit()
        for file in former:
            file.unlink(missing_ok=True)
