"""Every notebook: equal to its text, clean, and correct when it is run."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from data import WEEK, simulated
from jupytext import read

from tests.support.notebooks import FOLDER, get_printed, load_notebook, run_notebook
from tests.support.service import run_service
from tools.gallery.pages import describe_changes, list_notebooks

pytestmark = pytest.mark.slow

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LIBRARIES = {"chains", "charts", "data", "estimates", "lab", "target"}

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    """Return the folder where days are simulated once for all notebooks."""
    # the first import of a machine builds a list of fonts, and reports that on stderr
    from matplotlib import font_manager

    assert font_manager.fontManager
    folder: Path = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as env:
        env.setenv("XDG_CACHE_HOME", str(folder))
        simulated(**WEEK)
    return folder


def as_text(notebook: nbformat.NotebookNode) -> list[tuple[str, str, list[str]]]:
    return [(c.cell_type, c.source, c.metadata.get("tags", [])) for c in notebook.cells]


def test_there_are_notebooks():
    assert FOLDER / "00_start_here.ipynb" in NOTEBOOKS
    texts = {path.stem for path in FOLDER.glob("*.py")} - LIBRARIES
    assert texts == {path.stem for path in NOTEBOOKS}


def test_documentation_lists_every_notebook_with_its_question():
    output = (FOLDER.parent / "docs" / "notebooks.md").read_text()
    rows = re.findall(r"^\| \[(\w+)\]\(\.\./notebooks/\1\.py\) \| ([^|]+) \|", output, re.MULTILINE)
    questions = [(p.stem, load_notebook(p).cells[0].source.splitlines()[0][2:]) for p in NOTEBOOKS]
    # walk-throughs come before analyses, whatever their numbers
    assert sorted(rows) == questions


@each
def test_it_equals_its_text(path):
    text = path.with_suffix(".py")
    result, opened = read(text), load_notebook(path)
    assert as_text(result) == as_text(opened), f"run jupytext --sync {text}"
    assert (
        result.metadata.jupytext.formats == opened.metadata.jupytext.formats == "ipynb,py:percent"
    )
    assert result.metadata.kernelspec == opened.metadata.kernelspec


@each
def test_no_outputs_are_committed(path):
    cells = [cell for cell in load_notebook(path).cells if cell.cell_type == "code"]
    assert [cell.outputs for cell in cells] == [[]] * len(cells)
    assert {cell.execution_count for cell in cells} == {None}
    assert "widgets" not in load_notebook(path).metadata


@each
def test_it_begins_with_a_question_and_ends_with_its_proof(path):
    cells = load_notebook(path).cells
    assert cells[0].cell_type == "markdown"
    title = cells[0].source.splitlines()[0]
    assert title.startswith("# ")
    assert title.endswith("?")
    last = [cell for cell in cells if cell.cell_type == "code"][-1]
    assert any(line.startswith("assert ") for line in last.source.splitlines())


@pytest.mark.parametrize(
    ("seen", "true"),
    [
        (["requires_action", "processing", "succeeded"], True),
        # a stream skips short-lived states
        (["requires_action", "succeeded"], True),
        (["succeeded"], True),
        (["requires_action", "processing"], False),
        (["processing", "requires_action", "succeeded"], False),
        (["processing", "processing", "succeeded"], False),
    ],
)
def test_first_notebook_accepts_streams_with_skipped_states(seen, true):
    last = load_notebook(FOLDER / "00_start_here.ipynb").cells[-1].source
    result = last[: last.index("assert before")]
    try:
        exec(result, {"seen": seen})
    except AssertionError:
        assert not true
    else:
        assert true


@pytest.fixture(scope="module")
def executed() -> dict[Path, nbformat.NotebookNode]:
    """Return the notebooks that were run here, with their outputs."""
    return {}


@each
async def test_it_is_true_on_a_florin_of_its_own(path, desk, executed):
    executed[path] = await run_notebook(path, charts=path in list_notebooks())
    assert get_printed(executed[path])


@pytest.mark.parametrize("path", list_notebooks(), ids=lambda path: path.stem)
async def test_notebook_output_matches_the_gallery(path, desk, executed):
    notebook = executed.get(path) or await run_notebook(path, charts=True)
    changed = describe_changes(path.stem, notebook)
    assert not changed, changed


async def test_it_is_true_on_a_florin_that_runs(tmp_path, desk, monkeypatch):
    async with run_service(tmp_path / "home", block_interval_s=0.2) as service:
        env = service.home.read_demo_env()
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        notebook = await run_notebook(FOLDER / "00_start_here.ipynb")
        transaction = get_printed(notebook).rpartition("transaction ")[2].strip()
        chain = service.evm_chain
        request = b'{"jsonrpc":"2.0","id":1,"method":"eth_getTransactionReceipt","params":["%s"]}'
        assert b'"status":"0x1"' in await chain.handle(request % transaction.encode())
