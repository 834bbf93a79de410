"""The money that pays for gas: a chain's native coin, or the token in which it charges fees.

Gas is priced in wei everywhere. Where fees are charged in a token, as on Tempo, 10^12 wei are one
minor unit of a token of six decimals, and each fee is rounded up.
"""

from __future__ import annotations

from typing import Any, Final

from florin_server.domain.chains.evm import abi
from florin_server.rails.connection.jsonrpc import RpcCall
from florin_server.rails.evm.reading.node import (
    LATEST,
    build_call,
    parse_quantity,
    parse_returned,
    parse_uint,
)
from florin_server.rails.evm.settings import EvmChainSettings

FEE_TOKEN_DECIMALS: Final = 6
UNIT_WEI: Final = 10**12
# on Tempo, the contract where accounts choose their fee token, and which receives fees
FEE_MANAGER: Final = "0xfeec000000000000000000000000000000000000"
SET_USER_TOKEN: Final = abi.encode_selector("setUserToken(address)")
_USER_TOKENS: Final = abi.encode_selector("userTokens(address)")
_BALANCE_OF: Final = abi.encode_selector("balanceOf(address)")


def get_unit_wei(chain: EvmChainSettings) -> int:
    """Return the number of wei in one minor unit of the money that pays for gas."""
    return 1 if chain.fee_token is None else UNIT_WEI


def get_gas_money_name(chain: EvmChainSettings) -> str:
    """Return the name of the money that pays for gas, for use in sentences."""
    return "the chain's coin" if chain.fee_token is None else f"the fee token {chain.fee_token}"


def build_balance_call(chain: EvmChainSettings, address: str, block: str = LATEST) -> RpcCall:
    """Return the call that reads an address's gas money; `parse_balance` reads the answer."""
    if chain.fee_token is None:
        return ("eth_getBalance", (address, block))
    return build_call(chain.fee_token, _BALANCE_OF + abi.encode_address(address), block=block)


def parse_balance(chain: EvmChainSettings, answer: Any) -> int:
    """Return an address's gas money in wei."""
    return parse_quantity(answer) if chain.fee_token is None else parse_uint(answer) * UNIT_WEI


def to_native_units(chain: EvmChainSettings, wei: int) -> int:
    """Return the charge for an amount of wei, in minor units of the chain's `native_asset`."""
    return -(-wei // get_unit_wei(chain))


def build_fee_token_call(address: str) -> RpcCall:
    """Return the call that reads an account's fee token, for `find_fee_token_problem`."""
    return build_call(FEE_MANAGER, _USER_TOKENS + abi.encode_address(address))


def find_fee_token_problem(chain: EvmChainSettings, address: str, answer: Any) -> str | None:
    """Return why an account pays fees in another token than the settings name; None if it does not.

    Without a choice by the account, the fee token depends on each transaction: a plain transfer of
    a token would be charged in that token.
    """
    chosen = parse_returned(answer)
    if chosen is None or len(chosen) != abi.WORD:
        return f"{address} cannot choose a fee token: no fee manager exists at {FEE_MANAGER}"
    if chosen == abi.encode_address(chain.fee_token or ""):
        return None
    return (
        f"{address} has not chosen {chain.fee_token} to pay fees with: "
        f"run `florin chain deploy {chain.caip2}`"
    )
