"""Test that a run writes all its measurements, in both formats."""

from __future__ import annotations

import json

import pytest

from tests.bench import machine, report
from tests.bench.report import Figure, Measured, Report, median_of

RATE = median_of("a_per_s", (90.0, 110.0, 101.0), "/s", "64 at once", cpu_us=212.2)
RATIO = Figure("a_vs_b", 1.5, "×", "by CPU | wall", at_least=2, peer="b")


@pytest.fixture
def bench_report():
    bare = Figure("c", 0, "", "")
    subjects = {
        "a": Measured(3.0, (RATE, RATIO, bare)),
        "b": Measured(1.0, failed="OSError: no disk"),
    }
    return Report({"cores": "2"}, subjects)


def test_saved_report_loads_unchanged(bench_report, tmp_path):
    bench_report.save(tmp_path / "bench.json")
    assert report.load(tmp_path / "bench.json") == bench_report


def test_figure_is_reported_with_range_cpu_time_target_and_peer(bench_report, tmp_path):
    bench_report.save(tmp_path / "bench.json")
    content = json.loads((tmp_path / "bench.json").read_text())
    rate, ratio, _ = content["subjects"]["a"]["figures"]
    assert (rate["value"], rate["min"], rate["max"], rate["cpu_us"]) == (101, 90, 110, 212.2)
    assert (ratio["met"], ratio["at_least"], ratio["peer"]) == (False, 2, "b")
    text = (tmp_path / "bench.md").read_text()
    assert "| `a_per_s` | 101 /s | 90.00 … 110 | 212 µs |  |  |  | 64 at once |" in text
    assert "| `a_vs_b` | 1.50 × |  |  | ≥ 2 | **no** | b | by CPU \\| wall |" in text
    assert "- cores: 2" in text


def test_a_file_is_there_whole_or_as_it_was(bench_report, tmp_path, monkeypatch):
    bench_report.save(tmp_path / "bench.json")
    before = (tmp_path / "bench.json").read_text()
    monkeypatch.setattr(report.os, "fsync", _full)
    with pytest.raises(OSError, match="disk is full"):
        Report({"cores": "3"}).save(tmp_path / "bench.json")
    assert (tmp_path / "bench.json").read_text() == before


def _full(_file):
    raise OSError("the disk is full")


def test_failure_reason_is_a_single_short_line():
    assert report.fault(ValueError("a\n  b" + "x" * 999)).startswith("ValueError: a bxxx")
    assert len(report.fault(ValueError("x" * 999))) == 500


def test_machine_facts_are_reported():
    facts = machine.facts()
    assert int(facts["cores"]) >= 1
    assert {"commit", "grpcio", "SQLite", "PostgreSQL", "load before"} <= facts.keys()
    assert all(isinstance(fact, str) for fact in facts.values())
