"""Run notebooks as Jupyter runs them, with the data of their charts."""

from __future__ import annotations

from nbclient import NotebookClient
from nbformat import NotebookNode, v4

from tools.gallery.pages import NOTEBOOKS, ROOT

# only a cell that hangs reaches this
TIMEOUT_S = 600
_RECORD_SOURCE = f"""import sys
sys.path.append({str(ROOT)!r})
from tools.gallery.figures import record_figures
record_figures()
"""


def create_client(notebook: NotebookNode) -> NotebookClient:
    """Return a client that runs a notebook in the folder of notebooks."""
    return NotebookClient(
        notebook,
        timeout=TIMEOUT_S,
        kernel_name="python3",
        # it warns about sockets, which only this machine can reach
        extra_arguments=["--log-level=40"],
        resources={"metadata": {"path": str(NOTEBOOKS)}},
    )


async def run_notebook(notebook: NotebookNode, *, charts: bool = False) -> None:
    """Execute a notebook and store its outputs; with `charts`, also the content of its figures.

    Raise CellExecutionError with the failed cell.
    """
    if charts:
        notebook.cells.insert(0, v4.new_code_cell(_RECORD_SOURCE))  # type: ignore[no-untyped-call]
    try:
        await create_client(notebook).async_execute()
    finally:
        if charts:
            del notebook.cells[0]
