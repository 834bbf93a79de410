"""Test that docs/performance.md is current, and that an update changes nothing else."""

from __future__ import annotations

import re

import pytest

from tests.bench import document, plan, run
from tests.bench.document import DOCUMENT, between, put, written
from tests.bench.report import Figure, Measured, Report
from tests.support.postgres import is_available

TEXT = DOCUMENT.read_text()


def subjects(text: str) -> list[str]:
    """Return the names in the first column of the tables."""
    return re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)


@pytest.mark.skipif(not is_available(), reason="some subjects need PostgreSQL")
def test_performance_page_lists_every_subject():
    output = TEXT.partition("## Subjects")[2].partition("\n## ")[0]
    assert sorted(subjects(output)) == sorted(run.SUBJECTS)


@pytest.mark.skipif(not is_available(), reason="some subjects need PostgreSQL")
def test_figures_are_of_real_subjects():
    assert {*subjects(between(TEXT, "figures"))} <= {*run.SUBJECTS}


def test_capacity_plan_lists_every_rate():
    output = between(TEXT, "plan")
    rates = [
        int(item.replace(",", "")) for item in re.findall(r"^\| ([\d,]+) \|", output, re.MULTILINE)
    ]
    assert {*plan.RATES, *plan.ALONE} == {*rates}


@pytest.mark.slow
def test_a_run_is_put_between_the_marks_and_nowhere_else():
    ratio = Figure("a_vs_b", 1.5, "×", "how", at_least=2, peer="b | c")
    subjects = {"status": Measured(3.0, (ratio,)), "verify": Measured(1.0, failed="OSError: full")}
    new = written(TEXT, Report({"cores": "2"}, subjects))
    output = between(new, "figures")
    assert "- cores: 2" in output
    assert "| `status` | `a_vs_b` | 1.50 × |  |  | b \\| c | ≥ 2 | no |" in output
    assert "| `verify` | failed |" in output
    assert "OSError" not in new
    for name in ("figures", "plan"):
        new = put(new, name, between(TEXT, name).strip("\n"))
    assert new == TEXT


def test_a_document_without_marks_is_refused():
    with pytest.raises(ValueError, match="no marks for plan"):
        put(TEXT.replace("<!-- plan: end -->", ""), "plan", "x")
    assert document.between(TEXT, "none") == ""
