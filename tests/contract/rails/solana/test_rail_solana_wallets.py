"""Test which changes a wallet can make to the transaction that it signs."""

from __future__ import annotations

import base64

import pytest
from florin_server.domain.chains.solana import spl
from florin_server.domain.chains.solana.limits import PACKET_BYTES, V1_BYTES, V1_FIRST_BYTE
from florin_server.domain.errors import ApiError
from florin_server.rails.solana.paying.message import WalletBounds, compile_message, is_acceptable
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.message import MessageV0, MessageV1
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from tests.support.solana import SolanaTestWallet, list_instructions, rebuild_transaction
from tests.support.solana_devnet import TOKEN, make_wallet
from tests.support.solana_guards import make_long_guard
from tests.support.solana_rail_harness import (
    get_message,
    make_chain_settings,
    make_outputs,
    open_lab,
)

GUARD = Instruction(spl.LIGHTHOUSE, b"\x0e\x02", [])
BOUNDS = WalletBounds(
    make_chain_settings().compute_price_max, make_chain_settings().compute_units_max
)


@pytest.fixture
async def lab():
    async with open_lab() as lab:
        yield lab


@pytest.fixture
def buyer() -> SolanaTestWallet:
    return SolanaTestWallet()


def guards(count: int) -> list[Instruction]:
    return [Instruction(spl.LIGHTHOUSE, bytes([14, number]), []) for number in range(count)]


def reading(*keys, data=b"\x04\x00") -> Instruction:
    return Instruction(spl.LIGHTHOUSE, data, [AccountMeta(key, False, False) for key in keys])


def units(limit: int, own) -> list[Instruction]:
    return [set_compute_unit_limit(limit), *own[1:]]


STRANGER = make_wallet(1).pubkey()


CHANGES = {
    "nothing": (True, lambda own, keys: own),
    "a guard behind": (True, lambda own, keys: [*own, reading(keys[1])]),
    "a guard in front": (True, lambda own, keys: [GUARD, *own]),
    "four guards": (True, lambda own, keys: [*guards(4), *own]),
    "three before the transfer and one behind": (
        True,
        lambda own, keys: [*own[:2], *guards(3), *own[2:], reading(keys[1])],
    ),
    "a guard on the relayer's account": (True, lambda own, keys: [*own, reading(keys[0])]),
    "a guard on a stranger's account": (True, lambda own, keys: [*own, reading(STRANGER)]),
    "a difference of two accounts": (
        True,
        lambda own, keys: [*own, reading(keys[1], STRANGER, data=b"\x03\x00")],
    ),
    "more units": (True, lambda own, keys: units(1_400_000, own)),
    "fewer units": (True, lambda own, keys: units(60_000, own)),
    "guards, units and price": (
        True,
        lambda own, keys: [*units(300_000, own)[:1], price(9), *guards(4), *own[2:]],
    ),
    "another price": (True, lambda own, keys: [own[0], price(5_000_000), *own[2:]]),
    "five guards": (False, lambda own, keys: [*guards(5), *own]),
    "a memory that the relayer pays for": (
        False,
        lambda own, keys: [*own, reading(spl.SYSTEM, keys[0], data=b"\x00\x00")],
    ),
    "a memory": (False, lambda own, keys: [*own, reading(keys[1], data=b"\x00\x00")]),
    "a memory that is closed": (False, lambda own, keys: [*own, reading(keys[1], data=b"\x01")]),
    "a tree, which calls others": (
        False,
        lambda own, keys: [*own, reading(keys[1], data=b"\x0f\x00")],
    ),
    "the relayer beside another account": (
        False,
        lambda own, keys: [*own, reading(keys[0], keys[1], data=b"\x03\x00")],
    ),
    "the relayer's data": (False, lambda own, keys: [*own, reading(keys[0], data=b"\x08\x00")]),
    "a guard on three accounts": (
        False,
        lambda own, keys: [*own, reading(keys[1], keys[2], STRANGER, data=b"\x03")],
    ),
    "an empty guard": (False, lambda own, keys: [*own, reading(keys[1], data=b"")]),
    "a stranger's account to write to": (
        False,
        lambda own, keys: [
            *own,
            Instruction(spl.LIGHTHOUSE, b"\x04\x00", [AccountMeta(STRANGER, False, True)]),
        ],
    ),
    "a long guard": (False, lambda own, keys: [*own, reading(keys[1], data=b"\x04" * 513)]),
    "a higher price": (False, lambda own, keys: [own[0], price(5_000_001), *own[2:]]),
    "too many units": (False, lambda own, keys: units(1_400_001, own)),
    "two limits": (False, lambda own, keys: [own[0], *own]),
    "no price": (False, lambda own, keys: [own[0], *own[2:]]),
    "two prices": (False, lambda own, keys: [*own[:2], *own[1:]]),
    "another order": (False, lambda own, keys: own[::-1]),
    "no memo": (False, lambda own, keys: own[:-1]),
    "two memos": (False, lambda own, keys: [*own, own[-1]]),
    "another memo": (False, lambda own, keys: [*own[:-1], spl.create_memo("mine")]),
    "a second transfer": (False, lambda own, keys: [*own, own[-2]]),
    "coin from the relayer": (False, lambda own, keys: [*own, gift(keys[0])]),
    "coin from the buyer": (False, lambda own, keys: [*own, gift(keys[1])]),
    "another program": (
        False,
        lambda own, keys: [*own, Instruction(make_wallet(1).pubkey(), b"", [])],
    ),
}


def price(units: int) -> Instruction:
    return set_compute_unit_price(units)


def gift(sender) -> Instruction:
    return transfer(
        TransferParams(from_pubkey=sender, to_pubkey=make_wallet(1).pubkey(), lamports=1)
    )


@pytest.mark.parametrize("change", CHANGES)
async def test_wallets_may_guard_and_pay_more_and_nothing_else(lab, buyer, change):
    allowed, edit = CHANGES[change]
    _, option = await lab.offer(buyer, fee=3)
    ours = get_message(await lab.build_option(option))
    got = rebuild_transaction(ours, edit(list_instructions(ours), ours.account_keys)).message
    assert is_acceptable(ours, got, BOUNDS) is allowed


async def test_other_payers_signers_hashes_and_rights_are_not_ours(lab, buyer):
    _, option = await lab.offer(buyer)
    ours = get_message(await lab.build_option(option))
    own, relayer = list_instructions(ours), ours.account_keys[0]
    other_hash = MessageV0.try_compile(relayer, own, [], Hash.new_unique())
    other_payer = MessageV0.try_compile(ours.account_keys[1], own, [], ours.recent_blockhash)
    third = Instruction(
        spl.LIGHTHOUSE, b"\x04", [AccountMeta(make_wallet(1).pubkey(), True, False)]
    )
    more_signers = rebuild_transaction(ours, [*own, third]).message
    mint = spl.parse_pubkey(TOKEN.address)
    writes = Instruction(spl.LIGHTHOUSE, b"\x04", [AccountMeta(mint, False, True)])
    more_rights = rebuild_transaction(ours, [*own, writes]).message
    for got in (other_hash, other_payer, more_signers, more_rights):
        assert not is_acceptable(ours, got, BOUNDS)


async def of_length(lab, buyer, length: int) -> tuple:
    """Return an option, its issue, and the signed transaction at exactly this length."""
    _, option = await lab.offer(buyer)
    issued = await lab.build_option(option)
    ours = get_message(issued)
    own, left = list_instructions(ours), length
    guards: list[Instruction] = []
    # each guard repeats, as often as fits, that an account has at least zero
    while (left := length - len(bytes(rebuild_transaction(ours, [*own, *guards])))) > 20:
        guards.append(make_long_guard(ours.account_keys[1], min(50, (left - 20) // 10)))
    transaction = rebuild_transaction(ours, [*own, *guards])
    return option, issued, make_outputs(buyer.sign(transaction)), len(bytes(transaction))


async def test_transaction_that_fills_a_packet_pays(lab, buyer):
    option, issued, output, size = await of_length(lab, buyer, PACKET_BYTES)
    assert PACKET_BYTES - 24 < size <= PACKET_BYTES
    await lab.rail.verifier.verify(option, [issued], output)


@pytest.mark.parametrize("length", [PACKET_BYTES + 40, V1_BYTES // 2])
async def test_transaction_longer_than_its_version_allows_is_refused_without_the_chain(
    lab, buyer, length
):
    """Only transactions of version 1 can be longer (SIMD-0385)."""
    option, issued, output, size = await of_length(lab, buyer, length)
    assert size > PACKET_BYTES
    before = lab.rail.rpc.request_count
    with pytest.raises(ApiError) as caught:
        await lab.rail.verifier.verify(option, [issued], output)
    assert caught.value.details == {"reason": "unreadable_output"}
    assert (
        caught.value.message
        == f"The transaction has {size} bytes, but clusters accept at most 1232"
    )
    assert lab.rail.rpc.request_count == before


async def test_transaction_of_version_1_is_refused_with_the_version_that_was_issued(lab, buyer):
    _, option = await lab.offer(buyer)
    issued = await lab.build_option(option)
    ours = get_message(issued)
    other = MessageV1.try_compile(
        ours.account_keys[0], list_instructions(ours)[2:], ours.recent_blockhash
    )
    raw = bytes(VersionedTransaction.populate(other, [Signature.default()] * 2))
    assert raw[:1] == V1_FIRST_BYTE
    before = lab.rail.rpc.request_count
    with pytest.raises(ApiError, match="has version 1, but .* has version 0") as caught:
        await lab.rail.verifier.verify(
            option, [issued], make_outputs(base64.b64encode(raw).decode())
        )
    assert caught.value.details == {"reason": "transaction_mismatch"}
    assert lab.rail.rpc.request_count == before


@pytest.mark.parametrize(("first", "most"), [(b"\x01", PACKET_BYTES), (V1_FIRST_BYTE, V1_BYTES)])
async def test_output_longer_than_any_transaction_is_refused_before_it_is_read(
    lab, buyer, first, most
):
    _, option = await lab.offer(buyer)
    issued = await lab.build_option(option)
    too_long = base64.b64encode(first + bytes(most)).decode()
    with pytest.raises(ApiError, match=f"has {most + 1} bytes, but clusters accept at most {most}"):
        await lab.rail.verifier.verify(option, [issued], make_outputs(too_long))


async def test_transaction_that_no_cluster_takes_is_not_built():
    own = [spl.create_memo("m" * 500) for _ in range(3)]
    with pytest.raises(ValueError, match="is longer than 1232"):
        compile_message(make_wallet(1).pubkey(), own, Hash.new_unique())
