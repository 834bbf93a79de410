"""Files that only their owner can read, and that a crash leaves complete or absent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Final

TEMPORARY_SUFFIX: Final = ".tmp"


def create_file(path: Path) -> BinaryIO:
    """Create a file that only its owner can read, in place of one from an interrupted run."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file, so that the old or the new one is on the disk at any time."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    with create_file(temporary) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Return once the names of the files of a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
