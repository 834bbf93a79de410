"""The folder of the archive: folders for each month, with its files and a manifest.

A file is written under another name, compared, synced and renamed; then the month's manifest is
replaced by one that names it. Only then its rows can be deleted from the store. Files that the
store does not know are left from an interrupted run, or newer than a store from a backup.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from florin_server.base.durable_files import TEMPORARY_SUFFIX, replace_file, sync_folder
from florin_server.db.engine import schema
from florin_server.domain.archive import ArchiveError
from florin_server.money.archive.store.files import TRANSACTION_FOLDER, ArchiveFile

MANIFEST: Final = "manifest.json"
_VERSION: Final = 1
_CHUNK: Final = 1 << 20
# payments, and transactions
_PATTERNS: Final = ("*/*.parquet*", f"{TRANSACTION_FOLDER}*/*.parquet*")


@dataclass(frozen=True, slots=True)
class ArchiveFolder:
    """A folder that has, or will have, the files of one installation."""

    path: Path

    def get_path(self, file: ArchiveFile) -> Path:
        """Return the path of a file."""
        return self.path / file.name

    def get_temporary_path(self, name: str) -> Path:
        """Return the path to which a file is written at first; its folder exists then."""
        path = self.path / name
        try:
            for folder in (path.parent.parent, path.parent):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ArchiveError(f"{path.parent} cannot be made: {error}") from error
        return path.with_name(path.name + TEMPORARY_SUFFIX)

    def publish(self, file: ArchiveFile, rows: Mapping[str, int]) -> None:
        """Put a complete file in place and name it in the manifest of its folder."""
        path = self.get_path(file)
        entry = {
            "sha256": file.sha256.hex(),
            "size": file.size,
            "first_id": file.first_id,
            "last_id": file.last_id,
            "written_at_us": file.written_at_us,
            "schema": schema.HEAD,
            "rows": dict(rows),
        }
        entries = self.read_manifest(file.folder) | {path.name: entry}
        content = {"florin_archive": _VERSION, "month": file.month, "files": entries}
        try:
            self.get_temporary_path(file.name).replace(path)
            replace_file(path.parent / MANIFEST, orjson.dumps(content, option=orjson.OPT_INDENT_2))
            for folder in {path.parent.parent, self.path}:
                sync_folder(folder)
        except OSError as error:
            raise ArchiveError(f"{path.parent} cannot be written: {error}") from error

    def read_manifest(self, folder: str) -> dict[str, Any]:
        """Return the entries of a folder in it by file name; none without a manifest."""
        path = self.path / folder / MANIFEST
        try:
            content = orjson.loads(path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, orjson.JSONDecodeError) as error:
            raise ArchiveError(f"{path} cannot be read: {error}") from error
        if not isinstance(content, dict) or content.get("florin_archive") != _VERSION:
            raise ArchiveError(f"{path} is not a manifest of this release")
        files: dict[str, Any] = content["files"]
        return files

    def list_names(self) -> list[str]:
        """Return the names of all files that exist, known to the store or not."""
        paths = (path for pattern in _PATTERNS for path in self.path.glob(pattern))
        return sorted(str(path.relative_to(self.path)) for path in paths)

    def verify(self, file: ArchiveFile) -> None:
        """Read a file completely; ArchiveError unless it is what the store and manifest record."""
        path = self.get_path(file)
        entry = self.read_manifest(file.folder).get(path.name)
        if entry is None:
            raise ArchiveError(f"{path.parent / MANIFEST} does not name {path.name}")
        digest, size = compute_digest(path)
        if entry["sha256"] != file.sha256.hex():
            raise ArchiveError(f"{path.parent / MANIFEST} has another digest for {path.name}")
        if (digest, size) != (file.sha256, file.size):
            raise ArchiveError(f"{path} was changed: its SHA-256 differs")


def compute_digest(path: Path) -> tuple[bytes, int]:
    """Return the SHA-256 and the size of a file; ArchiveError if it cannot be read."""
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
    except OSError as error:
        raise ArchiveError(f"{path} cannot be read: {error}") from error
    return digest.digest(), size
