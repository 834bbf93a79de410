"""Test the short tampering campaign, and that it finds planted bugs."""

from __future__ import annotations

import pytest

from tests.chaos import evm_mutants, tamper_evm

pytestmark = pytest.mark.slow

# what each planted bug lets through, and for which accounts
PLANTED_BUGS = {
    "accept-all": (evm_mutants.flip_bytes, "key"),
    "any-factory": (evm_mutants.rewrap, "unborn"),
    "believe-tokens": (evm_mutants.reencode, "key"),
    "loose-hex": (evm_mutants.break_hex, "contract"),
    "loose-wrapper": (evm_mutants.rewrap, "unborn"),
}


async def test_nothing_that_was_tampered_with_pays_otherwise():
    result = await tamper_evm.campaign(2500, seed=1)
    assert result["wrong"] == []
    # every kind of account had every result
    ends = {"signature_mismatch", "unreadable_output", "taken", "mismatch", "unreadable"}
    met = {f"{kind}: {end}" for kind in evm_mutants.KINDS for end in ends}
    assert set(result["outcomes"]) >= {
        *met,
        "key: insufficient_funds",
        "unborn: insufficient_funds",
    }


@pytest.mark.parametrize("bug", sorted(tamper_evm.BUGS))
async def test_planted_bug_is_detected(bug, monkeypatch):
    mutation, kind = PLANTED_BUGS[bug]
    tamper_evm.plant(bug, monkeypatch.setattr)
    assert (await tamper_evm.campaign(100, 1, [mutation], [kind]))["wrong"] != []
