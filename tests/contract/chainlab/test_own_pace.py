"""Tests that are skipped under profiles: all of them exist, and each has one reason."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.support.chainlab.own_pace import SKIPPED

SUITES = Path(__file__).parents[1]


def test_skipped_tests_exist_and_have_one_reason():
    named = [
        (path, name)
        for files in SKIPPED.values()
        for path, names in files.items()
        for name in names
    ]
    assert len(named) == len(set(named))
    for path in {path for path, _ in named}:
        tree = ast.parse((SUITES / path).read_text())
        defined = {
            one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert {name for place, name in named if place == path} <= defined
