"""The forwarder of a chain, compared with the addresses that Florin computes for payments."""

from __future__ import annotations

from typing import Final

from florin_server.domain.chains.evm import abi
from florin_server.domain.chains.evm.route import ForwardRoute
from florin_server.rails.evm.paying.terms import ZERO_ADDRESS
from florin_server.rails.evm.reading.deposits import is_delegation
from florin_server.rails.evm.reading.node import (
    LATEST,
    EvmNode,
    build_call,
    parse_data,
    parse_returned,
)
from florin_server.rails.evm.settings import EvmChainSettings

_ADDRESS_OF: Final = abi.encode_selector(
    "addressOf((uint256,address,uint256,uint256,address,address,uint256,bytes32,address))"
)


def encode_address_of(route: ForwardRoute) -> bytes:
    """Encode the call that asks the forwarder for the address of a route."""
    return _ADDRESS_OF + b"".join(route.words)


async def find_forwarder_fault(
    node: EvmNode, chain: EvmChainSettings, forwarder: str
) -> str | None:
    """Return why the forwarder at an address is unusable; None if it is usable.

    It must give a route the address that Florin computes: buyers send their money there. Raise the
    errors of `EvmNode.batch`.
    """
    route = _build_probe(chain, forwarder)
    (answer,) = await node.batch([build_call(forwarder, encode_address_of(route))])
    if parse_returned(answer) == abi.encode_address(route.compute_address()):
        return None
    return (
        f"{chain.name}: the contract at {forwarder} gives payments other addresses than Florin "
        "computes: do not use it"
    )


async def find_forwarder_problem(node: EvmNode, chain: EvmChainSettings) -> str | None:
    """Return why a chain's configured forwarder cannot be used, or its `home`; None if both can.

    At the same address on another chain, a contract can have another owner.
    """
    if chain.forwarder is None:
        return None
    address = chain.forwarder.address
    if (fault := await find_forwarder_fault(node, chain, address)) is not None:
        return f"{fault}, or deploy it with `florin chain deploy --forwarder`"
    (code,) = await node.batch([("eth_getCode", (chain.home, LATEST))])
    home_code = parse_data(code)
    if home_code and not is_delegation(home_code):
        return f"{chain.name}: forwarder.home {chain.home} is a contract: use an account with a key"
    return None


def _build_probe(chain: EvmChainSettings, forwarder: str) -> ForwardRoute:
    treasury = chain.treasury_account.rpartition(":")[2]
    return ForwardRoute(
        chain_id=chain.chain_id,
        forwarder=forwarder,
        token=chain.settler,
        value=3,
        valid_before=5,
        dest=treasury,
        fee_to=ZERO_ADDRESS,
        fee=0,
        ref=b"\x5a" * 32,
        home=treasury,
    )
