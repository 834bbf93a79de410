"""Test and prove the settlement contracts with widely trusted tools, in short forms."""

from __future__ import annotations

import json
import os

import pytest

from contracts.proofs import tools as programs
from contracts.proofs.tools import HERE, Tools

pytestmark = pytest.mark.slow

PROVEN = {
    "check_aBatchTellsTheTruth",
    "check_directPaymentIsExact",
    "check_directPaymentIsMadeOnce",
    "check_forwardedPaymentIsExact",
    "check_moneyGoesHomeOnlyAfterTheEnd",
    "check_noRouteEndsHereOrNowhere",
    "check_onlyTheBuyerPaysDirectly",
    "check_routeIsPaidOnce",
    "check_saltCoversTheRoute",
    "check_signedPaymentIsExact",
    "check_twoTogetherAreExact",
    "check_vaultObeysTheForwarderAlone",
}
INVARIANTS = ("invariant_everybodyHoldsWhatTheModelSays", "invariant_moneyIsWhereTheModelSays")


@pytest.fixture(scope="module")
def tools() -> Tools:
    result = programs.tools()
    if isinstance(result, str):
        missing = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        missing(f"NOT TESTED with forge, halmos and slither: {result}")
    return result


def test_nothing_that_anybody_does_breaks_the_model(tools):
    result = programs.forge(tools)
    assert {name: item.reason for name, item in result.items() if not item.passed} == {}
    assert {result[invariant].calls for invariant in INVARIANTS} == {32 * 64}
    assert len(result) == 4 + 59


def test_every_property_of_a_payment_is_proven(tools):
    assert programs.symbolic(tools) == dict.fromkeys(PROVEN, True)


def test_every_finding_of_slither_is_answered(tools):
    answers = json.loads((HERE / "answers.json").read_text())
    assert {f"{check} {place}" for check, place in programs.slither(tools)} == set(answers)


def test_payment_gas_is_unchanged(tools):
    assert programs.gas(tools) == ""


def test_bug_planted_in_the_settlement_contract_is_detected(tools):
    broken = programs.plant_bug(tools, "a direct payment is made twice", proofs_only=True)
    proven = programs.symbolic(broken)
    assert [name for name, good in proven.items() if not good] == ["check_directPaymentIsMadeOnce"]


def test_bug_planted_in_the_forwarder_is_detected(tools):
    broken = programs.plant_bug(tools, "the payment goes home before its end")
    failed = {name for name, item in programs.forge(broken).items() if not item.passed}
    assert "test_secondEntryOfATokenSendsNothingHomeBeforeTheEnd" in failed
    # the copy is compiled in another way, which must not change the rest
    assert "test_exactTokenIsForwardedOnce" not in failed
