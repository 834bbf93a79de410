"""What accounts hold at the newest final block."""

from __future__ import annotations

from collections.abc import Collection

from florin_server.chains.evm import abi
from florin_server.domain.caip import parse_asset
from florin_server.rails.connection.jsonrpc import Call
from florin_server.rails.evm.paying.terms import bare
from florin_server.rails.evm.reading.node import FinalityRule, Node, call_to, quantity, uint
from florin_server.rails.evm.sending.payouts import BALANCE_OF
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.types import RailUnavailable


async def holdings(
    node: Node,
    chain: EvmChain,
    finality: FinalityRule,
    places: Collection[tuple[str, str]],
    least: int,
) -> dict[tuple[str, str], int]:
    """Coin and tokens by account and asset, all at one block; one batched read.

    RailUnavailable if the node is not as far as the block `least`.
    """
    head = await node.head()
    final = finality.final_at(head)
    if final < 0:
        # a process that has just started knows no final block yet, and commands end before it does:
        # books are compared, and nothing is paid, by the count of blocks until then
        final = head - chain.confirmations + 1
    if head < least or final < 0:
        raise RailUnavailable(f"{chain.name}: the node lags behind what was seen before")
    coin, block = chain.coin_asset, hex(final)
    calls: dict[tuple[str, str], Call] = {}
    for account, asset in places:
        if asset == coin:
            calls[account, asset] = ("eth_getBalance", (bare(account), block))
        elif (token := parse_asset(asset)).namespace == "erc20":
            question = BALANCE_OF + abi.address(bare(account))
            calls[account, asset] = call_to(token.reference, question, block=block)
    answers = await node.batch(list(calls.values()))
    return {
        place: quantity(answer) if place[1] == coin else uint(answer)
        for place, answer in zip(calls, answers, strict=True)
    }
