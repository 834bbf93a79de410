"""Payments' own addresses on a test chain: routes, plain transfers to them, and their ends."""

from __future__ import annotations

import dataclasses
from typing import Any

from eth_account.signers.local import LocalAccount
from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.chains.evm.route import ForwardRoute
from florin_server.rails.evm import forwarder
from florin_server.rails.evm.paying.terms import ZERO_ADDRESS

from tests.support.evm_harness import (
    CHAIN,
    FEES,
    MERCHANT,
    START_S,
    EvmChainHarness,
    make_asset,
    make_buyer,
    make_euro_asset,
)

HOME = "0x" + "c0" * 20
VALUE, FEE, END_S = 5_000_000, 50_000, START_S + 100_000
ITEM_GAS = 300_000
COIN_ASSET = f"{CHAIN}/slip44:60"
STRANGER = make_buyer(77)
# sends all coin that it is called with to the address in the call, as exchanges' contracts do
COIN_SENDER = "6000600060006000476000355af100"
# the chain has a forwarder, a second token, and a coin
CHAIN_CHANGES: dict[str, Any] = {
    "former_settlers": (DEVNET.forwarder,),
    "assets": (make_asset(), make_euro_asset()),
    "coin": {"name": "Ether", "symbol": "ETH"},
}


def make_route(number: int = 1, token: str = DEVNET.token.address, **changes: Any) -> ForwardRoute:
    """Return the route of a number's payment."""
    route = ForwardRoute(
        chain_id=DEVNET.chain_id,
        forwarder=DEVNET.forwarder,
        token=token,
        value=VALUE,
        valid_before=END_S,
        dest=MERCHANT,
        fee_to=FEES,
        fee=FEE,
        ref=number.to_bytes(32),
        home=HOME,
    )
    return dataclasses.replace(route, **changes)


def encode_transfer(to: str, value: int) -> bytes:
    """Return the call of a token's transfer."""
    return bytes.fromhex("a9059cbb" + to[2:].rjust(64, "0") + f"{value:064x}")


async def fund_sender(lab: EvmChainHarness, sender: LocalAccount) -> None:
    """Give a sender gas and much of each token."""
    await lab.give_gas(sender.address, 10)
    mint = bytes.fromhex("40c10f19" + sender.address[2:].lower().rjust(64, "0") + f"{10**15:064x}")
    for token in (DEVNET.token.address, DEVNET.euro.address):
        await lab.send(to=token, data=mint)


async def transfer(
    lab: EvmChainHarness,
    sender: LocalAccount,
    address: str,
    value: int,
    token: str = DEVNET.token.address,
) -> dict[str, Any]:
    """Send a token or, for the zero address, coin to an address; return the receipt."""
    if token == ZERO_ADDRESS:
        return await lab.send(key=bytes(sender.key), to=address, value=value)
    return await lab.send(key=bytes(sender.key), to=token, data=encode_transfer(address, value))


async def send_coin_by_contract(lab: EvmChainHarness, address: str, value: int) -> dict[str, Any]:
    """Send coin to an address from within a contract; return the receipt."""
    contract = await lab.deploy(COIN_SENDER)
    return await lab.send(to=contract, value=value, data=bytes.fromhex(address[2:].rjust(64, "0")))


async def forward(lab: EvmChainHarness, *routes: ForwardRoute) -> dict[str, Any]:
    """Forward payments as a stranger does; return the receipt."""
    items = [forwarder.Forwarding(route, ITEM_GAS) for route in routes]
    return await _call(lab, forwarder.encode_forward(items), len(items))


async def sweep(lab: EvmChainHarness, *sweeps: tuple[ForwardRoute, str]) -> dict[str, Any]:
    """Send tokens home as a stranger does; return the receipt."""
    items = [forwarder.Sweep(route, (token,), ITEM_GAS) for route, token in sweeps]
    return await _call(lab, forwarder.encode_sweep(items), len(items))


async def _call(lab: EvmChainHarness, data: bytes, count: int) -> dict[str, Any]:
    gas = 200_000 + count * (ITEM_GAS + 30_000)
    return await lab.send(key=bytes(STRANGER.key), to=DEVNET.forwarder, data=data, gas=gas)
