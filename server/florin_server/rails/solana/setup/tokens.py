"""What a token's mint says about itself, read before anybody writes it down."""

from __future__ import annotations

from florin_server.chains.solana import spl
from florin_server.rails.solana.reading.node import FINALIZED, Node, account_views


async def decimals(node: Node, mint: str) -> int | None:
    """The decimals of a token; None if there is none at the address."""
    whole = {"commitment": FINALIZED, "encoding": "base64"}
    (answer,) = await node.batch([("getMultipleAccounts", ([mint], whole))])
    (account,) = account_views(answer)
    if account is None or account.owner not in spl.PROGRAMS:
        return None
    found = spl.mint_of(account.data)
    return None if found is None else found.decimals
