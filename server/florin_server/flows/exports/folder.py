"""The folder of an export: a folder of parts for each table, and `export.json`, which counts.

A part is written under another name, synced, and renamed; then `export.json` is replaced by one
that names it. Whatever that does not name is what a run left that was cut off, and is removed.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from florin_server.domain.exports.columns import Table
from florin_server.domain.exports.error import NotExported
from florin_server.domain.exports.tables import TABLES
from florin_server.flows.exports.cursor import Cursor
from florin_server.flows.exports.formats import Format

MANIFEST = "export.json"
# tables that only exist as long as somebody keeps them
KEPT = tuple(one.name for one in TABLES.values() if one.kept)
_VERSION = 1
_LOCK = ".lock"
_TEMPORARY = ".tmp"
_PART = re.compile(r"\d{6,}\.(csv|jsonl|parquet)(\.tmp)?")


@dataclass(frozen=True, slots=True)
class Shape:
    """What an export is like, as long as its folder is used."""

    format: Format
    tables: tuple[Table, ...]
    personal: bool


@dataclass(slots=True)
class Manifest:
    """What `export.json` says. `parts` are file names, with their rows, by table."""

    shape: Shape
    cursor: Cursor
    parts: dict[str, dict[str, int]] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """The same as JSON."""
        tables = {
            one.name: {
                "columns": [column.name for column in one.told(personal=self.shape.personal)],
                "key": one.key,
                "parts": self.parts.get(one.name, {}),
            }
            for one in self.shape.tables
        }
        return {
            "florin_export": _VERSION,
            "format": self.shape.format,
            "personal": self.shape.personal,
            "tables": tables,
            "cursor": self.cursor.plain(),
        }


class Folder:
    """A folder that this process alone exports into; made by `opened`."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest

    def temporary(self, table: str, number: int) -> Path:
        """Where a part is written."""
        return self._file(table, number).with_name(self._name(number) + _TEMPORARY)

    def put(self, table: str, number: int, rows: int) -> None:
        """Gives a part that is on the disk its name; it counts from the next `commit` on."""
        file = self._file(table, number)
        self.temporary(table, number).replace(file)
        _sync(file.parent)
        name = str(file.relative_to(self.path))
        self.manifest.parts.setdefault(table, {})[name] = rows
        self.manifest.cursor.parts[table] = number

    def drop(self, table: str) -> list[Path]:
        """Takes all parts of a table out; the files are for the caller to remove after `commit`."""
        return [self.path / name for name in self.manifest.parts.pop(table, {})]

    def commit(self) -> None:
        """Everything that was put, and the cursor, count from now on."""
        temporary = self.path / (MANIFEST + _TEMPORARY)
        with create(temporary) as file:
            file.write(orjson.dumps(self.manifest.plain()))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path / MANIFEST)
        _sync(self.path)

    def clean(self) -> None:
        """Removes what a run left behind that was cut off."""
        for table in self.manifest.shape.tables:
            folder = self.path / table.name
            folder.mkdir(mode=0o700, exist_ok=True)
            known = self.manifest.parts.get(table.name, {})
            for file in folder.iterdir():
                if _PART.fullmatch(file.name) and str(file.relative_to(self.path)) not in known:
                    file.unlink()

    def _file(self, table: str, number: int) -> Path:
        return self.path / table / self._name(number)

    def _name(self, number: int) -> str:
        return f"{number:06}.{self.manifest.shape.format}"


@contextmanager
def opened(path: Path, shape: Shape, origin: str, since: Cursor | None = None) -> Iterator[Folder]:
    """The folder, made unless it is there, for one run; NotExported if it is of another kind.

    An empty one begins with what is new `since` another export's cursor.
    """
    if path.exists() and not path.is_dir():
        raise NotExported(f"{path} is a file: name a folder")
    if path.is_dir() and not (path / MANIFEST).exists():
        _begun(path)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (path / _LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise NotExported(f"another export writes into {path}: wait for its end") from error
        manifest = _manifest(path, shape, origin, since)
        folder = Folder(path, manifest)
        folder.clean()
        yield folder


def read(path: Path) -> Manifest:
    """What the folder at a path, or the `export.json` itself, says; NotExported if it is none."""
    file = path / MANIFEST if path.is_dir() else path
    try:
        said = orjson.loads(file.read_bytes())
    except FileNotFoundError as error:
        raise NotExported(
            f"there is no export at {file}: `florin export --to` makes one"
        ) from error
    except (OSError, ValueError) as error:
        raise NotExported(f"{file} cannot be read: {error}") from error
    if not isinstance(said, dict) or said.get("florin_export") != _VERSION:
        raise NotExported(f"{file} is no cursor of this Florin's exports: export into a new folder")
    try:
        tables = tuple(TABLES[name] for name in said["tables"])
        parts = {name: dict(one["parts"]) for name, one in said["tables"].items()}
        personal = bool(said["personal"])
        same = all(
            said["tables"][one.name]["columns"]
            == [column.name for column in one.told(personal=personal)]
            for one in tables
        )
        shape = Shape(Format(said["format"]), tables, personal)
    except (KeyError, TypeError, ValueError) as error:
        raise NotExported(f"{file} is damaged: export into a new folder") from error
    if not same:
        raise NotExported(
            f"{file} has the columns of another Florin: export into a new folder with this one"
        )
    return Manifest(shape, Cursor.of(said["cursor"]), parts)


def _manifest(path: Path, shape: Shape, origin: str, since: Cursor | None) -> Manifest:
    if not (path / MANIFEST).exists():
        begun = Cursor(origin) if since is None else since
        _same_origin(begun, origin, "the cursor")
        return Manifest(shape, begun)
    if since is not None:
        raise NotExported(
            f"{path} has a cursor of its own: leave --since out, or name a new folder"
        )
    found = read(path)
    _same_origin(found.cursor, origin, str(path))
    _same_shape(found.shape, shape, path)
    return found


def _same_origin(cursor: Cursor, origin: str, what: str) -> None:
    if cursor.origin != origin:
        raise NotExported(
            f"{what} belongs to another Florin or another merchant: export into an empty folder"
        )


def _same_shape(found: Shape, wanted: Shape, path: Path) -> None:
    if found == wanted:
        return
    names = ", ".join(one.name for one in found.tables)
    said = f"{names} as {found.format}" + (" with personal data" if found.personal else "")
    raise NotExported(f"{path} holds {said}: ask for the same, or name another folder")


def _begun(path: Path) -> None:
    """A run may have been cut off before anything counted; whatever else is there is not ours."""
    others = [one.name for one in path.iterdir() if not _ours(one)]
    if others:
        raise NotExported(
            f"{path} holds other files ({others[0]}) and no export: name a new or an empty folder"
        )


def _ours(one: Path) -> bool:
    if one.name in {_LOCK, MANIFEST + _TEMPORARY}:
        return True
    return (
        one.name in TABLES and one.is_dir() and all(_PART.fullmatch(x.name) for x in one.iterdir())
    )


def create(path: Path) -> BinaryIO:
    """A new file that only its owner reads, in place of what a dead run left there."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


def _sync(folder: Path) -> None:
    at = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(at)
    finally:
        os.close(at)


def named(names: Sequence[str], known: set[str], *, personal: bool) -> tuple[Table, ...]:
    """The tables of some names, or all that are `known`; NotExported for one that is not there."""
    for name in names:
        if name not in TABLES:
            raise NotExported(f"there is no table {name}; there are {', '.join(TABLES)}")
        if TABLES[name].personal and not personal:
            raise NotExported(f"{name} is personal data: ask for it with --personal")
        if name not in known:
            there = ", ".join(one for one in TABLES if one in known)
            raise NotExported(
                f"a server does not tell {name} to a merchant, only {there}: the operator exports "
                "it where the state folder is"
            )
    wanted = set(names) or known
    return tuple(
        one for one in TABLES.values() if one.name in wanted and (personal or not one.personal)
    )
