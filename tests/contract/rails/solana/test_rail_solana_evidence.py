"""Test how each part of a node's transactions is used as evidence."""

from __future__ import annotations

from typing import Any

import pytest
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.domain.chains.solana import spl
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.solana.reading import evidence as evidence_module
from florin_server.rails.solana.reading.evidence import SolanaEvidenceReader
from florin_server.rails.types import ChainHead, RailUnavailable
from solders.message import MessageV0
from solders.transaction import VersionedTransaction

from tests.support.evm_harness import make_reply
from tests.support.solana import SolanaTestWallet
from tests.support.solana_rail_harness import (
    FINAL,
    MERCHANT,
    PRICE,
    RELAYER,
    TREASURY,
    SolanaRailHarness,
    make_chain_settings,
    open_lab,
)

# the first byte of the token program's instruction of that name
TRANSFER_CHECKED = b"\x0c"


@pytest.fixture
async def lab():
    async with open_lab() as lab:
        yield lab


@pytest.fixture
def buyer() -> SolanaTestWallet:
    return SolanaTestWallet()


@pytest.fixture
def evidence(lab) -> SolanaEvidenceReader:
    return lab.rail.observer.evidence


async def settled(lab: SolanaRailHarness, buyer: SolanaTestWallet, **offer: Any) -> tuple[Any, Any]:
    """Settle a payment to finality; return it and its transaction."""
    item, _ = await lab.create_item(buyer, **offer)
    tx = await lab.submit_item(item)
    await lab.slots(FINAL)
    return item, tx


def message(tx: Any) -> MessageV0:
    found_message = VersionedTransaction.from_bytes(tx.raw).message
    assert isinstance(found_message, MessageV0)
    return found_message


def altered(change: Any) -> Any:
    """Return a node that alters a transaction."""

    def change_answer(_params: list[Any], answer: dict[str, Any]) -> dict[str, Any]:
        change(answer["result"])
        return answer

    return change_answer


async def test_the_head_is_a_slot_without_more(lab, evidence):
    slot = await lab.node.ask("getSlot", {"commitment": "finalized"})
    assert await evidence.get_head() == ChainHead(number=slot, hash="", time=0)


@pytest.mark.parametrize("fee", [0, 40_000])
async def test_final_payment_event_has_every_field(lab, buyer, fee):
    item, tx = await settled(lab, buyer, fee=fee)
    status = await lab.node.status(tx.hash)
    (paid,) = await lab.rail.observer.find_settlement_events([item])
    assert (paid.block_number, paid.block_hash, paid.nonce) == (status["slot"], "", "")
    assert (paid.dest, paid.fee_to, paid.fee) == (MERCHANT, TREASURY if fee else "", fee)
    (mined,) = (await lab.rail.observer.find_mined([tx.hash])).values()
    assert (mined.block_number, mined.block_hash) == (status["slot"], "")
    # the instruction that pays the merchant's share, next to one for the fee
    sent, token = message(tx), SOLANA_DEVNET.tokens[0]
    to = spl.derive_associated_address(
        *map(spl.parse_pubkey, (MERCHANT, token.address, token.program))
    )
    transfers = [
        position
        for position, step in enumerate(sent.instructions)
        if step.data[:1] == TRANSFER_CHECKED and sent.account_keys[step.accounts[2]] == to
    ]
    assert [paid.position] == transfers


async def test_cached_transaction_is_requested_again_only_after_forget(lab, buyer, evidence):
    _, tx = await settled(lab, buyer)
    first = await evidence.find_mined([tx.hash])
    lab.transport.methods.clear()
    assert await evidence.find_mined([tx.hash]) == first
    assert "getSignatureStatuses" not in lab.transport.methods
    assert "getTransaction" not in lab.transport.methods
    evidence.forget_records(["unknown", tx.hash])
    assert await evidence.find_mined([tx.hash]) == first
    assert lab.transport.methods.count("getTransaction") == 1


async def test_transactions_are_requested_with_the_supported_version(lab, buyer, evidence):
    requests: list[Any] = []

    def noted(params: list[Any], answer: Any) -> Any:
        requests.append(params)
        return answer

    lab.transport.changes["getTransaction"] = noted
    _, tx = await settled(lab, buyer)
    await evidence.find_mined([tx.hash])
    assert requests[-1] == [
        tx.hash,
        {"commitment": "finalized", "encoding": "base64", "maxSupportedTransactionVersion": 0},
    ]


async def test_the_oldest_is_forgotten_first(lab, evidence, monkeypatch):
    monkeypatch.setattr(evidence_module, "_CACHED_MAX", 2)
    hashes = [(await settled(lab, SolanaTestWallet()))[1].hash for _ in range(3)]
    for item in hashes:
        await evidence.find_mined([item])
    lab.transport.methods.clear()
    await evidence.find_mined(hashes[1:])
    assert "getTransaction" not in lab.transport.methods
    await evidence.find_mined(hashes[:1])
    assert lab.transport.methods.count("getTransaction") == 1


async def test_token_transfer_changes_are_returned_by_account(lab, buyer, evidence):
    _, tx = await settled(lab, buyer)
    source, dest = (
        spl.derive_associated_address(
            spl.parse_pubkey(owner), spl.parse_pubkey(lab.rail.chain.assets[0].mint), spl.TOKEN
        )
        for owner in (buyer.address, MERCHANT)
    )
    moved = await evidence.find_changes(tx.hash, message(tx), is_coin=False)
    assert moved == {source: -PRICE, dest: PRICE}
    coin = await evidence.find_changes(tx.hash, message(tx), is_coin=True)
    assert RELAYER.pubkey not in coin


async def test_a_balance_of_no_account_of_the_message_is_passed_over(lab, buyer, evidence):
    _, tx = await settled(lab, buyer)
    count = len(message(tx).account_keys)

    def more(result: Any) -> None:
        last = result["meta"]["postTokenBalances"][-1]
        result["meta"]["postTokenBalances"].append({**last, "accountIndex": count})

    true = await evidence.find_changes(tx.hash, message(tx), is_coin=False)
    lab.transport.changes["getTransaction"] = altered(more)
    evidence.forget_records([tx.hash])
    assert await evidence.find_changes(tx.hash, message(tx), is_coin=False) == true


async def test_an_account_that_was_emptied_and_closed_moved_all_that_it_held(lab, buyer, evidence):
    _, tx = await settled(lab, buyer)
    source = spl.derive_associated_address(
        spl.parse_pubkey(buyer.address), spl.parse_pubkey(lab.rail.chain.assets[0].mint), spl.TOKEN
    )
    held: list[int] = []

    def closed(result: Any) -> None:
        index = message(tx).account_keys.index(source)
        (before,) = [
            pre_token_balance
            for pre_token_balance in result["meta"]["preTokenBalances"]
            if pre_token_balance["accountIndex"] == index
        ]
        held.append(int(before["uiTokenAmount"]["amount"]))
        result["meta"]["postTokenBalances"] = [
            post_token_balance
            for post_token_balance in result["meta"]["postTokenBalances"]
            if post_token_balance["accountIndex"] != index
        ]

    lab.transport.changes["getTransaction"] = altered(closed)
    moved = await evidence.find_changes(tx.hash, message(tx), is_coin=False)
    assert moved[source] == -held[0]


def without_err(result: Any) -> None:
    del result["meta"]["err"]


def without_balances(result: Any) -> None:
    result["meta"]["preBalances"] = result["meta"]["postBalances"] = []


def with_one_balance_more(result: Any) -> None:
    result["meta"]["preBalances"].append(1)


def with_tokens(amount: Any) -> Any:
    def change(result: Any) -> None:
        result["meta"]["postTokenBalances"][0]["uiTokenAmount"]["amount"] = amount

    return change


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (without_err, "without its error"),
        (with_one_balance_more, "half of its balances"),
        (with_tokens("1.5"), "not a number"),
        (with_tokens(15), "not a number"),
        (with_tokens(None), "not a number"),
        (with_tokens("-1"), "not a number"),
    ],
)
async def test_incomplete_transaction_proves_nothing(lab, buyer, change, fault):
    item, _ = await settled(lab, buyer)
    lab.transport.changes["getTransaction"] = altered(change)
    rail = SolanaRail(make_chain_settings(), RELAYER, lab.transport)
    with pytest.raises(RailUnavailable, match=fault):
        await rail.observer.find_settlement_events([item])


async def test_missing_final_transaction_raises_rail_unavailable(lab, buyer, evidence):
    _, tx = await settled(lab, buyer)
    lab.transport.changes["getTransaction"] = make_reply(None)
    with pytest.raises(RailUnavailable, match="missing"):
        await evidence.find_changes(tx.hash, message(tx), is_coin=False)
