"""Test the short mutation campaign on one small module, and how a verdict is made."""

from __future__ import annotations

import importlib
import json
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
    group = Group(("limits/service/places.py",), ("unit/limits/test_places.py",))
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
    assert again == {"limits.service.places": result}
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
        (99, {"florin_server.domain.gcra.Bucket.take": {"*": "whatever it is"}}, 0),
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
