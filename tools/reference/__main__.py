"""Writes the references; with `--check` compares them with the code and exits if one is stale."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tools.reference import postings
from tools.reference.commands import commands
from tools.reference.conditions import conditions
from tools.reference.data import data
from tools.reference.errors import errors
from tools.reference.metrics import metrics
from tools.reference.settings import settings
from tools.reference.states import states

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "reference"


def documents() -> Mapping[str, str]:
    """Every reference by the name of its file."""
    image = _image()
    return {
        "commands.md": commands(),
        "conditions.md": conditions(image),
        "data.md": data(),
        "errors.md": errors(image),
        "metrics.md": metrics(),
        "postings.md": postings.document(),
        "settings.md": settings(),
        "states.md": states(image),
    }


def stale(folder: Path = FOLDER) -> list[str]:
    """The files that are missing, differ from the code, or are about nothing any more."""
    wanted = documents()
    found = {file.name: file.read_text() for file in folder.glob("*.md")}
    return sorted(name for name in wanted.keys() | found if wanted.get(name) != found.get(name))


def write(folder: Path = FOLDER) -> None:
    """Writes all references, and removes what is none."""
    wanted = documents()
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("*.md"):
        if file.name not in wanted:
            file.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text)


def _image() -> bytes:
    """The protos with their comments, which generated code has not."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "image.binpb"
        generator = str(ROOT / "protos" / "generate.py")
        subprocess.run([sys.executable, generator, "--image", str(file)], check=True)  # noqa: S603
        return file.read_bytes()


def main() -> None:
    """Writes or compares."""
    if sys.argv[1:] != ["--check"]:
        write()
    elif names := stale():
        listed = ", ".join(f"docs/reference/{name}" for name in names)
        raise SystemExit(f"references are stale, run `make gen`: {listed}")


if __name__ == "__main__":
    main()
