"""What the tests promise of themselves."""

from __future__ import annotations

import ast
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
