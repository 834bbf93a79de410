"""A chain without a coin, as Tempo: fees in a token, and slots at 250,000 gas."""

from __future__ import annotations

from typing import Any, Final

from florin_server.chains.evm import abi
from florin_server.devnet.evm import DEVNET
from florin_server.devnet.evm.schedule import GasSchedule
from florin_server.devnet.evm.token_fees import TokenFees
from florin_server.rails.evm.gas_money import FEE_MANAGER, SET_USER_TOKEN

from tests.support.chains import OwnChain
from tests.support.evm_lab import Lab

DOLLAR: Final = DEVNET.token.address
PRICES: Final = GasSchedule(250_000, 250_000, 40)
SETTINGS: Final[dict[str, Any]] = {"fee_token": DOLLAR, "payment_gas_max": 1_500_000}


def tempo() -> OwnChain:
    """Fees of this chain are charged in the test dollar."""
    return OwnChain(PRICES, TokenFees(DOLLAR, slot=2, manager=FEE_MANAGER))


async def choose(lab: Lab, key: bytes) -> None:
    """Has an account pay fees in the test dollar."""
    data = SET_USER_TOKEN + abi.address(DOLLAR)
    await lab.send(key=key, to=FEE_MANAGER, data=data, maxFeePerGas=2 * 10**9)
