"""Test the short tampering campaign, and that it finds a planted bug."""

from __future__ import annotations

import pytest
from florin_server.domain.chains.solana import spl
from solders.instruction import AccountMeta, Instruction

from tests.chaos import tamper_solana
from tests.support.solana import list_instructions, rebuild_transaction

WORLD = tamper_solana.create_world


def test_nothing_that_was_tampered_with_pays_otherwise():
    result = tamper_solana.campaign(4000, seed=1)
    assert result["wrong"] == []
    # every result occurred, including guards and prices
    for outcomes in result["outcomes"].values():
        assert set(outcomes) >= tamper_solana.REASONS | {"pays"}


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("coin", [False, True])
@pytest.mark.parametrize("wallet", ["Phantom", "Solflare"])
def test_the_guards_that_wallets_add_pay(wallet, coin, durable):
    """Add guards that read the buyer's accounts and change nothing: one after, or one on each side.

    No instruction can come before the use of a nonce.
    """
    world = tamper_solana.create_world(coin=coin, durable=durable)
    buyer = world.message.account_keys[1]
    reads = [AccountMeta(buyer, is_signer=True, is_writable=False)]
    guard = Instruction(spl.LIGHTHOUSE, b"\x04note", reads)
    own = list_instructions(world.message)
    first = 1 if durable else 0
    before = [*own[:first], guard] if wallet == "Solflare" else own[:first]
    guarded = [*before, *own[first:], guard]
    raw = tamper_solana.sign(rebuild_transaction(world.message, guarded))
    assert raw != world.signed_transaction
    assert tamper_solana.execute_mutant(world, tamper_solana.check_mutant(world, raw)) == "pays"


def test_campaign_detects_a_check_without_comparison(monkeypatch):
    monkeypatch.setattr(tamper_solana.checking, "is_acceptable", lambda *_: True)
    assert tamper_solana.campaign(300, seed=1)["wrong"] != []


def test_the_campaign_sees_coin_that_goes_elsewhere(monkeypatch):
    def same_but_for_coin(ours, got, _):
        return len(ours.instructions) == len(got.instructions)

    monkeypatch.setattr(tamper_solana.checking, "is_acceptable", same_but_for_coin)
    monkeypatch.setattr(tamper_solana, "create_world", lambda **_: WORLD(coin=True))
    assert tamper_solana.campaign(600, seed=2)["wrong"] != []
