"""The bench works: every subject in its short form, and the rest when one of them fails."""

from __future__ import annotations

import pytest

from tests.bench import report, run
from tests.bench.report import Figure
from tests.bench.x402.environment import python
from tests.deploy.tools import envoy, needed

pytestmark = pytest.mark.slow

PATIENCE_S = 300
# what has to be fetched first, and cannot be had everywhere
PEERS = {"transcoder": envoy, "facilitator": python}


@pytest.mark.parametrize("subject", run.SUBJECTS)
def test_every_subject_can_be_measured(subject, forks):
    if subject in PEERS:
        needed(PEERS[subject]())
    process = forks.module("tests.bench", "--short", subject, joins=True, COLUMNS="200")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, out + err
    # what fails is quick: its figures would be those of a refusal
    assert "Traceback" not in out + err
    assert " figures in " in out
    assert not out.splitlines()[-1].startswith("0 figures")


@pytest.fixture
def subjects(monkeypatch, tmp_path):
    """Three, the second of which fails."""

    def broken(_pool):
        raise RuntimeError("12 columns, 11 values")

    monkeypatch.setattr(run, "RESULT", tmp_path / "bench.json")
    first, last = Figure("a", 1, "/s", "", at_least=2), Figure("c", 3, "ms", "")
    made = {"first": lambda _: [first], "second": broken, "third": lambda _: [last]}
    monkeypatch.setattr(run, "SUBJECTS", made)


def test_a_subject_that_fails_takes_no_figure_of_the_others(subjects, capsys):
    assert run.main([]) == 1
    out = capsys.readouterr().out
    assert "12 columns, 11 values" in out
    assert out.splitlines()[-2:] == ["targets missed: a", "subjects failed: second"]
    told = report.load(run.RESULT)
    assert [one.name for each in told.subjects.values() for one in each.figures] == ["a", "c"]
    assert told.subjects["second"].failed == "RuntimeError: 12 columns, 11 values"
    assert "Failed: `RuntimeError: 12 columns, 11 values`" in told.markdown()


def test_a_run_that_is_broken_off_leaves_what_it_had(subjects, monkeypatch):
    def broken_off(_pool):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "SUBJECTS", {**run.SUBJECTS, "third": broken_off})
    with pytest.raises(KeyboardInterrupt):
        run.main([])
    assert list(report.load(run.RESULT).subjects) == ["first", "second"]
    assert "## first" in run.RESULT.with_suffix(".md").read_text()


def test_each_subject_is_told_as_it_ends(subjects, capsys, monkeypatch):
    told = []
    measure = run.SUBJECTS["third"]
    later = {
        **run.SUBJECTS,
        "third": lambda pool: told.append(capsys.readouterr().out) or measure(pool),
    }
    monkeypatch.setattr(run, "SUBJECTS", later)
    run.main(["first", "third"])
    (before,) = told
    assert "1.00 /s" in before
    assert not run.RESULT.exists()


def test_a_subject_that_is_not_there_is_told_before_any_is_measured(subjects, capsys):
    assert run.main(["first", "thrid"]) == 2
    assert capsys.readouterr().out == "no subject: thrid; there are first, second, third\n"
