"""The common deployer is what everybody's documents say, down to the last byte."""

from __future__ import annotations

import pytest
import rlp
from eth_account import Account
from eth_utils import keccak
from florin_server.boot.chains.setup import settlement_contract
from florin_server.rails.evm.setup.deployment import (
    DEPLOYER,
    DEPLOYER_CODE,
    DEPLOYER_PAYER,
    DEPLOYER_TRANSACTION,
    DEPLOYER_WEI,
    Contract,
    coins,
)

# of the first time that it was sent, on Ethereum
KNOWN_HASH = "0xeddf9e61fb9d8f5111840daef55e5fde0041f5702856532cdbb5a02998033d26"


def test_its_transaction_is_the_one_that_everybody_sends():
    assert "0x" + keccak(DEPLOYER_TRANSACTION).hex() == KNOWN_HASH
    assert Account.recover_transaction(DEPLOYER_TRANSACTION).lower() == DEPLOYER_PAYER
    made = keccak(rlp.encode([bytes.fromhex(DEPLOYER_PAYER[2:]), 0]))[12:]
    assert "0x" + made.hex() == DEPLOYER
    assert rlp.decode(DEPLOYER_TRANSACTION)[5].endswith(DEPLOYER_CODE)
    assert DEPLOYER_WEI == 10**16


def test_the_address_depends_on_every_byte_of_the_contract():
    contract = settlement_contract()
    other = Contract(contract.init_code + b"\0", contract.runtime)
    assert contract.address != other.address
    assert len(contract.address) == 42


@pytest.mark.parametrize(
    ("wei", "text"),
    [(0, "0.000000"), (1, "0.000001"), (10**16, "0.010000"), (12 * 10**18 + 1, "12.000001")],
)
def test_coins_are_told_rounded_up(wei, text):
    assert coins(wei) == text
