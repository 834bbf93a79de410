"""Test the embedded chain's stand-in for the program whose assertions wallets add."""

from __future__ import annotations

import base64

import pytest
from solders.keypair import Keypair

from tests.support import solana_guards as guards
from tests.support.solana_devnet import (
    GIFT,
    SolanaDevnetNode,
    get_token_account,
    make_coin_transfer,
    make_payment,
    make_wallet,
    open_node,
)

FEE = 5_000


@pytest.fixture
async def node():
    async with open_node(slot_s=0, finalized_slots=1) as node:
        await node.fund(make_wallet(1))
        yield node


async def error(node: SolanaDevnetNode, *instructions) -> object:
    """Return the error of the simulation; the transaction after it must end the same way."""
    sent = await node.make_transaction([make_wallet(1)], *instructions)
    config = {"encoding": "base64"}
    tried = (await node.value("simulateTransaction", sent, config))["err"]
    signature = await node.send(sent, skipPreflight=True)
    landed = await node.ask("getTransaction", signature, {"maxSupportedTransactionVersion": 0})
    assert landed["meta"]["err"] == tried
    assert landed["meta"]["fee"] == FEE
    assert len(base64.b64decode(sent)) > 0
    return tried


def failed(index: int, code: int = 6001) -> object:
    return {"InstructionError": [index, {"Custom": code}]}


async def test_assertion_reads_the_state_after_earlier_instructions(node):
    payer, to = make_wallet(1), make_wallet(2).pubkey()
    own = get_token_account(payer.pubkey())
    moves = make_payment(payer, to, 7)
    assert await error(node, guards.make_tokens_guard(own, GIFT, guards.EQUAL), *moves) is None
    assert await error(node, *moves, guards.make_tokens_guard(own, GIFT - 14, guards.EQUAL)) is None
    assert await error(
        node, *moves, guards.make_tokens_guard(own, GIFT - 14, guards.EQUAL)
    ) == failed(2)
    # the failed transactions moved nothing
    assert await node.tokens(payer.pubkey()) == GIFT - 14
    assert await node.tokens(to) == 14


async def test_transaction_whose_guard_fails_pays_its_fee_only(node):
    payer, to = make_wallet(1), Keypair().pubkey()
    held = await node.coin(payer.pubkey())
    gift = make_coin_transfer(payer, to, 10**7)
    assert await error(node, gift, guards.make_lamports_guard(payer.pubkey(), held)) == failed(1)
    assert await node.coin(payer.pubkey()) == held - FEE
    assert await node.coin(to) == 0


async def test_several_assertions_name_the_first_that_fails(node):
    key = make_wallet(1).pubkey()
    assert await error(node, guards.make_plain_account_guard(key, 1)) is None
    assert await error(node, guards.make_plain_account_guard(get_token_account(key), 1)) == failed(
        0, 0x1901
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"\x03\x00",
        b"\x04",
        b"\x04\x09",
        b"\x04\x00\x00\x01",
        b"\x04\x00\x07\x01\x00m",
    ],
)
async def test_unsupported_assertion_fails(node, data):
    assert await error(node, guards.make_guard(make_wallet(1).pubkey(), data)) == failed(0, 6000)


async def test_an_earlier_failure_is_the_transactions_own(node):
    payer = make_wallet(1)
    too_much = make_payment(payer, make_wallet(2).pubkey(), GIFT + 1)
    result = await error(
        node, *too_much, guards.make_tokens_guard(get_token_account(payer.pubkey()), 0)
    )
    assert result == {"InstructionError": [1, {"Custom": 1}]}
