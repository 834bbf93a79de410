"""Test the rules that the test suite promises to keep."""

from __future__ import annotations

import ast
import gc
import os
from collections.abc import Iterator
from pathlib import Path

from tests.support.syntax import walk_statements

TESTS = Path(__file__).parents[2]


def imported(path: Path) -> Iterator[str]:
    for node in walk_statements(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_no_test_imports_another_test():
    """A test that imports another cannot be moved or read without it."""
    results = {
        str(path.relative_to(TESTS)): sorted(names)
        for path in TESTS.rglob("*.py")
        if (names := {text for text in imported(path) if ".test_" in text and text[:6] == "tests."})
    }
    assert results == {}


def test_a_fork_collects_nothing_that_it_inherits():
    """A gRPC channel collected in a fork would wait forever for a thread that is missing there."""

    class Left:
        def __del__(self):
            if os.getpid() != owner:
                os._exit(1)

    owner, item = os.getpid(), Left()
    item.itself = item
    del item
    if not (child := os.fork()):
        still = gc.isenabled()
        gc.collect()
        os._exit(0 if still else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert gc.isenabled()
