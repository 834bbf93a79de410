"""Test that all tests skipped under profiles exist, each with one reason."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

from tests.support.chainlab.own_pace import SKIPPED, SKIPPED_UNDER
from tests.support.chainlab.profiles import BY_NAME

SUITES = Path(__file__).parents[1]


def list_named(skipped: Mapping[str, Mapping[str, tuple[str, ...]]]) -> list[tuple[str, str]]:
    return [
        (path, name)
        for files in skipped.values()
        for path, names in files.items()
        for name in names
    ]


def test_skipped_tests_exist_and_have_a_single_reason():
    always = list_named(SKIPPED)
    named = list(always)
    for profile, skipped in SKIPPED_UNDER.items():
        assert profile in BY_NAME
        more = list_named(skipped)
        assert len({*always, *more}) == len(always) + len(more)
        named += more
    assert len(set(always)) == len(always)
    for path in {path for path, _ in named}:
        tree = ast.parse((SUITES / path).read_text())
        defined = {
            stmt.name
            for stmt in tree.body
            if isinstance(stmt, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert {name for place, name in named if place == path} <= defined
