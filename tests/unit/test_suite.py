"""What the tests promise of themselves."""

from __future__ import annotations

import ast
import gc
import os
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)


def test_what_tests_share_is_in_no_test():
    """A test that imports another cannot be moved or read without it."""
    found = {
        str(path.relative_to(TESTS)): sorted(names)
        for path in TESTS.rglob("*.py")
        if (names := {one for one in imported(path) if ".test_" in one and one[:6] == "tests."})
    }
    assert found == {}


def test_a_fork_collects_nothing_that_it_inherits():
    """A gRPC channel that is collected there waits for a thread that is not there, for ever."""

    class Left:
        def __del__(self):
            if os.getpid() != owner:
                os._exit(1)

    owner, one = os.getpid(), Left()
    one.itself = one
    del one
    if not (child := os.fork()):
        still = gc.isenabled()
        gc.collect()
        os._exit(0 if still else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert gc.isenabled()
