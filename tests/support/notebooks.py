"""Notebooks, run as Jupyter runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import psutil

from tools.gallery import run as gallery

# a process that has ended is listed until its parent has noticed
_PATIENCE_S = 5
FOLDER = Path(__file__).parents[2] / "notebooks"


def load_notebook(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def get_printed(notebook: nbformat.NotebookNode) -> str:
    """Return what its cells printed; fail if anything went to stderr."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert all(output.get("name") != "stderr" for output in outputs), outputs
    return "".join(output.get("text", "") for output in outputs)


async def run_notebook(
    path: Path, *, charts: bool = False, **parameters: Any
) -> nbformat.NotebookNode:
    """Run a notebook from its folder; return it with its outputs, or fail with the failing cell.

    `parameters` are set after those of its own; with `charts` figures report what is in them.
    """
    notebook = load_notebook(path)
    if parameters:
        (cell,) = [
            each_cell
            for each_cell in notebook.cells
            if "parameters" in each_cell.metadata.get("tags", ())
        ]
        cell.source += "".join(f"\n{name} = {value!r}" for name, value in parameters.items())
    before = set(psutil.Process().children(recursive=True))
    await gallery.run_notebook(notebook, charts=charts)
    left = set(psutil.Process().children(recursive=True)) - before
    assert psutil.wait_procs(left, _PATIENCE_S)[1] == []
    return notebook
