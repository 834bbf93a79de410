"""Released versions that this one is tried with: homes that they made, and their code."""

from __future__ import annotations

import tarfile
from pathlib import Path

DATA = Path(__file__).parents[1] / "data"
RELEASED = ("0.3.0",)


def unpack_home(version: str, folder: Path) -> Path:
    """Unpack the home that a released version made; `facts.json` in it says what is in it."""
    name = f"home-{version}"
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name
