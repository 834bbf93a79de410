"""Write the references; with `--check`, compare them with the code and exit if one is stale."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tools.reference import postings
from tools.reference.commands import render_commands
from tools.reference.conditions import render_conditions
from tools.reference.data import render_data
from tools.reference.database import render_database
from tools.reference.errors import render_errors
from tools.reference.metrics import render_metrics
from tools.reference.postman import render_postman
from tools.reference.settings import render_settings
from tools.reference.states import render_states

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "reference"


@cache
def render_documents() -> Mapping[str, str]:
    """Return every reference by file name; the code does not change while a process runs."""
    image = _build_image()
    return {
        "commands.md": render_commands(),
        "conditions.md": render_conditions(image),
        "data.md": render_data(),
        "database.md": render_database(),
        "errors.md": render_errors(image),
        "florin.postman_collection.json": render_postman(),
        "metrics.md": render_metrics(),
        "postings.md": postings.render_postings(),
        "settings.md": render_settings(),
        "states.md": render_states(image),
    }


def list_stale_documents(folder: Path = FOLDER) -> list[str]:
    """List the files that are missing, differ from the code, or describe nothing any more."""
    documents = render_documents()
    texts_by_name = {file.name: file.read_text() for file in folder.iterdir()}
    return sorted(
        name
        for name in documents.keys() | texts_by_name
        if documents.get(name) != texts_by_name.get(name)
    )


def write_documents(folder: Path = FOLDER) -> None:
    """Write all references, and remove other files."""
    documents = render_documents()
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        if file.name not in documents:
            file.unlink()
    for name, text in documents.items():
        (folder / name).write_text(text)


def _build_image() -> bytes:
    """Return the protos with their comments, which generated code lacks."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "image.binpb"
        generator = str(ROOT / "protos" / "generate.py")
        subprocess.run([sys.executable, generator, "--image", str(file)], check=True)  # noqa: S603
        return file.read_bytes()


def main() -> None:
    """Write the references, or compare them."""
    if sys.argv[1:] != ["--check"]:
        write_documents()
    elif names := list_stale_documents():
        listed = ", ".join(f"docs/reference/{name}" for name in names)
        raise SystemExit(f"references are stale, run `make gen`: {listed}")


if __name__ == "__main__":
    main()
