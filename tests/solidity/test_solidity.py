"""The settlement contract, tried and proven with the tools that others trust; short forms."""

from __future__ import annotations

import json
import os

import pytest

from tests.solidity import tools as programs
from tests.solidity.tools import HERE, Tools

pytestmark = pytest.mark.slow

PROVEN = {
    "check_aBatchTellsTheTruth",
    "check_directPaymentIsExact",
    "check_directPaymentIsMadeOnce",
    "check_noRouteEndsHereOrNowhere",
    "check_onlyTheBuyerPaysDirectly",
    "check_signedPaymentIsExact",
}
INVARIANT = "invariant_everybodyHoldsWhatTheModelSays"


@pytest.fixture(scope="module")
def tools() -> Tools:
    found = programs.tools()
    if isinstance(found, str):
        missing = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        missing(f"NOT TESTED with forge, halmos and slither: {found}")
    return found


def test_nothing_that_anybody_does_breaks_the_model(tools):
    told = programs.forge(tools)
    assert {name: one.reason for name, one in told.items() if not one.passed} == {}
    assert told[INVARIANT].calls == 32 * 64
    assert len(told) == 4


def test_every_property_of_one_payment_is_proven(tools):
    assert programs.symbolic(tools) == dict.fromkeys(PROVEN, True)


def test_every_finding_of_slither_is_answered(tools):
    answers = json.loads((HERE / "answers.json").read_text())
    assert {f"{check} {place}" for check, place in programs.slither(tools)} == set(answers)


def test_payments_cost_what_they_did(tools):
    assert programs.gas(tools) == ""


def test_a_planted_hole_is_found(tools):
    holed = programs.with_hole(tools, "a direct payment is made twice", proofs_only=True)
    proven = programs.symbolic(holed)
    assert [name for name, good in proven.items() if not good] == ["check_directPaymentIsMadeOnce"]
