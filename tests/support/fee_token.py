"""A chain without a native coin, like Tempo: fees in a token, and slots at 250,000 gas."""

from __future__ import annotations

from typing import Any, Final

from florin_sandbox.devnet.evm import DEVNET
from florin_sandbox.devnet.evm.schedule import GasSchedule
from florin_sandbox.devnet.evm.token_fees import TokenFees
from florin_server.domain.chains.evm import abi
from florin_server.rails.evm.gas_money import FEE_MANAGER, SET_USER_TOKEN

from tests.support.chains import EmbeddedChains
from tests.support.evm_harness import EvmChainHarness

DOLLAR: Final = DEVNET.token.address
PRICES: Final = GasSchedule(250_000, 250_000, 40)
SETTINGS: Final[dict[str, Any]] = {"fee_token": DOLLAR, "payment_gas_max": 1_500_000}


def make_tempo_chains() -> EmbeddedChains:
    """Return chains whose fees are charged in the test dollar."""
    return EmbeddedChains(PRICES, TokenFees(DOLLAR, slot=2, manager=FEE_MANAGER))


async def choose_fee_token(lab: EvmChainHarness, key: bytes) -> None:
    """Make an account pay fees in the test dollar."""
    data = SET_USER_TOKEN + abi.encode_address(DOLLAR)
    await lab.send(key=key, to=FEE_MANAGER, data=data, maxFeePerGas=2 * 10**9)
