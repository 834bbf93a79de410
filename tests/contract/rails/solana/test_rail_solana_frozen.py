"""Test that accounts frozen by a token's issuer are reported as frozen, and not offered."""

from __future__ import annotations

import base64

import pytest
from florin_server.domain.errors import ApiError

from tests.support.solana import ASSETS, SolanaTestWallet
from tests.support.solana_devnet import make_wallet
from tests.support.solana_rail_harness import PRICE, make_outputs, make_split, open_lab, sign_build


@pytest.fixture
async def lab():
    async with open_lab() as lab:
        yield lab


@pytest.fixture
def buyer() -> SolanaTestWallet:
    return SolanaTestWallet()


def changed(change):
    """Return a fault that changes the true result."""

    def answer(_params, result):
        change(result["result"])
        return result

    return answer


@pytest.mark.parametrize(("at", "what"), [(1, "payer"), (2, "receiver")])
async def test_an_account_that_is_frozen_is_no_fault_of_the_transaction(lab, buyer, at, what):
    await lab.node.fund(make_wallet(91))
    _, option = await lab.offer(buyer)
    issued = await lab.build_option(option)

    def freeze(result):
        held = result["value"][at]
        content = base64.b64decode(held["data"][0])
        held["data"][0] = base64.b64encode(content[:108] + b"\x02" + content[109:]).decode()

    lab.transport.changes["getMultipleAccounts"] = changed(freeze)
    failed = {"err": {"InstructionError": [3, {"Custom": 17}]}}
    lab.transport.changes["simulateTransaction"] = changed(
        lambda result: result["value"].update(failed)
    )
    with pytest.raises(ApiError) as caught:
        await lab.rail.verifier.verify(option, [issued], make_outputs(sign_build(buyer, issued)))
    assert caught.value.details == {
        "reason": "token_refused",
        "refused": what,
        "revert": "account is frozen",
    }


async def test_a_receiver_whose_account_is_frozen_is_offered_nothing(lab, buyer):
    await lab.node.fund(make_wallet(91))
    token = lab.rail.assets[ASSETS[0]]
    assert await lab.rail.offers.check_receivable(token, PRICE, make_split()) is None

    def freeze(result):
        for held in result["value"]:
            content = base64.b64decode(held["data"][0]) if held else b""
            if len(content) == 165:
                total = content[:108] + b"\x02" + content[109:]
                held["data"][0] = base64.b64encode(total).decode()

    lab.transport.changes["getMultipleAccounts"] = changed(freeze)
    reported_result = await lab.rail.offers.check_receivable(token, PRICE, make_split())
    assert reported_result is not None
    assert "its account is frozen" in reported_result
