"""Test direct payments from a buyer to the settlement contract, on the embedded chain."""

from __future__ import annotations

from typing import Any

import pytest
from eth_account.signers.local import LocalAccount
from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.chains.evm.route import RouteKind

from tests.support.devnet_tokens import FALSE_TOKEN, SILENT_TOKEN
from tests.support.evm_devnet import (
    FEES,
    MERCHANT,
    ONE,
    PAID,
    PAY_TYPE,
    START_S,
    EvmNodeClient,
    EvmNodeError,
    encode_call,
    list_events,
    make_account,
    make_payment,
    make_reference,
    make_route_nonce,
    open_node,
)

STRANGER, BUYER = make_account(3), make_account(4)
VALUE, FEE = 5_000_000, 50_000
PAY = f"pay({PAY_TYPE})"
COIN = "0x" + "00" * 20
TOKENS = [DEVNET.token.address, DEVNET.euro.address]


@pytest.fixture
async def node():
    async with open_node() as node:
        await node.fund(STRANGER.address)
        await node.ask("florin_faucet", {"accounts": [BUYER.address], "tokens": TOKENS})
        yield node


def item(number: int = 1, **changes: Any) -> tuple[Any, ...]:
    fields = {
        "token": DEVNET.token.address,
        "payer": BUYER.address,
        "value": VALUE,
        "after": 0,
        "before": START_S + 900,
        "dest": MERCHANT,
        "fee_to": FEES,
        "fee": FEE,
        "ref": make_reference(number),
        "gas": 0,
        "signature": b"",
    }
    return tuple((fields | changes).values())


async def approve(node: EvmNodeClient, token: str, amount: int = VALUE) -> None:
    data = encode_call("approve(address,uint256)", DEVNET.settler, amount)
    assert (await node.run(BUYER, token, data))["status"] == "0x1"


async def pay(
    node: EvmNodeClient, what: tuple[Any, ...], sender: LocalAccount = BUYER
) -> dict[str, Any]:
    return await node.run(sender, DEVNET.settler, encode_call(PAY, what), gas=400_000)


async def refusal(node: EvmNodeClient, what: tuple[Any, ...], sender: str = BUYER.address) -> str:
    call = {"from": sender, "to": DEVNET.settler, "data": encode_call(PAY, what)}
    with pytest.raises(EvmNodeError) as refused:
        await node.ask("eth_call", call)
    return refused.value.data


@pytest.mark.parametrize("token", TOKENS)
async def test_buyer_pays_directly_in_any_token(node, token):
    await approve(node, token)
    receipt = await pay(node, item(token=token))
    (log,) = list_events(receipt, PAID)
    assert log["topics"][1] == "0x" + make_reference(1).hex()
    assert log["topics"][2].endswith(BUYER.address[2:].lower())
    held = [
        await node.read(token, "balanceOf(address)", text)
        for text in (MERCHANT, FEES, DEVNET.settler)
    ]
    assert held == [VALUE - FEE, FEE, 0]
    assert await node.read(token, "allowance(address,address)", BUYER.address, DEVNET.settler) == 0


async def test_direct_payment_succeeds_only_once(node):
    await approve(node, DEVNET.token.address, 3 * VALUE)
    nonce = make_route_nonce(item(), kind=RouteKind.DIRECT)
    request = encode_call("isPaid(address,bytes32)", BUYER.address, nonce)
    paid = {"to": DEVNET.settler, "data": request}
    assert int(await node.ask("eth_call", paid), 16) == 0
    assert (await pay(node, item()))["status"] == "0x1"
    assert (await pay(node, item()))["status"] == "0x0"
    assert await refusal(node, item()) == encode_call("AlreadyPaid()")
    assert int(await node.ask("eth_call", paid), 16) == 1
    assert await node.tokens(MERCHANT) == VALUE - FEE
    assert (await pay(node, item(2)))["status"] == "0x1"


async def test_stranger_cannot_spend_the_allowance(node):
    await approve(node, DEVNET.token.address)
    assert await refusal(node, item(), STRANGER.address) == encode_call("NotTheBuyer()")
    assert (await pay(node, item(dest=STRANGER.address), STRANGER))["status"] == "0x0"
    assert await node.tokens(BUYER.address) == 10_000_000_000


async def test_later_deadline_pays_a_different_payment(node):
    """The offered payment stays unpaid, and the contract reports so."""
    await approve(node, DEVNET.token.address, VALUE)
    node.clock.advance(3 * 3600)
    assert await refusal(node, item()) == encode_call("TooLate()")
    receipt = await pay(node, item(before=2**64))
    (log,) = list_events(receipt, PAID)
    offered, other = (
        make_route_nonce(each_item, kind=RouteKind.DIRECT)
        for each_item in (item(), item(before=2**64))
    )
    assert log["data"].endswith(other.hex())
    request = encode_call("isPaid(address,bytes32)", BUYER.address, offered)
    assert int(await node.ask("eth_call", {"to": DEVNET.settler, "data": request}), 16) == 0


async def test_signed_payment_and_direct_payment_have_different_nonces(node):
    """Both move the same money to the same receivers; their nonces distinguish them."""
    await approve(node, DEVNET.token.address)
    signed = make_payment(BUYER, 1)
    settled = await node.settle(STRANGER, signed)
    sent = await pay(node, signed)
    nonces = [list_events(each_item, PAID)[0]["data"][-64:] for each_item in (settled, sent)]
    kinds = RouteKind.EIP3009, RouteKind.DIRECT
    assert nonces == [make_route_nonce(signed, kind=kind).hex() for kind in kinds]


async def test_a_payment_ends_before_its_time(node):
    await approve(node, DEVNET.token.address, 2 * VALUE)
    node.clock.advance(899)
    assert (await pay(node, item()))["status"] == "0x1"
    node.clock.advance(1)
    assert await refusal(node, item(2)) == encode_call("TooLate()")
    assert (await pay(node, item(2)))["status"] == "0x0"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"fee": VALUE + 1}, "FeeExceedsValue()"),
        ({"dest": DEVNET.settler}, "RouteEndsHere()"),
        ({"dest": COIN}, "RouteEndsNowhere()"),
        ({"fee_to": COIN}, "RouteEndsNowhere()"),
        ({"token": MERCHANT}, "TransferFailed()"),
        ({"value": VALUE + 1}, "TransferFailed()"),
    ],
)
async def test_a_senseless_or_unfunded_payment_is_refused(node, changes, error):
    await approve(node, DEVNET.token.address)
    assert await refusal(node, item(**changes)) == encode_call(error)


async def test_token_that_returns_false_is_refused_and_silent_token_is_paid(node):
    silent, refusing = await node.deploy(SILENT_TOKEN), await node.deploy(FALSE_TOKEN)
    assert list_events(await pay(node, item(token=silent)), PAID)
    assert await refusal(node, item(token=refusing)) == encode_call("TransferFailed()")


async def test_coin_sent_along_with_tokens_is_refused(node):
    await approve(node, DEVNET.token.address)
    receipt = await node.run(BUYER, DEVNET.settler, encode_call(PAY, item()), value=1, gas=400_000)
    assert receipt["status"] == "0x0"


# the native coin


async def coin(node: EvmNodeClient, address: str) -> int:
    return int(await node.ask("eth_getBalance", address), 16)


async def send(node: EvmNodeClient, what: tuple[Any, ...], value: int = VALUE) -> dict[str, Any]:
    return await node.run(BUYER, DEVNET.settler, encode_call(PAY, what), value=value, gas=400_000)


async def test_coin_goes_to_the_merchant_and_the_taker_of_the_fee(node):
    receipt = await send(node, item(token=COIN))
    (log,) = list_events(receipt, PAID)
    assert log["topics"][2].endswith(BUYER.address[2:].lower())
    words = [int(log["data"][2:][at : at + 64], 16) for at in range(0, 320, 64)]
    nonce = make_route_nonce(item(token=COIN), kind=RouteKind.DIRECT)
    assert words == [0, VALUE, int(FEES, 16), FEE, int.from_bytes(nonce, "big")]
    held = [await coin(node, text) for text in (MERCHANT, FEES, DEVNET.settler)]
    assert held == [VALUE - FEE, FEE, 0]


@pytest.mark.parametrize("value", [0, VALUE - 1, VALUE + 1])
async def test_any_other_amount_of_coin_is_refused(node, value):
    call = {"from": BUYER.address, "to": DEVNET.settler, "value": hex(value)}
    with pytest.raises(EvmNodeError) as refused:
        await node.ask("eth_call", call | {"data": encode_call(PAY, item(token=COIN))})
    assert refused.value.data == encode_call("WrongValue()")


async def test_coin_is_paid_once_and_in_time(node):
    assert (await send(node, item(token=COIN)))["status"] == "0x1"
    assert (await send(node, item(token=COIN)))["status"] == "0x0"
    node.clock.advance(900)
    assert (await send(node, item(2, token=COIN)))["status"] == "0x0"
    assert await coin(node, MERCHANT) == VALUE - FEE


async def test_a_receiver_that_takes_no_coin_gets_none(node):
    refusing = await node.deploy(bytes.fromhex("5f5ffd"))
    before = await coin(node, BUYER.address)
    receipt = await send(node, item(token=COIN, dest=refusing))
    gas = int(receipt["gasUsed"], 16) * int(receipt["effectiveGasPrice"], 16)
    assert receipt["status"] == "0x0"
    assert await coin(node, BUYER.address) == before - gas


async def test_a_receiver_cannot_settle_another_payment_while_coin_moves(node):
    """Each time it is called, the receiver settles another buyer's valid payment."""
    nested = bytes.fromhex(encode_call(ONE, make_payment(BUYER, 2))[2:])
    size = len(nested).to_bytes(2, "big").hex()
    code = bytes.fromhex(f"61{size}60315f395f5f61{size}5f5f73{DEVNET.settler[2:]}5af1")
    code += bytes.fromhex("602f573d5f5f3e3d5ffd5b00")
    assert len(code) == 0x31
    dest = await node.deploy(code + nested)
    receipt = await send(node, item(token=COIN, dest=dest))
    assert (receipt["status"], receipt["logs"]) == ("0x0", [])
    assert list_events(await node.run(STRANGER, dest, "0x"), PAID)


async def test_unrequested_coin_is_refused(node):
    for data in ("0x", encode_call(f"settle3009({PAY_TYPE}[])", [])):
        receipt = await node.run(BUYER, DEVNET.settler, data, value=1, gas=100_000)
        assert receipt["status"] == "0x0"
