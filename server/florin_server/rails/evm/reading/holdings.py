"""The balances of accounts at the newest final block."""

from __future__ import annotations

from collections.abc import Collection

from florin_server.domain.caip import parse_asset
from florin_server.domain.chains.evm import abi
from florin_server.rails.connection.jsonrpc import RpcCall
from florin_server.rails.evm.paying.terms import to_address
from florin_server.rails.evm.reading.node import (
    EvmNode,
    FinalityRule,
    build_call,
    parse_quantity,
    parse_uint,
)
from florin_server.rails.evm.sending.payouts import BALANCE_OF
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.types import RailUnavailable


async def read_holdings(
    node: EvmNode,
    chain: EvmChainSettings,
    finality: FinalityRule,
    asset_accounts: Collection[tuple[str, str]],
    min_block: int,
) -> dict[tuple[str, str], int]:
    """Return coin and token balances by account and asset, all at one block; one batched read.

    Raise RailUnavailable if the node has not reached the block `min_block`.
    """
    head = await node.get_head()
    final = finality.get_final_block(head)
    if final < 0:
        # A process that has just started knows no final block yet, and commands end before it does.
        # Until then the count of blocks is enough to compare books, as nothing is paid by it.
        final = head - chain.confirmations + 1
    if head < min_block or final < 0:
        raise RailUnavailable(f"{chain.name}: the node lags behind what was seen before")
    coin, block = chain.coin_asset, hex(final)
    calls: dict[tuple[str, str], RpcCall] = {}
    for account, asset in asset_accounts:
        if asset == coin:
            calls[account, asset] = ("eth_getBalance", (to_address(account), block))
        elif (token := parse_asset(asset)).namespace == "erc20":
            question = BALANCE_OF + abi.encode_address(to_address(account))
            calls[account, asset] = build_call(token.reference, question, block=block)
    answers = await node.batch(list(calls.values()))
    return {
        place: parse_quantity(answer) if place[1] == coin else parse_uint(answer)
        for place, answer in zip(calls, answers, strict=True)
    }
