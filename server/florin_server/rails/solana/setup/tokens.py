"""A token's own data, read from its mint before an operator adds it."""

from __future__ import annotations

from florin_server.domain.chains.solana import spl
from florin_server.rails.solana.reading.node import FINALIZED, SolanaNode, parse_account_views


async def find_decimals(node: SolanaNode, mint: str) -> int | None:
    """Return the decimals of a token; None if no token is at the address."""
    total = {"commitment": FINALIZED, "encoding": "base64"}
    (answer,) = await node.batch([("getMultipleAccounts", ([mint], total))])
    (account,) = parse_account_views(answer)
    if account is None or account.owner not in spl.PROGRAMS:
        return None
    mint_data = spl.parse_mint(account.data)
    return None if mint_data is None else mint_data.decimals
