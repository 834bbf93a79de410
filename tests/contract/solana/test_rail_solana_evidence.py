"""What the transactions that a node tells come to, part by part."""

from __future__ import annotations

from typing import Any

import pytest
from florin_server.chains.solana import spl
from florin_server.devnet.solana import SOLNET
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.solana.reading import evidence as evidence_module
from florin_server.rails.solana.reading.evidence import Evidence
from florin_server.rails.types import Head, RailUnavailable
from solders.message import MessageV0
from solders.transaction import VersionedTransaction

from tests.support.evm_lab import reply
from tests.support.solana import SolanaWallet
from tests.support.solana_lab import (
    FINAL,
    MERCHANT,
    PRICE,
    RELAYER,
    TREASURY,
    Lab,
    open_lab,
    settings,
)

# the first byte of the token program's instruction of that name
TRANSFER_CHECKED = b"\x0c"


@pytest.fixture
async def lab():
    async with open_lab() as lab:
        yield lab


@pytest.fixture
def buyer() -> SolanaWallet:
    return SolanaWallet()


@pytest.fixture
def evidence(lab) -> Evidence:
    return lab.rail.observer.evidence


async def settled(lab: Lab, buyer: SolanaWallet, **offer: Any) -> tuple[Any, Any]:
    """A payment that is final, and its transaction."""
    item, _ = await lab.accepted(buyer, **offer)
    tx = await lab.sent(item)
    await lab.slots(FINAL)
    return item, tx


def message(tx: Any) -> MessageV0:
    found = VersionedTransaction.from_bytes(tx.raw).message
    assert isinstance(found, MessageV0)
    return found


def altered(change: Any) -> Any:
    """A node that tells a transaction otherwise."""

    def told(_params: list[Any], answer: dict[str, Any]) -> dict[str, Any]:
        change(answer["result"])
        return answer

    return told


async def test_the_head_is_a_slot_without_more(lab, evidence):
    slot = await lab.node.ask("getSlot", {"commitment": "finalized"})
    assert await evidence.head() == Head(number=slot, hash="", time=0)


@pytest.mark.parametrize("fee", [0, 40_000])
async def test_a_final_payment_is_told_with_all_its_parts(lab, buyer, fee):
    item, tx = await settled(lab, buyer, fee=fee)
    status = await lab.node.status(tx.hash)
    (paid,) = await lab.rail.observer.find([item])
    assert (paid.block_number, paid.block_hash, paid.nonce) == (status["slot"], "", "")
    assert (paid.dest, paid.fee_to, paid.fee) == (MERCHANT, TREASURY if fee else "", fee)
    (mined,) = (await lab.rail.observer.mined([tx.hash])).values()
    assert (mined.block_number, mined.block_hash) == (status["slot"], "")
    # which of its steps brings the merchant its share, beside one for the fee
    sent, token = message(tx), SOLNET.tokens[0]
    to = spl.associated(*map(spl.pubkey, (MERCHANT, token.address, token.program)))
    transfers = [
        position
        for position, step in enumerate(sent.instructions)
        if step.data[:1] == TRANSFER_CHECKED and sent.account_keys[step.accounts[2]] == to
    ]
    assert [paid.position] == transfers


async def test_what_is_known_is_not_asked_for_again_until_it_is_forgotten(lab, buyer, evidence):
    _, tx = await settled(lab, buyer)
    first = await evidence.mined([tx.hash])
    lab.between.asked.clear()
    assert await evidence.mined([tx.hash]) == first
    assert "getSignatureStatuses" not in lab.between.asked
    assert "getTransaction" not in lab.between.asked
    evidence.forget(["unknown", tx.hash])
    assert await evidence.mined([tx.hash]) == first
    assert lab.between.asked.count("getTransaction") == 1


async def test_transactions_are_asked_for_in_the_version_that_is_read(lab, buyer, evidence):
    asked: list[Any] = []

    def noted(params: list[Any], answer: Any) -> Any:
        asked.append(params)
        return answer

    lab.between.changes["getTransaction"] = noted
    _, tx = await settled(lab, buyer)
    await evidence.mined([tx.hash])
    assert asked[-1] == [
        tx.hash,
        {"commitment": "finalized", "encoding": "base64", "maxSupportedTransactionVersion": 0},
    ]


async def test_the_oldest_is_forgotten_first(lab, evidence, monkeypatch):
    monkeypatch.setattr(evidence_module, "_REMEMBERED", 2)
    hashes = [(await settled(lab, SolanaWallet()))[1].hash for _ in range(3)]
    for one in hashes:
        await evidence.mined([one])
    lab.between.asked.clear()
    await evidence.mined(hashes[1:])
    assert "getTransaction" not in lab.between.asked
    await evidence.mined(hashes[:1])
    assert lab.between.asked.count("getTransaction") == 1


async def test_what_a_transfer_of_tokens_moved_is_told_by_account(lab, buyer, evidence):
    _, tx = await settled(lab, buyer)
    source, dest = (
        spl.associated(spl.pubkey(owner), spl.pubkey(lab.rail.chain.assets[0].mint), spl.TOKEN)
        for owner in (buyer.address, MERCHANT)
    )
    moved = await evidence.changes(tx.hash, message(tx), coin=False)
    assert moved == {source: -PRICE, dest: PRICE}
    coin = await evidence.changes(tx.hash, message(tx), coin=True)
    assert RELAYER.pubkey not in coin


async def test_a_balance_of_no_account_of_the_message_is_passed_over(lab, buyer, evidence):
    _, tx = await settled(lab, buyer)
    count = len(message(tx).account_keys)

    def more(result: Any) -> None:
        last = result["meta"]["postTokenBalances"][-1]
        result["meta"]["postTokenBalances"].append({**last, "accountIndex": count})

    true = await evidence.changes(tx.hash, message(tx), coin=False)
    lab.between.changes["getTransaction"] = altered(more)
    evidence.forget([tx.hash])
    assert await evidence.changes(tx.hash, message(tx), coin=False) == true


async def test_an_account_that_was_emptied_and_closed_moved_all_that_it_held(lab, buyer, evidence):
    _, tx = await settled(lab, buyer)
    source = spl.associated(
        spl.pubkey(buyer.address), spl.pubkey(lab.rail.chain.assets[0].mint), spl.TOKEN
    )
    held: list[int] = []

    def closed(result: Any) -> None:
        index = message(tx).account_keys.index(source)
        (before,) = [
            one for one in result["meta"]["preTokenBalances"] if one["accountIndex"] == index
        ]
        held.append(int(before["uiTokenAmount"]["amount"]))
        result["meta"]["postTokenBalances"] = [
            one for one in result["meta"]["postTokenBalances"] if one["accountIndex"] != index
        ]

    lab.between.changes["getTransaction"] = altered(closed)
    moved = await evidence.changes(tx.hash, message(tx), coin=False)
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
        (with_tokens("1.5"), "no number"),
        (with_tokens(15), "no number"),
        (with_tokens(None), "no number"),
        (with_tokens("-1"), "no number"),
    ],
)
async def test_a_transaction_that_is_told_in_part_proves_nothing(lab, buyer, change, fault):
    item, _ = await settled(lab, buyer)
    lab.between.changes["getTransaction"] = altered(change)
    rail = SolanaRail(settings(), RELAYER, lab.between)
    with pytest.raises(RailUnavailable, match=fault):
        await rail.observer.find([item])


async def test_a_final_transaction_that_is_missing_moved_nothing_that_is_known(
    lab, buyer, evidence
):
    _, tx = await settled(lab, buyer)
    lab.between.changes["getTransaction"] = reply(None)
    with pytest.raises(RailUnavailable, match="missing"):
        await evidence.changes(tx.hash, message(tx), coin=False)
