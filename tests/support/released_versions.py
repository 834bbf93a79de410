"""Released versions that this version is tested with: homes that they made, and their code."""

from __future__ import annotations

import os
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parents[1] / "data"
RELEASED = ("0.3.0",)
# the schema of the newest of them
RELEASED_SCHEMA = "v0020"


def unpack_home(version: str, folder: Path) -> Path:
    """Unpack the home that a released version made; its `facts.json` describes the contents."""
    name = f"home-{version}"
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name


@dataclass(frozen=True)
class ReleasedCode:
    """The unpacked code of a released version, run with the dependencies of this one.

    Archives were made by `git archive` of the release's commit: `server/florin_server`,
    `client/florin_client`, `client/gen` without stubs, `gateway/florin_gateway`, and a
    `*.dist-info/METADATA` for each distribution, which gives its version.
    """

    folder: Path

    @property
    def program(self) -> list[str]:
        """Return the `florin` command of that version, in an environment with `variables`."""
        return [sys.executable, "-c", "from florin_server.cli import main; main()"]

    @property
    def variables(self) -> dict[str, str]:
        parts = ("", "server", "client", "client/gen", "gateway")
        return {"PYTHONPATH": os.pathsep.join(str(self.folder / part) for part in parts)}


def unpack_code(version: str, folder: Path) -> ReleasedCode:
    """Unpack the code of a released version."""
    name = f"florin-{version}"
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return ReleasedCode(folder / name)
