"""The short form of the tampering campaign, and proof that it finds a hole."""

from __future__ import annotations

from tests.chaos import tamper_solana


def test_nothing_that_was_tampered_with_pays_otherwise():
    result = tamper_solana.campaign(3000, seed=1)
    assert result["wrong"] == []
    outcomes = result["outcomes"]
    # every way to end was taken, guards and prices included
    assert set(outcomes) >= tamper_solana.REASONS | {"pays"}


def test_the_campaign_sees_what_a_check_without_its_comparison_lets_through(monkeypatch):
    monkeypatch.setattr(tamper_solana.checking, "acceptable", lambda *_: True)
    assert tamper_solana.campaign(300, seed=1)["wrong"] != []
