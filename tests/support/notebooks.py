"""Notebooks, run as Jupyter runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import psutil

from tools.gallery import run as gallery

FOLDER = Path(__file__).parents[2] / "notebooks"


def load(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def printed(notebook: nbformat.NotebookNode) -> str:
    """What its cells printed; fails if anything went to stderr."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert all(output.get("name") != "stderr" for output in outputs), outputs
    return "".join(output.get("text", "") for output in outputs)


async def run(path: Path, *, charts: bool = False, **parameters: Any) -> nbformat.NotebookNode:
    """The notebook with its outputs, run from its folder; fails with the cell that failed.

    `parameters` are set after those of its own; with `charts` figures tell what is in them.
    """
    notebook = load(path)
    if parameters:
        (cell,) = [one for one in notebook.cells if "parameters" in one.metadata.get("tags", ())]
        cell.source += "".join(f"\n{name} = {value!r}" for name, value in parameters.items())
    before = set(psutil.Process().children(recursive=True))
    await gallery.run(notebook, charts=charts)
    assert set(psutil.Process().children(recursive=True)) - before == set()
    return notebook
