"""Notebooks, run as Jupyter runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import psutil
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "notebooks"
TIMEOUT_S = 120


def load(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def printed(notebook: nbformat.NotebookNode) -> str:
    """What its cells printed; fails if anything went to stderr."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert all(output.get("name") != "stderr" for output in outputs), outputs
    return "".join(output.get("text", "") for output in outputs)


async def run(path: Path, **parameters: Any) -> nbformat.NotebookNode:
    """The notebook with its outputs, run from its folder; fails with the cell that failed.

    `parameters` are set after those of its own.
    """
    notebook = load(path)
    if parameters:
        (cell,) = [one for one in notebook.cells if "parameters" in one.metadata.get("tags", ())]
        cell.source += "".join(f"\n{name} = {value!r}" for name, value in parameters.items())
    client = NotebookClient(
        notebook,
        timeout=TIMEOUT_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(FOLDER)}},
    )
    before = set(psutil.Process().children(recursive=True))
    await client.async_execute()
    assert set(psutil.Process().children(recursive=True)) - before == set()
    return notebook
