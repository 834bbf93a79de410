"""What the checks of a receipt come to."""

from __future__ import annotations

import pytest
from florin_server.cli.receipts import verify
from florin_server.domain.receipts.verdict import Check, Outcome, Result
from florin_server.rails.evm.reading.examine import FinalityRule
from florin_server.rails.networks.registry import NETWORKS, network


@pytest.mark.parametrize("outcome", list(Outcome))
def test_receipt_without_a_named_issuer_is_never_verified(outcome):
    results = [Result(check, outcome, "") for check in Check]
    verdict = verify.Verdict(names_issuer=False, results=results)
    expected = {Outcome.FAILED: verify.Status.NOT_GENUINE}
    assert verdict.status is expected.get(outcome, verify.Status.ISSUER_NOT_NAMED)


@pytest.mark.parametrize("chain", [one.id for one in NETWORKS if one.id.startswith("eip155:")])
def test_receipt_on_a_known_network_needs_its_seconds_and_its_tag(chain):
    pace = network(chain).pace
    usual = FinalityRule(pace.confirmations, pace.final_after_s, pace.finality_tag)
    assert usual.after_s > 0
    assert verify.get_finality_rule(chain, None) == usual
    assert verify.get_finality_rule(chain, 1) == usual._replace(confirmations=1)


def test_receipt_on_another_chain_needs_blocks_of_half_a_minute_or_the_number_that_is_given():
    assert verify.get_finality_rule("eip155:31337", None) == FinalityRule(12, 30)
    assert verify.get_finality_rule("eip155:31337", 1) == FinalityRule(1)
