"""Payments that a buyer sends by itself to the settlement contract, on the embedded chain."""

from __future__ import annotations

from typing import Any

import pytest
from eth_account.signers.local import LocalAccount
from florin_server.chains.evm.route import Kind
from florin_server.devnet.evm import DEVNET

from tests.support.devnet_kit import (
    FEES,
    MERCHANT,
    ONE,
    PAID,
    PAY_TYPE,
    START_S,
    Node,
    NodeError,
    account,
    call_data,
    events,
    opened,
    payment,
    reference,
    route_nonce,
)
from tests.support.devnet_tokens import FALSE_TOKEN, SILENT_TOKEN

STRANGER, BUYER = account(3), account(4)
VALUE, FEE = 5_000_000, 50_000
PAY = f"pay({PAY_TYPE})"
COIN = "0x" + "00" * 20
TOKENS = [DEVNET.token.address, DEVNET.euro.address]


@pytest.fixture
async def node():
    async with opened() as node:
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
        "ref": reference(number),
        "gas": 0,
        "signature": b"",
    }
    return tuple((fields | changes).values())


async def approve(node: Node, token: str, amount: int = VALUE) -> None:
    data = call_data("approve(address,uint256)", DEVNET.settler, amount)
    assert (await node.run(BUYER, token, data))["status"] == "0x1"


async def pay(node: Node, what: tuple[Any, ...], sender: LocalAccount = BUYER) -> dict[str, Any]:
    return await node.run(sender, DEVNET.settler, call_data(PAY, what), gas=400_000)


async def refusal(node: Node, what: tuple[Any, ...], sender: str = BUYER.address) -> str:
    call = {"from": sender, "to": DEVNET.settler, "data": call_data(PAY, what)}
    with pytest.raises(NodeError) as refused:
        await node.ask("eth_call", call)
    return refused.value.data


@pytest.mark.parametrize("token", TOKENS)
async def test_a_buyer_pays_by_itself_in_any_token(node, token):
    await approve(node, token)
    receipt = await pay(node, item(token=token))
    (log,) = events(receipt, PAID)
    assert log["topics"][1] == "0x" + reference(1).hex()
    assert log["topics"][2].endswith(BUYER.address[2:].lower())
    held = [
        await node.read(token, "balanceOf(address)", one)
        for one in (MERCHANT, FEES, DEVNET.settler)
    ]
    assert held == [VALUE - FEE, FEE, 0]
    assert await node.read(token, "allowance(address,address)", BUYER.address, DEVNET.settler) == 0


async def test_a_payment_is_made_once_however_often_it_is_sent(node):
    await approve(node, DEVNET.token.address, 3 * VALUE)
    nonce = route_nonce(item(), kind=Kind.DIRECT)
    asked = call_data("isPaid(address,bytes32)", BUYER.address, nonce)
    paid = {"to": DEVNET.settler, "data": asked}
    assert int(await node.ask("eth_call", paid), 16) == 0
    assert (await pay(node, item()))["status"] == "0x1"
    assert (await pay(node, item()))["status"] == "0x0"
    assert await refusal(node, item()) == call_data("AlreadyPaid()")
    assert int(await node.ask("eth_call", paid), 16) == 1
    assert await node.tokens(MERCHANT) == VALUE - FEE
    assert (await pay(node, item(2)))["status"] == "0x1"


async def test_nobody_else_can_spend_the_allowance(node):
    await approve(node, DEVNET.token.address)
    assert await refusal(node, item(), STRANGER.address) == call_data("NotTheBuyer()")
    assert (await pay(node, item(dest=STRANGER.address), STRANGER))["status"] == "0x0"
    assert await node.tokens(BUYER.address) == 10_000_000_000


async def test_whoever_puts_off_the_end_pays_for_something_else(node):
    """What was offered is still unpaid, and says so."""
    await approve(node, DEVNET.token.address, VALUE)
    node.clock.advance(3 * 3600)
    assert await refusal(node, item()) == call_data("TooLate()")
    receipt = await pay(node, item(before=2**64))
    (log,) = events(receipt, PAID)
    offered, other = (route_nonce(one, kind=Kind.DIRECT) for one in (item(), item(before=2**64)))
    assert log["data"].endswith(other.hex())
    asked = call_data("isPaid(address,bytes32)", BUYER.address, offered)
    assert int(await node.ask("eth_call", {"to": DEVNET.settler, "data": asked}), 16) == 0


async def test_what_was_signed_does_not_count_as_paid_by_the_buyer(node):
    """Both move the same money to the same receivers; their nonces tell them apart."""
    await approve(node, DEVNET.token.address)
    signed = payment(BUYER, 1)
    settled = await node.settle(STRANGER, signed)
    sent = await pay(node, signed)
    nonces = [events(one, PAID)[0]["data"][-64:] for one in (settled, sent)]
    kinds = Kind.EIP3009, Kind.DIRECT
    assert nonces == [route_nonce(signed, kind=kind).hex() for kind in kinds]


async def test_a_payment_ends_before_its_time(node):
    await approve(node, DEVNET.token.address, 2 * VALUE)
    node.clock.advance(899)
    assert (await pay(node, item()))["status"] == "0x1"
    node.clock.advance(1)
    assert await refusal(node, item(2)) == call_data("TooLate()")
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
    assert await refusal(node, item(**changes)) == call_data(error)


async def test_a_token_that_says_false_is_refused_and_one_that_says_nothing_is_not(node):
    silent, refusing = await node.deploy(SILENT_TOKEN), await node.deploy(FALSE_TOKEN)
    assert events(await pay(node, item(token=silent)), PAID)
    assert await refusal(node, item(token=refusing)) == call_data("TransferFailed()")


async def test_coin_sent_along_with_tokens_is_refused(node):
    await approve(node, DEVNET.token.address)
    receipt = await node.run(BUYER, DEVNET.settler, call_data(PAY, item()), value=1, gas=400_000)
    assert receipt["status"] == "0x0"


# the chain's own coin


async def coin(node: Node, address: str) -> int:
    return int(await node.ask("eth_getBalance", address), 16)


async def send(node: Node, what: tuple[Any, ...], value: int = VALUE) -> dict[str, Any]:
    return await node.run(BUYER, DEVNET.settler, call_data(PAY, what), value=value, gas=400_000)


async def test_coin_goes_to_the_merchant_and_the_taker_of_the_fee(node):
    receipt = await send(node, item(token=COIN))
    (log,) = events(receipt, PAID)
    assert log["topics"][2].endswith(BUYER.address[2:].lower())
    words = [int(log["data"][2:][at : at + 64], 16) for at in range(0, 320, 64)]
    nonce = route_nonce(item(token=COIN), kind=Kind.DIRECT)
    assert words == [0, VALUE, int(FEES, 16), FEE, int.from_bytes(nonce, "big")]
    held = [await coin(node, one) for one in (MERCHANT, FEES, DEVNET.settler)]
    assert held == [VALUE - FEE, FEE, 0]


@pytest.mark.parametrize("value", [0, VALUE - 1, VALUE + 1])
async def test_any_other_amount_of_coin_is_refused(node, value):
    call = {"from": BUYER.address, "to": DEVNET.settler, "value": hex(value)}
    with pytest.raises(NodeError) as refused:
        await node.ask("eth_call", call | {"data": call_data(PAY, item(token=COIN))})
    assert refused.value.data == call_data("WrongValue()")


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
    """Whenever it is called it settles a good payment of somebody."""
    nested = bytes.fromhex(call_data(ONE, payment(BUYER, 2))[2:])
    size = len(nested).to_bytes(2, "big").hex()
    code = bytes.fromhex(f"61{size}60315f395f5f61{size}5f5f73{DEVNET.settler[2:]}5af1")
    code += bytes.fromhex("602f573d5f5f3e3d5ffd5b00")
    assert len(code) == 0x31
    dest = await node.deploy(code + nested)
    receipt = await send(node, item(token=COIN, dest=dest))
    assert (receipt["status"], receipt["logs"]) == ("0x0", [])
    assert events(await node.run(STRANGER, dest, "0x"), PAID)


async def test_coin_that_nobody_asked_for_is_not_taken(node):
    for data in ("0x", call_data(f"settle3009({PAY_TYPE}[])", [])):
        receipt = await node.run(BUYER, DEVNET.settler, data, value=1, gas=100_000)
        assert receipt["status"] == "0x0"
