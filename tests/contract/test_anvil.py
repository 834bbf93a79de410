"""The other EVM chain that tests run on: it comes by itself, and goes with who asked for it."""

from __future__ import annotations

import pytest

from tests.support import anvil


def test_a_fresh_chain_answers_and_ends():
    with anvil.running(chain_id=84532) as first, anvil.running() as second:
        assert (first.ask("eth_chainId"), second.ask("eth_chainId")) == ("0x14a34", "0x7a69")
        first.ask("evm_mine")
        assert (first.ask("eth_blockNumber"), second.ask("eth_blockNumber")) == ("0x1", "0x0")
    for one in (first, second):
        with pytest.raises(ConnectionRefusedError):
            one.ask("eth_chainId")


@pytest.mark.parametrize(
    ("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)]
)
def test_what_keeps_it_away_is_told_and_fails_in_ci(monkeypatch, tmp_path, ci, outcome):
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(anvil, "BUILD", tmp_path)
    monkeypatch.setattr(anvil, "_installed", anvil._installed.__wrapped__)
    with pytest.raises(outcome, match="NOT TESTED against anvil: there is no Node here"):
        anvil.program()
