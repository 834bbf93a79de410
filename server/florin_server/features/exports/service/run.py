"""One run of an export: reads what is new or has changed, and adds it to a folder.

A row is read by key and not by number, and pages are snapshots of their own, so that neither a slow
disk nor a big store keeps a running service from its work. All that belongs to one root is of one
snapshot, and so is a whole page. What changes behind a page is written by the next run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from florin_server.base.durable_files import create_file
from florin_server.domain.exports.columns import ExportRow
from florin_server.domain.exports.roots import ExportRoot
from florin_server.domain.exports.tables import BUYER_DATA
from florin_server.features.exports.service.feeds import PAGE_SIZE, ExportFeed, ExportOrigin
from florin_server.features.exports.service.folder import ExportFolder
from florin_server.features.exports.service.formats import create_encoder
from florin_server.features.exports.service.layout import TableLayout

# rows of one part: complete parts stay valid if the run is interrupted
PART_ROWS = 500_000
# rows encoded at once
_BATCH_ROWS = 2_048


class ExportPart:
    """One part of a table while it is being written."""

    def __init__(self, folder: ExportFolder, layout: TableLayout) -> None:
        self._folder = folder
        self._layout = layout
        self.table = layout.table.name
        self.number = folder.manifest.cursor.last_parts.get(self.table, 0) + 1
        self.row_count = 0
        self._buffered_rows: list[ExportRow] = []
        self._file = create_file(folder.get_temporary_path(self.table, self.number))
        self._encoder = create_encoder(folder.manifest.spec.format, self._file, layout.columns)

    def add(self, row: ExportRow) -> None:
        """Add a row."""
        self._buffered_rows.append(row)
        self.row_count += 1
        if len(self._buffered_rows) == _BATCH_ROWS:
            self._flush()

    def close(self) -> None:
        """Put the part in place; it is on the disk then."""
        self._flush()
        self._encoder.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._folder.publish_part(self.table, self.number, self.row_count)

    def _flush(self) -> None:
        self._encoder.write(self._layout.to_columns(self._buffered_rows, self.number))
        self._buffered_rows = []


class ExportRun:
    """Adds to a folder what an origin has."""

    def __init__(
        self, folder: ExportFolder, origin: ExportOrigin, part_rows: int = PART_ROWS
    ) -> None:
        shape = folder.manifest.spec
        self._folder = folder
        self._origin = origin
        self._part_rows = part_rows
        self._cursor = folder.manifest.cursor
        self._layouts = {
            table.name: TableLayout(table, origin.find_decimals, personal=shape.personal)
            for table in shape.tables
        }
        self._parts: dict[str, ExportPart] = {}
        self.row_counts = dict.fromkeys(self._layouts, 0)

    def export_all(self) -> dict[str, int]:
        """Read every feed once; return how many rows were written, by table."""
        for feed in self._origin.feeds:
            if any(name in self._layouts for name in feed.tables):
                self._export_feed(feed)
        if self._origin.read_buyer_data is not None and BUYER_DATA.name in self._layouts:
            self._rewrite_buyer_data(self._origin.read_buyer_data())
        return self.row_counts

    def _export_feed(self, feed: ExportFeed) -> None:
        mark = self._cursor.get_position(feed.name)
        mark.begin(self._origin.now_us)
        if not feed.is_complete:
            keys = mark.list_open_keys()
            for begin in range(0, len(keys), PAGE_SIZE):
                self._add_roots(feed.read_roots(keys[begin : begin + PAGE_SIZE]), feed)
        after = mark.after_key or ""
        while True:
            page = feed.read_page(after, 0 if feed.is_complete else mark.since_us)
            self._add_roots(page.roots, feed)
            if page.next_key is None:
                break
            after = page.next_key
            if not feed.is_complete:
                mark.prune()
            if any(part.row_count >= self._part_rows for part in self._parts.values()):
                mark.after_key = None if feed.is_complete else after
                self._commit()
        if not feed.is_complete:
            mark.finish()
        self._create_empty_parts(feed)
        self._commit()

    def _add_roots(self, roots: list[ExportRoot], feed: ExportFeed) -> None:
        mark = self._cursor.get_position(feed.name)
        for root in roots:
            for name, row in self._cursor.filter_new_rows(mark.take_new_rows(root)):
                if name in self._layouts:
                    self._get_part(name).add(row)
                    self.row_counts[name] += 1

    def _get_part(self, name: str) -> ExportPart:
        part = self._parts.get(name)
        if part is None:
            part = self._parts[name] = ExportPart(self._folder, self._layouts[name])
        return part

    def _create_empty_parts(self, feed: ExportFeed) -> None:
        """Write a part for a table without rows too: readers find its columns there."""
        for name in feed.tables:
            if name in self._layouts and not self._cursor.last_parts.get(name):
                self._get_part(name)

    def _commit(self) -> None:
        for part in self._parts.values():
            part.close()
        self._parts = {}
        self._folder.commit()

    def _rewrite_buyer_data(self, rows: Iterator[ExportRow]) -> None:
        """Write a table completely.

        Rows deleted since the last run also disappear from the folder.
        """
        former = self._folder.drop_parts(BUYER_DATA.name)
        part = ExportPart(self._folder, self._layouts[BUYER_DATA.name])
        for row in rows:
            part.add(row)
            self.row_counts[BUYER_DATA.name] += 1
        part.close()
        self._folder.commit()
        for file in former:
            file.unlink(missing_ok=True)
