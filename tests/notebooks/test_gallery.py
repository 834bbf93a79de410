"""The rendered gallery: compared parts, ignored parts, and reports of changes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from matplotlib.figure import Figure

from tools.gallery.figures import CHART_MIME_TYPE, describe_figure
from tools.gallery.pages import (
    FOLDER,
    ROOT,
    describe_changes,
    list_notebooks,
    list_outputs,
    write_page,
)

# one white pixel
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mP8/x8AAwMCAO+ip1sAAAAASUVORK5CYII="
LARGEST = 3_000_000


def chart(*heights: float, title: str = "Payments") -> dict[str, Any]:
    figure = Figure()
    on = figure.subplots()
    on.bar(["mrch_PVGJaW9jn4bl9esTx", "others"], heights)
    on.set_title(title, loc="left")
    on.set_xlabel("Merchant")
    return describe_figure(figure)


def notebook(text: str, figure: dict[str, Any], words: str = "Look.") -> nbformat.NotebookNode:
    new = nbformat.v4
    cell = new.new_code_cell("show()")
    cell.outputs = [
        new.new_output("stream", text=text[:3]),
        new.new_output("stream", text=text[3:]),
        new.new_output("display_data", {"image/png": DOT, CHART_MIME_TYPE: figure}),
    ]
    words_cell = new.new_markdown_cell(f"# How many?\n\n{words}\n\n## By merchant")
    return new.new_notebook(cells=[words_cell, cell])


PAID = "paid 0.0336165 of 0xfe3b557e8fb62b89f4916b721be55ceb828dbd73 by pay_00VXBljQdApIgdu2BHIRS"


@pytest.fixture
def gallery_folder(tmp_path) -> Path:
    write_page("99_made", notebook(PAID, chart(3, 40)), tmp_path)
    return tmp_path


def test_a_page_has_words_texts_and_charts_and_no_ids(gallery_folder):
    page = (gallery_folder / "99_made.md").read_text()
    assert page.startswith("<!-- Made by `make gallery`; do not edit. -->\n\n# How many?\n")
    assert "paid 0.0336165 of 0x… by pay_…" in page
    assert "![Payments](99_made_1.png)" in page
    assert (gallery_folder / "99_made_1.png").read_bytes().startswith(b"\x89PNG")
    text, drawn = list_outputs(notebook(PAID, chart(3, 40)))
    assert text["under"] == drawn["under"] == "By merchant"
    (axes,) = drawn["chart"]["axes"]
    assert axes["columns"] == ["mrch_…", "others"]
    # edges of the bars
    assert axes["bars"] == [[-0.4, 0.6], [0, 0], [0.4, 1.4], [3, 40]]


def test_ids_and_gas_dependent_values_may_differ(gallery_folder):
    other = PAID.replace("fe3b557e8f", "0000000000").replace("0.0336165", "0.0336168")
    assert describe_changes("99_made", notebook(other, chart(3, 40)), gallery_folder) == ""


@pytest.mark.parametrize(
    ("now", "line"),
    [
        (
            notebook(PAID, chart(3, 41)),
            "By merchant: chart.axes[0].bars[3][1]: 41.0 instead of 40.0",
        ),
        (notebook(PAID.replace("336", "337"), chart(3, 40)), "By merchant: text[0]: "),
        (notebook(PAID.replace("paid", "lost"), chart(3, 40)), 'instead of "paid 0.0336165'),
        (notebook(PAID, chart(3, 40, title="Orders")), 'title: "Orders" instead of "Payments"'),
        (notebook(PAID, chart(3, 40), "See."), "changed text: See. ## By merchant…"),
    ],
)
def test_gallery_change_is_described_with_its_remedy(gallery_folder, now, line):
    changed = describe_changes("99_made", now, gallery_folder)
    assert changed.startswith("99_made differs from docs/gallery/99_made.md:\n")
    assert line in changed
    assert "run `make gallery`, review `git diff docs/gallery`" in changed


def test_missing_gallery_output_is_a_change_and_many_changes_are_counted(tmp_path, gallery_folder):
    assert "outputs: 2 instead of 0" in describe_changes(
        "98", notebook(PAID, chart(1, 2)), gallery_folder
    )
    many = "\n".join(f"{n} payments" for n in range(1, 30))
    write_page("97", notebook(many, chart(1, 2)), tmp_path)
    assert "and 21 more" in describe_changes(
        "97", notebook(re.sub(r"\d+", "0", many), chart(1, 2)), tmp_path
    )


def test_charts_are_described_by_their_data_alone():
    figure = Figure()
    on = figure.subplots()
    line, band = list(range(100)), [index / 100 for index in range(100)]
    on.step(line, band, label="all")
    on.fill_between(line, [0] * 100, band)
    on.scatter([1, 2], [3, float("nan")])
    on.legend()
    (axes,) = describe_figure(figure)["axes"]
    first = axes["lines"][0][0]
    assert (first["count"], first["sum"], len(first["some"])) == (100, 4950, 24)
    assert axes["legend"] == ["all"]
    assert axes["marks"][0] == [[0, 99], [0, 0.99]]
    assert axes["marks"][1:] == [[[1, 2], [3, None]]]
    assert "columns" not in axes


def test_the_gallery_is_whole_and_small():
    names = {path.stem for path in list_notebooks()}
    assert {"10_funnel", "13_failures", "15_reconciliation"} <= names
    assert {page.stem for page in FOLDER.glob("*.md")} == names
    listed = (ROOT / "docs" / "notebooks.md").read_text()
    expected = set()
    for name in names:
        page = (FOLDER / f"{name}.md").read_text()
        expected |= {f"{name}.md", f"data/{name}.json", *re.findall(r"\]\((\w+\.png)\)", page)}
        assert f"](gallery/{name}.md)" in listed
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    assert {str(path.relative_to(FOLDER)) for path in files} == expected
    assert sum(path.stat().st_size for path in files) < LARGEST


def test_a_name_that_is_none_is_refused():
    done = subprocess.run(
        [sys.executable, "-m", "tools.gallery", "00_start_here"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "no notebook of the gallery: 00_start_here\n")
