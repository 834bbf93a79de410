"""Payments that a buyer sends by itself to the settlement contract, on the embedded chain."""

from __future__ import annotations

from typing import Any

import pytest
from eth_account.signers.local import LocalAccount
from florin_server.devnet.evm import DEVNET

from tests.contract.test_devnet_kit import (
    FEES,
    MERCHANT,
    PAID,
    PAY_TYPE,
    START_S,
    Node,
    NodeError,
    account,
    call_data,
    events,
    opened,
    reference,
    route_nonce,
)
from tests.contract.test_devnet_settlement import FALSE_TOKEN, SILENT_TOKEN

STRANGER, BUYER = account(3), account(4)
VALUE, FEE = 5_000_000, 50_000
PAY = f"pay({PAY_TYPE})"
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
    asked = call_data("isPaid(address,bytes32)", BUYER.address, route_nonce(item()))
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
