"""The short form of the mutation campaign: one small module, and how a verdict is made."""

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
    """What no test calls, or no test notices, is named with what was changed."""
    group = Group(("flows/limits/places.py",), ("unit/test_places.py",))
    (found,) = mutated(group, tmp_path, 1, anew=True).values()
    assert found.killed > found.all / 2
    assert len(found.survivors) == found.all - found.killed
    assert all(found.survivors.values())
    # tests may have been written for them since
    again = mutated(
        *(group, tmp_path, 1),
        anew=False,
        again=found.survivors,
        patience=2,
        open_ones=lambda ended: [name for one in ended.values() for name in one.survivors],
    )
    assert again == {"flows.limits.places": found}
    # those that all tests of the group let live are not run by them once more
    assert json.loads((tmp_path / "alone.json").read_text()) == sorted(found.survivors)
    # that the machine was busy then changes nothing but what it was given
    told = tomllib.loads((tmp_path / "pyproject.toml").read_text())["tool"]["mutmut"]
    assert (told["timeout_multiplier"], told["timeout_constant"]) == (6.0, 30.0)


def test_every_group_has_its_modules_and_tests():
    package = ROOT / "server" / "florin_server"
    for group in GROUPS.values():
        assert all([*package.glob(one)] for one in group.modules)
        assert all([*(ROOT / "tests").glob(one)] for one in group.tests)


def test_what_tests_import_is_laid_out():
    folders = {one.name for one in ROOT.iterdir() if one.is_dir()}
    found = {
        name
        for path in (ROOT / "tests").rglob("*.py")
        for name in re.findall(r"^from (\w+)[. ]", path.read_text(), re.MULTILINE)
        if name in folders
    }
    assert "tools" in found
    assert found <= {"tests", *BESIDE}


def test_a_mutant_is_one_of_a_function():
    assert function_of(NAME) == "florin_server.domain.gcra.Bucket.take"
    plain = "florin_server.domain.ids.x_short_id__mutmut_2"
    assert function_of(plain) == "florin_server.domain.ids.short_id"


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
    found = {"domain.gcra": Found(outcomes, {NAME: "a < b"})}
    assert verdict(found, reasons) == code
    told = NAME in capsys.readouterr().out
    assert told is not ("a < b" in str(reasons) or "*" in str(reasons))


@pytest.mark.parametrize("name", tomllib.loads(REASONS.read_text()))
def test_a_reason_is_given_for_a_function_that_is_there(name):
    module, found = importlib.import_module("florin_server"), name.split(".")[1:]
    assert name.split(".")[0] == "florin_server"
    thing: Any = module
    while found:
        part = found.pop(0)
        if not hasattr(thing, part):
            importlib.import_module(f"{thing.__name__}.{part}")
        thing = getattr(thing, part)
    assert callable(thing)
