"""The settings of a chain that a test serves itself, with the tokens that the embedded one has."""

from __future__ import annotations

from typing import Any

from florin_server.devnet.genesis import DEVNET
from florin_server.rails.evm.settings import EvmAsset, EvmChain

CHAIN_ID = 31338
CHAIN = f"eip155:{CHAIN_ID}"


def own_chain(*urls: str, **more: Any) -> EvmChain:
    """One that is reached there, and takes test dollars; `more` settings come before these."""
    token = DEVNET.token
    dollar = EvmAsset(
        address=token.address,
        name=token.name,
        symbol=token.symbol,
        decimals=token.decimals,
        peg=token.peg,
        domain_version=token.version,
    )
    known = {
        "chain_id": CHAIN_ID,
        "name": "Own",
        "poll_ms": 20,
        "settler": DEVNET.settler,
        "treasury": "0x" + "fe" * 20,
        "assets": (dollar,),
    }
    return EvmChain(rpc_url=list(urls), **known | more)
