"""`make alone`: a test that needs another one fails, and what a test leaves reaches no other."""

from __future__ import annotations

import pytest

from tests.support import inner

# run by pytest on its own; the skip in it is there to be told
TESTS = """
import atexit
import os
import pytest

left = []

@pytest.fixture(scope="module")
def made():
    left.append("fixture")
    yield os.getpid()
    {torn_down}

def test_one(made):
    left.append("one")
    print("a word of test one")
    atexit.register(lambda: print(os.getpid(), file=open(__file__ + ".ended", "a")))
    assert {one}

def test_two(made):
    assert left == {two}

@pytest.mark.skip(reason="it is not for today")
def test_three():
    pass
"""


@pytest.fixture
def ran(tmp_path):
    def run(*options: str, one: str = "True", two: str, torn_down: str = "pass"):
        return inner.run(tmp_path, TESTS.format(one=one, two=two, torn_down=torn_down), *options)

    return run


ALONE = ("-p", "tests.alone")
AFTER_ONE = '["fixture", "one"]'


def test_a_test_that_needs_another_one_fails(ran):
    assert ran(two=AFTER_ONE).returncode == 0
    alone = ran(*ALONE, two=AFTER_ONE)
    assert alone.returncode == 1
    assert "1 failed, 1 passed, 1 skipped" in alone.stdout
    assert "test_two" in alone.stdout
    # a report of another shape than those of passes and failures
    assert "it is not for today" in alone.stdout


def test_what_a_test_left_reaches_no_other(ran):
    assert ran(two='["fixture"]').returncode == 1
    assert ran(*ALONE, two='["fixture"]').returncode == 0


def test_what_is_left_to_the_end_of_a_process_is_done_at_the_end_of_a_test(ran, tmp_path):
    assert ran(*ALONE, two='["fixture"]').returncode == 0
    assert len((tmp_path / "test_it.py.ended").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"one": "False"}, "a word of test one"),
        ({"one": "os._exit(7)"}, "the test's process ended with 7"),
        ({"one": "os.kill(os.getpid(), 9)"}, "the test's process ended with -9"),
        ({"torn_down": "assert not left"}, "ERROR at teardown of test_one"),
    ],
)
def test_what_fails_in_a_process_of_its_own_is_told(ran, changes, told):
    alone = ran(*ALONE, two='["fixture"]', **changes)
    assert alone.returncode == 1
    assert told in alone.stdout
