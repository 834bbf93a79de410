"""Test which transfer of a message can pay a payment: one that names its address, or by a note."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from florin_server.domain.chains.solana import spl
from florin_server.rails.solana.reading.transfers import find_named_transfer, find_paying_transfer
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey

PAYER, RELAYER, MERCHANT = (Keypair().pubkey() for _ in range(3))
MINT = Keypair().pubkey()
TOKEN = spl.PROGRAMS[0]
ADDRESS, OTHER = (Keypair().pubkey() for _ in range(2))
MEMO, OTHER_MEMO, REMARK = (spl.create_memo(text) for text in (str(ADDRESS), str(OTHER), "hello"))


def make_transfer(*named: Pubkey) -> Instruction:
    instruction = spl.transfer_checked(
        TOKEN,
        MINT,
        6,
        owner=PAYER,
        source=spl.derive_associated_address(PAYER, MINT, TOKEN),
        dest=spl.derive_associated_address(MERCHANT, MINT, TOKEN),
        amount=7,
    )
    more = [AccountMeta(address, is_signer=False, is_writable=False) for address in named]
    accounts = [*instruction.accounts, *more]
    return Instruction(instruction.program_id, bytes(instruction.data), accounts)


TRANSFER, NAMED = make_transfer(), make_transfer(ADDRESS)
COIN = spl.transfer_coin(PAYER, MERCHANT, 7)


def compile_message(steps: Sequence[Instruction]) -> MessageV0:
    limits = [set_compute_unit_limit(20_000), set_compute_unit_price(1)]
    return MessageV0.try_compile(RELAYER, [*limits, *steps], [], Hash.default())


@pytest.mark.parametrize(
    "steps",
    [[TRANSFER, MEMO], [MEMO, TRANSFER], [NAMED], [NAMED, REMARK]],
    ids=["note", "note before", "named", "named with a remark"],
)
def test_transfer_with_the_address_pays(steps):
    transfer = find_paying_transfer(compile_message(steps), str(ADDRESS))
    assert transfer is not None
    assert (transfer.program, transfer.mint, transfer.sender) == (TOKEN, MINT, PAYER)
    assert transfer.dest == spl.derive_associated_address(MERCHANT, MINT, TOKEN)


@pytest.mark.parametrize(
    "steps",
    [
        [TRANSFER],
        [TRANSFER, REMARK],
        [TRANSFER, OTHER_MEMO],
        [TRANSFER, MEMO, MEMO],
        [TRANSFER, MEMO, OTHER_MEMO],
        [TRANSFER, MEMO, REMARK],
        [TRANSFER, COIN, MEMO],
        [TRANSFER, TRANSFER, MEMO],
        [NAMED, MEMO],
        [make_transfer(OTHER), MEMO],
        [NAMED, OTHER_MEMO],
        [make_transfer(ADDRESS, OTHER)],
        [NAMED, make_transfer(ADDRESS)],
        [MEMO],
    ],
)
def test_other_messages_pay_nothing(steps):
    assert find_paying_transfer(compile_message(steps), str(ADDRESS)) is None


@pytest.mark.parametrize(
    "steps", [[TRANSFER, MEMO], [NAMED], [NAMED, OTHER_MEMO], [make_transfer(OTHER), MEMO]]
)
def test_no_message_pays_two_addresses(steps):
    message = compile_message(steps)
    paid = [find_paying_transfer(message, str(address)) for address in (ADDRESS, OTHER)]
    assert None in paid


def test_sender_of_a_named_transfer_is_known_whatever_the_notes_are():
    message = compile_message([NAMED, OTHER_MEMO])
    transfer = find_named_transfer(message, str(ADDRESS))
    assert transfer is not None
    assert transfer.sender == PAYER
