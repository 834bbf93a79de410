"""Test every subject in its short form, and that the rest still run when one fails."""

from __future__ import annotations

import pytest

from tests.bench import report, run
from tests.bench.report import Figure
from tests.bench.x402.environment import python
from tests.deploy.tools import envoy, needed

pytestmark = pytest.mark.slow

PATIENCE_S = 300
# peers that must be downloaded first, which is not possible everywhere
PEERS = {"transcoder": envoy, "facilitator": python}


@pytest.mark.parametrize("subject", run.SUBJECTS)
def test_every_subject_can_be_measured(subject, forks):
    if subject in PEERS:
        needed(PEERS[subject]())
    process = forks.module("tests.bench", "--short", subject, joins=True, COLUMNS="200")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, out + err
    # a failure is fast: its figures would be those of a refusal
    assert "Traceback" not in out + err
    assert " figures in " in out
    assert not out.splitlines()[-1].startswith("0 figures")


@pytest.fixture
def subjects(monkeypatch, tmp_path):
    """Register three subjects, the second of which fails."""

    def broken(_pool):
        raise RuntimeError("12 columns, 11 values")

    monkeypatch.setattr(run, "RESULT", tmp_path / "bench.json")
    first, last = Figure("a", 1, "/s", "", at_least=2), Figure("c", 3, "ms", "")
    created = {"first": lambda _: [first], "second": broken, "third": lambda _: [last]}
    monkeypatch.setattr(run, "SUBJECTS", created)


def test_failed_subject_does_not_discard_figures_of_other_subjects(subjects, capsys):
    assert run.main([]) == 1
    out = capsys.readouterr().out
    assert "12 columns, 11 values" in out
    assert out.splitlines()[-2:] == ["targets missed: a", "subjects failed: second"]
    reported_report = report.load(run.RESULT)
    assert [
        figure.name for each in reported_report.subjects.values() for figure in each.figures
    ] == ["a", "c"]
    assert reported_report.subjects["second"].failed == "RuntimeError: 12 columns, 11 values"
    assert "Failed: `RuntimeError: 12 columns, 11 values`" in reported_report.markdown()


def test_interrupted_run_saves_results_measured_so_far(subjects, monkeypatch):
    def broken_off(_pool):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "SUBJECTS", {**run.SUBJECTS, "third": broken_off})
    with pytest.raises(KeyboardInterrupt):
        run.main([])
    assert list(report.load(run.RESULT).subjects) == ["first", "second"]
    assert "## first" in run.RESULT.with_suffix(".md").read_text()


def test_each_subject_is_printed_when_it_ends(subjects, capsys, monkeypatch):
    result = []
    measure = run.SUBJECTS["third"]
    later = {
        **run.SUBJECTS,
        "third": lambda pool: result.append(capsys.readouterr().out) or measure(pool),
    }
    monkeypatch.setattr(run, "SUBJECTS", later)
    run.main(["first", "third"])
    (before,) = result
    assert "1.00 /s" in before
    assert not run.RESULT.exists()


def test_unknown_subject_is_reported_before_any_measurement(subjects, capsys):
    assert run.main(["first", "thrid"]) == 2
    assert capsys.readouterr().out == "no subject: thrid; there are first, second, third\n"
