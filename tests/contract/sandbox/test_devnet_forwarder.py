"""Test payments to addresses, through the forwarder, on the embedded chain."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from florin_sandbox.devnet.evm import DEVNET
from florin_sandbox.devnet.genesis import load_artifact
from florin_server.domain.chains.evm.abi import to_hex
from florin_server.domain.chains.evm.route import ForwardRoute
from florin_server.rails.evm import settler
from florin_server.rails.evm.setup.forwarder import encode_address_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.evm_devnet import (
    FAUCET,
    FEES,
    MERCHANT,
    START_S,
    EvmNodeClient,
    EvmNodeError,
    encode_call,
    make_account,
    make_reference,
    open_node,
)

COIN = "0x" + "00" * 20
HOME = "0x" + "c0" * 20
VALUE, FEE, END_S = 5_000_000, 50_000, START_S + 900
STRANGER = make_account(3)
ROUTE_TYPE = "(uint256,address,uint256,uint256,address,address,uint256,bytes32,address)"
FORWARD = f"forward(({ROUTE_TYPE},address,bytes,uint256)[])"
SWEEP = f"sweep(({ROUTE_TYPE},address[],uint256)[])"
UINT256 = st.integers(0, 2**256 - 1)
ADDRESS = st.binary(min_size=20, max_size=20).map(lambda raw: "0x" + raw.hex())


@pytest.fixture
async def node():
    async with open_node() as node:
        await node.fund(STRANGER.address)
        yield node


def make_route(token: str = DEVNET.token.address, number: int = 1, **changes: Any) -> ForwardRoute:
    route = ForwardRoute(
        chain_id=DEVNET.chain_id,
        forwarder=DEVNET.forwarder,
        token=token,
        value=VALUE,
        valid_before=END_S,
        dest=MERCHANT,
        fee_to=FEES,
        fee=FEE,
        ref=make_reference(number),
        home=HOME,
    )
    return dataclasses.replace(route, **changes)


def list_words(route: ForwardRoute) -> tuple[Any, ...]:
    chain_id, _, *rest = dataclasses.astuple(route)
    return (chain_id, *rest)


async def read_address(node: EvmNodeClient, route: ForwardRoute) -> str:
    call = {"to": DEVNET.forwarder, "data": to_hex(encode_address_of(route))}
    return "0x" + (await node.ask("eth_call", call, "latest"))[26:]


async def pay(node: EvmNodeClient, route: ForwardRoute, value: int) -> None:
    """Send money to an address as any wallet does."""
    to = route.compute_address()
    if route.token == COIN:
        receipt = await node.run(FAUCET, to, "0x", value=value)
    else:
        transfer = encode_call("transfer(address,uint256)", to, value)
        gift = {"accounts": [FAUCET.address], "nativeWei": "0x0", "tokens": [route.token]}
        await node.ask("florin_faucet", gift)
        receipt = await node.run(FAUCET, route.token, transfer)
    assert receipt["status"] == "0x1"


async def forward(node: EvmNodeClient, *routes: ForwardRoute) -> dict[str, Any]:
    items = [(list_words(route), COIN, b"", 300_000) for route in routes]
    return await node.run(STRANGER, DEVNET.forwarder, encode_call(FORWARD, items), gas=2_000_000)


async def sweep(node: EvmNodeClient, route: ForwardRoute, *assets: str) -> dict[str, Any]:
    data = encode_call(SWEEP, [(list_words(route), assets, 300_000)])
    return await node.run(STRANGER, DEVNET.forwarder, data, gas=2_000_000)


async def held(node: EvmNodeClient, token: str, account: str) -> int:
    if token == COIN:
        return int(await node.ask("eth_getBalance", account, "latest"), 16)
    return await node.read(token, "balanceOf(address)", account)


async def test_chain_begins_with_the_forwarder(node):
    code = await node.ask("eth_getCode", DEVNET.forwarder, "latest")
    assert code == to_hex(load_artifact("PayForwarder").runtime)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(parts=st.tuples(UINT256, ADDRESS, UINT256, UINT256, ADDRESS, ADDRESS, UINT256, ADDRESS))
async def test_address_of_any_route_is_computed_without_the_chain(node, parts):
    chain_id, token, value, valid_before, dest, fee_to, fee, home = parts
    route = make_route(
        token,
        chain_id=chain_id,
        value=value,
        valid_before=valid_before,
        dest=dest,
        fee_to=fee_to,
        fee=min(fee, value),
        home=home,
    )
    if COIN in {dest, fee_to, home}:
        with pytest.raises(EvmNodeError):
            await read_address(node, route)
    else:
        assert await read_address(node, route) == route.compute_address()


@pytest.mark.parametrize("token", [DEVNET.token.address, DEVNET.euro.address, COIN])
async def test_event_of_a_forwarded_payment_reads_as_one_of_the_settlement_contract(node, token):
    route = make_route(token)
    await pay(node, route, VALUE - 1)
    refused = await forward(node, route)
    assert (refused["status"], await held(node, token, MERCHANT)) == ("0x1", 0)
    await pay(node, route, 1)
    receipt = await forward(node, route)
    (log,) = [
        log
        for log in receipt["logs"]
        if settler.is_event(log, frozenset({DEVNET.forwarder}), settler.PAID_TOPIC)
    ]
    event = settler.parse_paid_event(log)
    assert event.ref == to_hex(route.ref)
    assert event.payer == route.compute_address()
    assert event.nonce == to_hex(route.compute_nonce())
    assert (event.token, event.value, event.fee) == (token, VALUE, FEE)
    assert (event.dest, event.fee_to) == (MERCHANT, FEES)
    assert await held(node, token, MERCHANT) == VALUE - FEE
    assert await held(node, token, FEES) == FEE
    assert await held(node, token, route.compute_address()) == 0


async def test_late_and_additional_money_goes_home(node):
    paid, late = make_route(number=1), make_route(number=2)
    await pay(node, paid, VALUE + 7)
    await forward(node, paid)
    await sweep(node, paid, paid.token)
    assert await held(node, paid.token, HOME) == 7
    node.clock.advance(900)
    await node.mine()
    await pay(node, late, VALUE)
    await forward(node, late)
    assert await held(node, late.token, MERCHANT) == VALUE - FEE
    await sweep(node, late, late.token)
    assert await held(node, late.token, HOME) == VALUE + 7
