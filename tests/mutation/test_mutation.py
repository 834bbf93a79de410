"""Test the short mutation campaign on one small module, and how a verdict is made."""

from __future__ import annotations

import ast
import importlib
import itertools
import json
import keyword
import re
import tomllib
from collections import Counter
from typing import Any

import pytest

from tests.mutation.__main__ import REASONS, function_of, verdict
from tests.mutation.campaign import BESIDE, ROOT, Found, mutated
from tests.mutation.groups import GROUPS, Group

pytestmark = pytest.mark.long

NAME = "florin_server.domain.gcra.xǁBucketǁtake__mutmut_11"


@pytest.mark.slow
def test_mutants_of_a_module_are_killed_by_its_tests(tmp_path):
    """Code that no test calls or checks is named with its change."""
    group = Group(("limits/service/stream_slots.py",), ("unit/limits/test_stream_slots.py",))
    (result,) = mutated(group, tmp_path, 1, anew=True).values()
    assert result.killed > result.all / 2
    assert len(result.survivors) == result.all - result.killed
    assert all(result.survivors.values())
    # tests could have been written for them since
    again = mutated(
        *(group, tmp_path, 1),
        anew=False,
        again=result.survivors,
        patience=2,
        open_ones=lambda ended: [name for item in ended.values() for name in item.survivors],
    )
    assert again == {"limits.service.stream_slots": result}
    # survivors of all tests of the group are not run with them again
    assert json.loads((tmp_path / "alone.json").read_text()) == sorted(result.survivors)
    # a run on a busy machine changes nothing except its time limits
    mutmut = tomllib.loads((tmp_path / "pyproject.toml").read_text())["tool"]["mutmut"]
    assert (mutmut["timeout_multiplier"], mutmut["timeout_constant"]) == (6.0, 30.0)


def test_every_group_has_its_modules_and_tests():
    package = ROOT / "server" / "florin_server"
    for group in GROUPS.values():
        assert all([*package.glob(module)] for module in group.modules)
        assert all([*(ROOT / "tests").glob(test)] for test in group.tests)


def test_mutation_workspace_includes_every_imported_folder():
    folders = {path.name for path in ROOT.iterdir() if path.is_dir()}
    results = {
        name
        for path in (ROOT / "tests").rglob("*.py")
        for name in re.findall(r"^from (\w+)[. ]", path.read_text(), re.MULTILINE)
        if name in folders
    }
    assert "tools" in results
    assert results <= {"tests", *BESIDE}


def test_mutant_name_maps_to_its_function():
    assert function_of(NAME) == "florin_server.domain.gcra.Bucket.take"
    plain = "florin_server.domain.ids.x_generate_short_id__mutmut_2"
    assert function_of(plain) == "florin_server.domain.ids.generate_short_id"


@pytest.mark.parametrize(
    ("killed", "reasons", "code"),
    [
        (99, {}, 1),
        (99, {"florin_server.domain.gcra.Bucket.take": {"a < b": "both are alike there"}}, 0),
        (99, {"florin_server.domain.gcra.Bucket.take": {"*": "any change is equivalent"}}, 0),
        (99, {"florin_server.domain.gcra.Bucket.take": {"a > b": "another one"}}, 1),
        (18, {"florin_server.domain.gcra.Bucket.take": {"a < b": "both are alike there"}}, 1),
    ],
)
def test_survivors_need_reasons_and_most_must_be_killed(killed, reasons, code, capsys):
    outcomes = Counter(killed=killed, survived=1)
    results = {"domain.gcra": Found(outcomes, {NAME: "a < b"})}
    assert verdict(results, reasons) == code
    result = NAME in capsys.readouterr().out
    assert result is not ("a < b" in str(reasons) or "*" in str(reasons))


def read_function_lines(name: str) -> list[str]:
    """Return the lines of a function, by its dotted name."""
    *parts, last = name.split(".")
    path = ROOT / "server"
    while (path / parts[0]).is_dir():
        path /= parts.pop(0)
    text = (path / f"{parts.pop(0)}.py").read_text()
    node: Any = ast.parse(text)
    for part in (*parts, last):
        node = next(item for item in node.body if getattr(item, "name", "") == part)
    return [line.strip() for line in text.splitlines()[node.lineno - 1 : node.end_lineno]]


def list_names(code: str) -> set[str]:
    """Return the names in a line of code, without keywords and texts."""
    plain = re.sub(r"\"[^\"]*\"|'[^']*'", "", code)
    return {*re.findall(r"[A-Za-z_]\w*", plain)} - {*keyword.kwlist}


def is_change_of(line: str, mutant: str) -> bool:
    """Return whether a mutant can be a change of the line: in one place, and with its names."""
    # mutmut swaps methods that search from the left and from the right
    line, mutant = (re.sub(r"\.r(partition|find|split)\(", r".\1(", s) for s in (line, mutant))
    start = count_shared(line, mutant)
    shared = start + count_shared(line[start:][::-1], mutant[start:][::-1])
    return list_names(mutant) <= list_names(line) and shared >= LEAST_SHARED * len(line)


def count_shared(first: str, second: str) -> int:
    """Return how many characters two texts share at their start."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


# in the shortest lines, such as `return False`, half of the text is changed
LEAST_SHARED = 0.5


@pytest.mark.parametrize("name", tomllib.loads(REASONS.read_text()))
def test_every_quoted_mutant_is_a_change_of_its_function(name):
    lines = read_function_lines(name)
    for mutant in tomllib.loads(REASONS.read_text())[name]:
        if mutant != "*":
            assert any(is_change_of(line, mutant) for line in lines), mutant


@pytest.mark.parametrize(
    ("line", "mutant", "is_change"),
    [
        ("return True", "return False", True),
        ("x = find(first, second, strict=True)", "x = find(first, second, )", True),
        ("a, b = text.rpartition(':')", "a, b = text.partition(':')", True),
        ("x = g(a) if a else None", "x = g(a) if (a) or True else None", True),
        ("x = f(b, strict=True)", "x = f(a, strict=False)", False),
        ("count = 1", "return 2", False),
    ],
)
def test_stale_quote_is_not_a_change_of_a_line(line, mutant, is_change):
    assert is_change_of(line, mutant) is is_change


@pytest.mark.parametrize("name", tomllib.loads(REASONS.read_text()))
def test_every_mutation_reason_names_an_existing_function(name):
    module, result = importlib.import_module("florin_server"), name.split(".")[1:]
    assert name.split(".")[0] == "florin_server"
    thing: Any = module
    while result:
        part = result.pop(0)
        if not hasattr(thing, part):
            importlib.import_module(f"{thing.__name__}.{part}")
        thing = getattr(thing, part)
    assert callable(thing)
