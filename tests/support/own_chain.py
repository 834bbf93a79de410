"""The settings of a chain that a test serves itself, with the tokens of the embedded one."""

from __future__ import annotations

from typing import Any

from florin_sandbox.devnet.evm import EvmDevChain
from florin_sandbox.devnet.genesis import DEVNET
from florin_server.rails.connection.jsonrpc import JsonRpcClient, LocalTransport
from florin_server.rails.evm.settings import EvmAssetSettings, EvmChainSettings

CHAIN_ID = 31338
CHAIN = f"eip155:{CHAIN_ID}"


def make_own_chain(*urls: str, **more: Any) -> EvmChainSettings:
    """Return a chain with these node URLs that takes test dollars.

    `more` settings come before these.
    """
    token = DEVNET.token
    dollar = EvmAssetSettings(
        address=token.address,
        name=token.name,
        symbol=token.symbol,
        decimals=token.decimals,
        peg=token.peg,
        domain_version=token.version,
    )
    existing = {
        "chain_id": CHAIN_ID,
        "name": "Own",
        "poll_ms": 20,
        "settler": DEVNET.settler,
        "treasury": "0x" + "fe" * 20,
        "assets": (dollar,),
    }
    return EvmChainSettings(rpc_url=list(urls), **existing | more)


def open_node_client(chain: EvmDevChain) -> JsonRpcClient:
    """Return a client of the chain in this process."""
    return JsonRpcClient(LocalTransport(chain.handle))
