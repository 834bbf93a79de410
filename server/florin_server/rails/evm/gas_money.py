"""The money that pays for gas: a chain's coin, or the token in which it charges fees.

Gas is priced in wei everywhere. Where fees are charged in a token, as on Tempo, 10^12 wei are one
minor unit of a token of six decimals, and each fee is rounded up.
"""

from __future__ import annotations

from typing import Any, Final

from florin_server.chains.evm import abi
from florin_server.rails.connection.jsonrpc import Call
from florin_server.rails.evm.reading.node import LATEST, call_to, quantity, returned, uint
from florin_server.rails.evm.settings import EvmChain

FEE_TOKEN_DECIMALS: Final = 6
UNIT_WEI: Final = 10**12
# where accounts of Tempo say which token they pay fees in, and where fees go
FEE_MANAGER: Final = "0xfeec000000000000000000000000000000000000"
SET_USER_TOKEN: Final = abi.selector("setUserToken(address)")
_USER_TOKENS: Final = abi.selector("userTokens(address)")
_BALANCE_OF: Final = abi.selector("balanceOf(address)")


def unit_of(chain: EvmChain) -> int:
    """Return the wei of one minor unit of what gas is paid with."""
    return 1 if chain.fee_token is None else UNIT_WEI


def name_of(chain: EvmChain) -> str:
    """Return what gas is paid with, for sentences."""
    return "the chain's coin" if chain.fee_token is None else f"the fee token {chain.fee_token}"


def ask_held(chain: EvmChain, address: str, block: str = LATEST) -> Call:
    """Return the question what an address can pay gas with; `held_of` reads the answer."""
    if chain.fee_token is None:
        return ("eth_getBalance", (address, block))
    return call_to(chain.fee_token, _BALANCE_OF + abi.address(address), block=block)


def held_of(chain: EvmChain, answer: Any) -> int:
    """Return what an address can pay gas with, in wei."""
    return quantity(answer) if chain.fee_token is None else uint(answer) * UNIT_WEI


def cost_of(chain: EvmChain, wei: int) -> int:
    """Return what is charged for so many wei, in minor units of the chain's `native_asset`."""
    return -(-wei // unit_of(chain))


def ask_choice(address: str) -> Call:
    """Return the question which fee token an account chose; `chosen_of` reads the answer."""
    return call_to(FEE_MANAGER, _USER_TOKENS + abi.address(address))


def choice_problem(chain: EvmChain, address: str, answer: Any) -> str | None:
    """Return why an account pays in another token than the settings say, None if it does not.

    What an account has not chosen depends on each transaction: a plain transfer of a token would be
    charged in that token.
    """
    chosen = returned(answer)
    if chosen is None or len(chosen) != abi.WORD:
        return f"{address} cannot choose a fee token: there is no fee manager at {FEE_MANAGER}"
    if chosen == abi.address(chain.fee_token or ""):
        return None
    return (
        f"{address} has not chosen {chain.fee_token} to pay fees with: "
        f"run `florin chain deploy {chain.caip2}`"
    )
