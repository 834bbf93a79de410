"""Test `make shuffle`: a seed sets the order, repeats it, and is reported with each failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import shuffle

pytestmark = pytest.mark.slow

TESTS = """
import os, random
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range(20))
def test_one(number):
    with Path({seen!r}).open("a") as file:
        print(number, random.random(), hash("x"), file=file)
    assert number != {bad}
"""


@pytest.fixture
def suite(tmp_path, monkeypatch):
    monkeypatch.setattr(shuffle, "FOLDER", tmp_path / "shuffle")
    # a file outside of the checkout is run without its settings
    monkeypatch.setattr(shuffle, "PARALLEL", ("-n", "0", "-p", "no:schemathesis"))

    def write(bad: int = -1):
        file = tmp_path / "test_it.py"
        file.write_text(TESTS.format(seen=str(tmp_path / "seen"), bad=bad))
        return str(file)

    return write


def seen_in(tmp_path):
    text = (tmp_path / "seen").read_text()
    (tmp_path / "seen").unlink()
    return text.splitlines()


def test_a_seed_is_an_order_that_can_be_repeated(suite, tmp_path, capsys):
    orders = []
    for seed in (3, 3, 4):
        assert shuffle.main(["--runs", "1", "--seed", str(seed), suite()]) == 0
        orders.append(seen_in(tmp_path))
    first, again, other = orders
    assert first == again != other
    assert len({line.split()[0] for line in other}) == 20
    assert "1 of 1 runs without a failure" in capsys.readouterr().out


def test_failure_is_reported_with_its_seeds(suite, tmp_path, capsys):
    assert shuffle.main(["--runs", "2", "--seed", "7", suite(bad=5)]) == 1
    out = capsys.readouterr().out
    assert out.count("test_one[5]") == 2
    assert "0 of 2 runs without a failure" in out
    for seed in (7, 8):
        assert f"PYTHONHASHSEED={seed} " in out
        assert f"--randomly-seed={seed} --hypothesis-seed={seed}" in out


def test_tests_are_chosen_by_their_marker(suite, tmp_path, capsys):
    file = suite(bad=5)
    other = "\n\n@pytest.mark.long\ndef test_two():\n    pass\n"
    Path(file).write_text(Path(file).read_text() + other)
    assert shuffle.main(["--runs", "1", "--seed", "7", "-m", "long", file]) == 0
    assert "1 tests, 0 skipped" in capsys.readouterr().out
    assert shuffle.main(["--runs", "1", "--seed", "7", "-m", "not long", file]) == 1
    assert f"-m 'not long' {file}" in capsys.readouterr().out


def test_run_without_tests_fails(suite, tmp_path, capsys):
    (tmp_path / "test_none.py").write_text("")
    assert shuffle.main(["--runs", "1", str(tmp_path / "test_none.py")]) == 1
