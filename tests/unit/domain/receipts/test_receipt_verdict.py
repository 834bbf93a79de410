"""Test the verdict on a receipt, from its checks."""

from __future__ import annotations

import pytest
from florin_server.cli.receipts import verify
from florin_server.domain.receipts.verdict import CheckOutcome, CheckResult, ReceiptCheck
from florin_server.rails.evm.reading.examine import FinalitySpec
from florin_server.rails.networks.registry import NETWORKS, find_network


@pytest.mark.parametrize("outcome", list(CheckOutcome))
def test_receipt_without_a_named_issuer_is_never_verified(outcome):
    results = [CheckResult(check, outcome, "") for check in ReceiptCheck]
    verdict = verify.VerificationReport(is_issuer_given=False, results=results)
    expected = {CheckOutcome.FAILED: verify.VerificationStatus.NOT_GENUINE}
    assert verdict.get_status is expected.get(outcome, verify.VerificationStatus.ISSUER_NOT_NAMED)


@pytest.mark.parametrize(
    "chain", [network.id for network in NETWORKS if network.id.startswith("eip155:")]
)
def test_receipt_on_a_registered_network_requires_its_finality_rule(chain):
    pace = find_network(chain).pace
    usual = FinalitySpec(pace.confirmations, pace.final_after_s, pace.finality_tag)
    assert usual.after_s > 0
    assert verify.get_finality_rule(chain, None) == usual
    assert verify.get_finality_rule(chain, 1) == usual._replace(confirmations=1)


def test_receipt_on_an_unregistered_chain_requires_default_or_chosen_depth():
    assert verify.get_finality_rule("eip155:31337", None) == FinalitySpec(12, 30)
    assert verify.get_finality_rule("eip155:31337", 1) == FinalitySpec(1)
