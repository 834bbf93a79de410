"""Test `make alone`: a test that depends on another fails, and leftovers reach no other test."""

from __future__ import annotations

import pytest

from tests.support import inner_pytest

# run by a separate pytest; the skip is there to be reported
TESTS = """
import atexit
import os
import pytest

left = []

@pytest.fixture(scope="module")
def process_id():
    left.append("fixture")
    yield os.getpid()
    {torn_down}

def test_one(process_id):
    left.append("one")
    print("a word of test one")
    atexit.register(lambda: print(os.getpid(), file=open(__file__ + ".ended", "a")))
    assert {text}

def test_two(process_id):
    assert left == {two}

@pytest.mark.skip(reason="it is not for today")
def test_three():
    pass
"""


@pytest.fixture
def ran(tmp_path):
    def run(*options: str, text: str = "True", two: str, torn_down: str = "pass"):
        return inner_pytest.run_pytest(
            tmp_path, TESTS.format(text=text, two=two, torn_down=torn_down), *options
        )

    return run


ALONE = ("-p", "tests.alone")
AFTER_ONE = '["fixture", "one"]'


def test_test_that_needs_another_test_fails_alone(ran):
    assert ran(two=AFTER_ONE).returncode == 0
    alone = ran(*ALONE, two=AFTER_ONE)
    assert alone.returncode == 1
    assert "1 failed, 1 passed, 1 skipped" in alone.stdout
    assert "test_two" in alone.stdout
    # a skip's report has another shape than a pass or a failure
    assert "it is not for today" in alone.stdout


def test_state_left_by_a_test_reaches_no_later_test(ran):
    assert ran(two='["fixture"]').returncode == 1
    assert ran(*ALONE, two='["fixture"]').returncode == 0


def test_exit_handlers_run_at_the_end_of_each_test(ran, tmp_path):
    assert ran(*ALONE, two='["fixture"]').returncode == 0
    assert len((tmp_path / "test_it.py.ended").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("changes", "expected_output"),
    [
        ({"text": "False"}, "a word of test one"),
        ({"text": "os._exit(7)"}, "the test's process ended with 7"),
        ({"text": "os.kill(os.getpid(), 9)"}, "the test's process ended with -9"),
        ({"torn_down": "assert not left"}, "ERROR at teardown of test_one"),
    ],
)
def test_failure_in_a_child_process_is_reported(ran, changes, expected_output):
    alone = ran(*ALONE, two='["fixture"]', **changes)
    assert alone.returncode == 1
    assert expected_output in alone.stdout
