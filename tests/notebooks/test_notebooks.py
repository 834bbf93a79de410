"""Every notebook: equal to its text, clean, and true when it is run."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from data import WEEK, simulated
from jupytext import read

from tests.support.notebooks import FOLDER, load, printed, run
from tests.support.service import running
from tools.gallery.pages import changes, shown

pytestmark = pytest.mark.slow

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LIBRARIES = {"chains", "charts", "data", "lab", "target"}

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    """Where days are simulated once for all notebooks."""
    # the first import of a machine builds a list of fonts, and says so on stderr
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


def test_the_pack_is_told_with_its_questions():
    told = (FOLDER.parent / "docs" / "notebooks.md").read_text()
    rows = re.findall(r"^\| \[(\w+)\]\(\.\./notebooks/\1\.py\) \| ([^|]+) \|", told, re.MULTILINE)
    questions = [(p.stem, load(p).cells[0].source.splitlines()[0][2:]) for p in NOTEBOOKS]
    assert rows == questions


@each
def test_it_equals_its_text(path):
    text = path.with_suffix(".py")
    told, opened = read(text), load(path)
    assert as_text(told) == as_text(opened), f"run jupytext --sync {text}"
    assert told.metadata.jupytext.formats == opened.metadata.jupytext.formats == "ipynb,py:percent"
    assert told.metadata.kernelspec == opened.metadata.kernelspec


@each
def test_no_outputs_are_committed(path):
    cells = [cell for cell in load(path).cells if cell.cell_type == "code"]
    assert [cell.outputs for cell in cells] == [[]] * len(cells)
    assert {cell.execution_count for cell in cells} == {None}
    assert "widgets" not in load(path).metadata


@each
def test_it_begins_with_a_question_and_ends_with_its_proof(path):
    cells = load(path).cells
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
        # a stream leaves out what passes before it can be told
        (["requires_action", "succeeded"], True),
        (["succeeded"], True),
        (["requires_action", "processing"], False),
        (["processing", "requires_action", "succeeded"], False),
        (["processing", "processing", "succeeded"], False),
    ],
)
def test_the_first_one_holds_for_all_that_a_stream_may_leave_out(seen, true):
    last = load(FOLDER / "00_start_here.ipynb").cells[-1].source
    told = last[: last.index("assert before")]
    try:
        exec(told, {"seen": seen})
    except AssertionError:
        assert not true
    else:
        assert true


@pytest.fixture(scope="module")
def executed() -> dict[Path, nbformat.NotebookNode]:
    """Notebooks that were run here, with their outputs."""
    return {}


@each
async def test_it_is_true_on_a_florin_of_its_own(path, desk, executed):
    executed[path] = await run(path, charts=path in shown())
    assert printed(executed[path])


@pytest.mark.parametrize("path", shown(), ids=lambda path: path.stem)
async def test_it_shows_what_the_gallery_shows(path, desk, executed):
    notebook = executed.get(path) or await run(path, charts=True)
    changed = changes(path.stem, notebook)
    assert not changed, changed


async def test_it_is_true_on_a_florin_that_runs(tmp_path, desk, monkeypatch):
    async with running(tmp_path / "home", block_interval_s=0.2) as service:
        env = service.home.read_demo_env()
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        notebook = await run(FOLDER / "00_start_here.ipynb")
        transaction = printed(notebook).rpartition("transaction ")[2].strip()
        chain = service.evm
        asked = b'{"jsonrpc":"2.0","id":1,"method":"eth_getTransactionReceipt","params":["%s"]}'
        assert b'"status":"0x1"' in await chain.handle(asked % transaction.encode())
