"""Accounts that a token's issuer froze: told as that, and not offered."""

from __future__ import annotations

import base64

import pytest
from florin_server.domain.errors import FlorinError

from tests.support.solana import ASSETS, SolanaWallet
from tests.support.solana_kit import wallet
from tests.support.solana_lab import PRICE, open_lab, outputs, signed, split


@pytest.fixture
async def lab():
    async with open_lab() as lab:
        yield lab


@pytest.fixture
def buyer() -> SolanaWallet:
    return SolanaWallet()


def changed(change):
    """A change of the true result."""

    def answer(_params, told):
        change(told["result"])
        return told

    return answer


@pytest.mark.parametrize(("at", "what"), [(1, "payer"), (2, "receiver")])
async def test_an_account_that_is_frozen_is_no_fault_of_the_transaction(lab, buyer, at, what):
    await lab.node.fund(wallet(91))
    _, option = await lab.offer(buyer)
    issued = await lab.issued(option)

    def freeze(result):
        held = result["value"][at]
        content = base64.b64decode(held["data"][0])
        held["data"][0] = base64.b64encode(content[:108] + b"\x02" + content[109:]).decode()

    lab.between.changes["getMultipleAccounts"] = changed(freeze)
    failed = {"err": {"InstructionError": [3, {"Custom": 17}]}}
    lab.between.changes["simulateTransaction"] = changed(lambda told: told["value"].update(failed))
    with pytest.raises(FlorinError) as caught:
        await lab.rail.verifier.verify(option, [issued], outputs(signed(buyer, issued)))
    assert caught.value.details == {
        "reason": "token_refused",
        "refused": what,
        "revert": "account is frozen",
    }


async def test_a_receiver_whose_account_is_frozen_is_offered_nothing(lab, buyer):
    await lab.node.fund(wallet(91))
    token = lab.rail.assets[ASSETS[0]]
    assert await lab.rail.offers.obstacle(token, PRICE, split()) is None

    def freeze(result):
        for held in result["value"]:
            content = base64.b64decode(held["data"][0]) if held else b""
            if len(content) == 165:
                whole = content[:108] + b"\x02" + content[109:]
                held["data"][0] = base64.b64encode(whole).decode()

    lab.between.changes["getMultipleAccounts"] = changed(freeze)
    told = await lab.rail.offers.obstacle(token, PRICE, split())
    assert told is not None
    assert "its account is frozen" in told
