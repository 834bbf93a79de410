"""The references tell what the code does, and are written again when it does something else."""

from __future__ import annotations

import pytest
from florin_server.domain.errors import REGISTRY

from tools.reference import __main__ as reference
from tools.reference.markdown import sentence, table


def test_the_references_are_current():
    assert reference.stale() == [], "run `make gen`"


def test_a_changed_or_foreign_reference_is_noticed(tmp_path):
    reference.write(tmp_path)
    assert reference.stale(tmp_path) == []
    errors = tmp_path / "errors.md"
    errors.write_text(errors.read_text().replace("410", "409"))
    (tmp_path / "old.md").write_text("# Old")
    (tmp_path / "commands.md").unlink()
    assert reference.stale(tmp_path) == ["commands.md", "errors.md", "old.md"]
    reference.write(tmp_path)
    assert reference.stale(tmp_path) == []


def test_every_error_code_is_told_with_its_meaning():
    rows = [line.split(" | ") for line in reference.documents()["errors.md"].splitlines()]
    told = {row[0].strip("| `*"): row[-1] for row in rows if len(row) == 5}
    assert set(REGISTRY) <= told.keys()
    assert all(meaning.strip(" |") for meaning in told.values())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ""),
        ("a list", "A list."),
        ("gRPC port", "gRPC port."),
        ("`a` is", "`a` is."),
        ("A?", "A?"),
    ],
)
def test_sentences(text, told):
    assert sentence(text) == told


def test_a_bar_in_a_cell_does_not_end_it():
    assert table(("a",), [("b | c",)]).splitlines()[-1] == "| b \\| c |"
