"""Test that the common deployer matches its public documentation, to the last byte."""

from __future__ import annotations

import pytest
import rlp
from eth_account import Account
from eth_utils import keccak
from florin_server.app.chains.setup import load_settlement_contract
from florin_server.rails.evm.setup.deployment import (
    DEPLOYER,
    DEPLOYER_CODE,
    DEPLOYER_PAYER,
    DEPLOYER_TRANSACTION,
    DEPLOYER_WEI,
    DeployableContract,
    format_coins,
)

# of its first deployment, on Ethereum
KNOWN_HASH = "0xeddf9e61fb9d8f5111840daef55e5fde0041f5702856532cdbb5a02998033d26"


def test_deployer_transaction_matches_the_public_deployer():
    assert "0x" + keccak(DEPLOYER_TRANSACTION).hex() == KNOWN_HASH
    assert Account.recover_transaction(DEPLOYER_TRANSACTION).lower() == DEPLOYER_PAYER
    created = keccak(rlp.encode([bytes.fromhex(DEPLOYER_PAYER[2:]), 0]))[12:]
    assert "0x" + created.hex() == DEPLOYER
    assert rlp.decode(DEPLOYER_TRANSACTION)[5].endswith(DEPLOYER_CODE)
    assert DEPLOYER_WEI == 10**16


def test_the_address_depends_on_every_byte_of_the_contract():
    contract = load_settlement_contract()
    other = DeployableContract(contract.init_code + b"\0", contract.runtime)
    assert contract.address != other.address
    assert len(contract.address) == 42


@pytest.mark.parametrize(
    ("wei", "text"),
    [(0, "0.000000"), (1, "0.000001"), (10**16, "0.010000"), (12 * 10**18 + 1, "12.000001")],
)
def test_coin_amounts_are_formatted_rounded_up(wei, text):
    assert format_coins(wei) == text
