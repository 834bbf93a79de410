"""Notebooks, run as Jupyter runs them, with what is behind their charts."""

from __future__ import annotations

from nbclient import NotebookClient
from nbformat import NotebookNode, v4

from tools.gallery.pages import NOTEBOOKS, ROOT

TIMEOUT_S = 120
_RECORD = f"""import sys
sys.path.append({str(ROOT)!r})
from tools.gallery.figures import record
record()
"""


def client_of(notebook: NotebookNode) -> NotebookClient:
    """What runs a notebook, from the folder of all."""
    return NotebookClient(
        notebook,
        timeout=TIMEOUT_S,
        kernel_name="python3",
        # it warns of sockets, which nobody else reaches here
        extra_arguments=["--log-level=40"],
        resources={"metadata": {"path": str(NOTEBOOKS)}},
    )


async def run(notebook: NotebookNode, *, charts: bool = False) -> None:
    """Gives a notebook its outputs, with `charts` what its figures tell too.

    CellExecutionError with the cell that failed.
    """
    if charts:
        notebook.cells.insert(0, v4.new_code_cell(_RECORD))  # type: ignore[no-untyped-call]
    try:
        await client_of(notebook).async_execute()
    finally:
        if charts:
            del notebook.cells[0]
