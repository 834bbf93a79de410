"""The folder of an export: a folder of parts for each table, and `export.json`, which decides.

A part is written under another name, synced, and renamed; then `export.json` is replaced by one
that names it. Files that it does not name are left from an interrupted run, and are removed.
"""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from florin_server.base.durable_files import TEMPORARY_SUFFIX, replace_file, sync_folder
from florin_server.domain.exports.columns import ExportTable
from florin_server.domain.exports.error import ExportError
from florin_server.domain.exports.tables import TABLES
from florin_server.features.exports.service.cursor import ExportCursor
from florin_server.features.exports.service.formats import ExportFormat

MANIFEST = "export.json"
# tables that exist only while their data is retained
BUYER_DATA_TABLES = tuple(table.name for table in TABLES.values() if table.is_rewritten)
_VERSION = 1
_LOCK = ".lock"
_PART_NAME = re.compile(r"\d{6,}\.(csv|jsonl|parquet)(\.tmp)?")


@dataclass(frozen=True, slots=True)
class ExportSpec:
    """The properties of an export, constant while its folder is used."""

    format: ExportFormat
    tables: tuple[ExportTable, ...]
    personal: bool


@dataclass(slots=True)
class ExportManifest:
    """The content of `export.json`. `parts` are file names, with their rows, by table."""

    spec: ExportSpec
    cursor: ExportCursor
    parts: dict[str, dict[str, int]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as JSON values."""
        tables = {
            table.name: {
                "columns": [
                    column.name for column in table.list_columns(personal=self.spec.personal)
                ],
                "key": table.key,
                "parts": self.parts.get(table.name, {}),
            }
            for table in self.spec.tables
        }
        return {
            "florin_export": _VERSION,
            "format": self.spec.format,
            "personal": self.spec.personal,
            "tables": tables,
            "cursor": self.cursor.to_json(),
        }


class ExportFolder:
    """A folder that this process alone exports into; made by `opened`."""

    def __init__(self, path: Path, manifest: ExportManifest) -> None:
        self.path = path
        self.manifest = manifest

    def get_temporary_path(self, table: str, number: int) -> Path:
        """Return the path to which a part is written at first."""
        return self._get_part_path(table, number).with_name(
            self._format_part_name(number) + TEMPORARY_SUFFIX
        )

    def publish_part(self, table: str, number: int, rows: int) -> None:
        """Rename a part that is on the disk; it is valid from the next `commit` on."""
        file = self._get_part_path(table, number)
        self.get_temporary_path(table, number).replace(file)
        sync_folder(file.parent)
        name = str(file.relative_to(self.path))
        self.manifest.parts.setdefault(table, {})[name] = rows
        self.manifest.cursor.last_parts[table] = number

    def drop_parts(self, table: str) -> list[Path]:
        """Take all parts of a table out; the files are for the caller to remove after `commit`."""
        return [self.path / name for name in self.manifest.parts.pop(table, {})]

    def commit(self) -> None:
        """Make everything written so far, and the cursor, valid."""
        replace_file(self.path / MANIFEST, orjson.dumps(self.manifest.to_json()))

    def remove_leftovers(self) -> None:
        """Remove the files of an interrupted run."""
        for table in self.manifest.spec.tables:
            folder = self.path / table.name
            folder.mkdir(mode=0o700, exist_ok=True)
            known_parts = self.manifest.parts.get(table.name, {})
            for file in folder.iterdir():
                if (
                    _PART_NAME.fullmatch(file.name)
                    and str(file.relative_to(self.path)) not in known_parts
                ):
                    file.unlink()

    def _get_part_path(self, table: str, number: int) -> Path:
        return self.path / table / self._format_part_name(number)

    def _format_part_name(self, number: int) -> str:
        return f"{number:06}.{self.manifest.spec.format}"


@contextmanager
def open_folder(
    path: Path, spec: ExportSpec, origin: str, since: ExportCursor | None = None
) -> Iterator[ExportFolder]:
    """Open or create the folder for one run; ExportError if it is of another kind.

    An empty folder starts with what is new `since` another export's cursor.
    """
    if path.exists() and not path.is_dir():
        raise ExportError(f"{path} is a file: name a folder")
    if path.is_dir() and not (path / MANIFEST).exists():
        _check_no_other_files(path)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (path / _LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ExportError(f"another export writes into {path}: wait until it ends") from error
        manifest = _load_manifest(path, spec, origin, since)
        folder = ExportFolder(path, manifest)
        folder.remove_leftovers()
        yield folder


def read_manifest(path: Path) -> ExportManifest:
    """Return the manifest of a folder, or of an `export.json` itself; ExportError if it is none."""
    file = path / MANIFEST if path.is_dir() else path
    try:
        content = orjson.loads(file.read_bytes())
    except FileNotFoundError as error:
        raise ExportError(
            f"no export exists at {file}: create one with `florin export --to`"
        ) from error
    except (OSError, ValueError) as error:
        raise ExportError(f"{file} cannot be read: {error}") from error
    if not isinstance(content, dict) or content.get("florin_export") != _VERSION:
        raise ExportError(
            f"{file} is not a cursor of this installation's exports: export into a new folder"
        )
    try:
        tables = tuple(TABLES[name] for name in content["tables"])
        parts = {name: dict(table["parts"]) for name, table in content["tables"].items()}
        personal = bool(content["personal"])
        same = all(
            content["tables"][table.name]["columns"]
            == [column.name for column in table.list_columns(personal=personal)]
            for table in tables
        )
        shape = ExportSpec(ExportFormat(content["format"]), tables, personal)
    except (KeyError, TypeError, ValueError) as error:
        raise ExportError(f"{file} is damaged: export into a new folder") from error
    if not same:
        raise ExportError(
            f"{file} has the columns of another release of Florin: export into a new folder"
        )
    return ExportManifest(shape, ExportCursor.from_json(content["cursor"]), parts)


def _load_manifest(
    path: Path, spec: ExportSpec, origin: str, since: ExportCursor | None
) -> ExportManifest:
    if not (path / MANIFEST).exists():
        cursor = ExportCursor(origin) if since is None else since
        _check_origin(cursor, origin, "the cursor")
        return ExportManifest(spec, cursor)
    if since is not None:
        raise ExportError(f"{path} already has a cursor: leave out --since, or name a new folder")
    manifest = read_manifest(path)
    _check_origin(manifest.cursor, origin, str(path))
    _check_spec(manifest.spec, spec, path)
    return manifest


def _check_origin(cursor: ExportCursor, origin: str, subject: str) -> None:
    if cursor.origin != origin:
        raise ExportError(
            f"{subject} belongs to another installation or merchant: export into an empty folder"
        )


def _check_spec(existing: ExportSpec, spec: ExportSpec, path: Path) -> None:
    if existing == spec:
        return
    names = ", ".join(table.name for table in existing.tables)
    description = f"{names} as {existing.format}" + (
        " with personal data" if existing.personal else ""
    )
    raise ExportError(f"{path} holds {description}: request the same, or name another folder")


def _check_no_other_files(path: Path) -> None:
    """Refuse a folder with other files; a run can have been interrupted before its first commit."""
    other_files = [each_path.name for each_path in path.iterdir() if not _is_own_file(each_path)]
    if other_files:
        raise ExportError(
            f"{path} contains other files ({other_files[0]}) and no export: name a new or an empty "
            "folder"
        )


def _is_own_file(path: Path) -> bool:
    if path.name in {_LOCK, MANIFEST + TEMPORARY_SUFFIX}:
        return True
    return (
        path.name in TABLES
        and path.is_dir()
        and all(_PART_NAME.fullmatch(x.name) for x in path.iterdir())
    )


def select_tables(
    names: Sequence[str], available: set[str], *, personal: bool
) -> tuple[ExportTable, ...]:
    """Return the named tables, or all that are `available`; ExportError for an unknown table."""
    for name in names:
        if name not in TABLES:
            raise ExportError(f"unknown table {name}; the tables are {', '.join(TABLES)}")
        if TABLES[name].personal and not personal:
            raise ExportError(f"{name} contains personal data: add --personal")
        if name not in available:
            there = ", ".join(table_name for table_name in TABLES if table_name in available)
            raise ExportError(
                f"a server does not export {name} to a merchant, only {there}: the operator can "
                "export it on the machine of the state folder"
            )
    selected_names = set(names) or available
    return tuple(
        table
        for table in TABLES.values()
        if table.name in selected_names and (personal or not table.personal)
    )
