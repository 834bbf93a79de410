"""Test pruned nodes: an unknown transaction proves nothing there."""

from __future__ import annotations

import pytest
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.domain.settlement.chain_txs import ChainTx, TxState
from florin_server.rails.connection.jsonrpc import METHOD_NOT_FOUND
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.solana.reading.gaps import HistoryGaps
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.types import SignedTransaction

from tests.support.evm_harness import make_refusal
from tests.support.solana import SolanaTestWallet
from tests.support.solana_devnet import SolanaNodeError, make_coin_transfer, make_wallet, open_node
from tests.support.solana_nonce_actions import accept_payment as accepted_with_nonce
from tests.support.solana_nonce_actions import advance_nonce
from tests.support.solana_rail_harness import (
    FINAL,
    RELAYER,
    SolanaRailHarness,
    make_chain_settings,
    make_chain_tx,
    open_lab,
)

LAPSED = "The transaction lapsed before it landed"
USED_UP = "The transaction's nonce was used up before it landed"
PRUNED_MESSAGE = "the node no longer has blocks that may contain our transactions"


@pytest.fixture
async def lab():
    async with open_lab(durable_nonces=2) as lab:
        signed_transaction = await lab.rail.durable_nonces.sign_creation(
            lab.rail.durable_nonces.addresses
        )
        await lab.rail.relay.broadcast(signed_transaction.raw)
        await lab.slots(FINAL)
        yield lab


@pytest.fixture
def buyer() -> SolanaTestWallet:
    return SolanaTestWallet()


async def prune(lab: SolanaRailHarness) -> int:
    """Let days pass until the node forgets old slots; return the first slot that it has."""
    await lab.slots(2_000)
    first = await lab.node.fault("prune")
    assert first == await lab.node.ask("getFirstAvailableBlock") > 1_000
    return first


async def test_the_embedded_chain_forgets_like_any_node(tmp_path):
    path = tmp_path / "chain.db"
    async with open_node(path, finalized_slots=FINAL) as node:
        assert await node.ask("getFirstAvailableBlock") == 0
        buyer, shop = make_wallet(1), make_wallet(2).pubkey()
        await node.fund(buyer)
        old = await node.send(
            await node.make_transaction([buyer], make_coin_transfer(buyer, shop, 10**7))
        )
        await node.fault("slots", slots=500)
        new = await node.send(
            await node.make_transaction([buyer], make_coin_transfer(buyer, shop, 10**7))
        )
        # a transaction that could still land a second time is kept
        with pytest.raises(SolanaNodeError):
            await node.fault("prune", slots=149)
        slot = await node.ask("getSlot", {"commitment": "processed"})
        assert await node.fault("prune", slots=200) == slot - 200
    async with open_node(path, finalized_slots=FINAL) as node:
        assert await node.ask("getFirstAvailableBlock") == slot - 200
        # forgotten slots do not come back
        assert await node.fault("prune", slots=1000) == slot - 200
        await node.fault("slots", slots=40)
        assert await node.status(old) is None
        assert await node.ask("getTransaction", old, "base64") is None
        assert (await node.status(new))["err"] is None
        listed = await node.ask("getSignaturesForAddress", str(shop))
        assert [item["signature"] for item in listed] == [new]
        assert await node.coin(shop) == 2 * 10**7


@pytest.mark.parametrize("landed", [True, False])
async def test_a_payment_that_a_pruned_node_forgot_is_not_dead(lab, buyer, landed):
    item, issued = await lab.create_item(buyer)
    tx = make_chain_tx(await lab.rail.relay.sign(RELAYER.address, 0, [item]), item)
    if landed:
        await lab.submit_item(item)
        await lab.slots(FINAL)
    assert lab.rail.nodes.disagreement == ""
    await prune(lab)
    assert (await lab.node.status(tx.hash)) is None
    assert await lab.rail.observer.find_unpayable_reason(item, [issued]) is None
    assert not await lab.rail.observer.cannot_be_mined(tx, [issued])
    assert lab.rail.nodes.disagreement.startswith(PRUNED_MESSAGE)
    assert lab.rail.nodes.disagreement.endswith(": 1")


@pytest.mark.parametrize("landed", [True, False])
async def test_payment_with_a_used_nonce_is_not_dead_on_a_pruned_node(lab, buyer, landed):
    item, issued = await accepted_with_nonce(lab, buyer)
    if landed:
        await lab.submit_item(item)
    else:
        await advance_nonce(lab)
    await prune(lab)
    assert await lab.rail.observer.find_unpayable_reason(item, [issued]) is None
    assert lab.rail.nodes.disagreement.startswith(PRUNED_MESSAGE)


async def test_payment_issued_after_the_pruned_history_lapses_normally(lab, buyer):
    await prune(lab)
    await lab.slots(1_000)
    item, issued = await lab.create_item(buyer)
    with_nonce = await accepted_with_nonce(lab, SolanaTestWallet())
    await lab.slots(400)
    await advance_nonce(lab)
    await lab.slots(FINAL)
    assert await lab.rail.observer.find_unpayable_reason(item, [issued]) == LAPSED
    assert await lab.rail.observer.find_unpayable_reason(with_nonce[0], [with_nonce[1]]) is None
    await lab.slots(8)
    assert await lab.rail.observer.find_unpayable_reason(with_nonce[0], [with_nonce[1]]) == USED_UP
    assert lab.rail.nodes.disagreement == ""


async def test_node_without_its_history_limit_proves_no_absence(lab, buyer):
    item, issued = await lab.create_item(buyer)
    await lab.slots(400)
    lab.transport.changes["getFirstAvailableBlock"] = make_refusal(
        METHOD_NOT_FOUND, "no such method"
    )
    assert await lab.rail.observer.find_unpayable_reason(item, [issued]) is None
    assert lab.rail.nodes.disagreement.startswith(PRUNED_MESSAGE)
    lab.transport.changes.clear()
    assert await lab.rail.observer.find_unpayable_reason(item, [issued]) == LAPSED


def own(signed_transaction: SignedTransaction, since_block: int | None) -> ChainTx:
    """Return our own transaction as recorded."""
    return ChainTx(
        id="tx_1",
        chain_id=SOLANA_DEVNET.chain_id,
        sender=RELAYER.address,
        nonce=0,
        raw=signed_transaction.raw,
        hash=signed_transaction.hash,
        payment_ids=(),
        state=TxState.SENT,
        created_at_us=0,
        since_block=since_block,
    )


async def test_a_transaction_of_our_own_is_judged_from_the_slot_of_its_blockhash(lab):
    addresses = lab.rail.durable_nonces.addresses
    lost = await lab.rail.durable_nonces.sign_advance(addresses)
    assert lost.since_block == await lab.node.ask("getSlot", {"commitment": "finalized"})
    await lab.slots(1)
    landed = await lab.rail.durable_nonces.sign_advance(addresses)
    await lab.rail.relay.broadcast(landed.raw)
    await lab.slots(400)
    assert await lab.rail.observer.cannot_be_mined(own(lost, lost.since_block), [])
    assert not await lab.rail.observer.cannot_be_mined(own(landed, landed.since_block), [])
    await prune(lab)
    assert not await lab.rail.relay.has_transaction(landed.hash)
    for created in (lost, landed):
        # a transaction signed by an older release has no slot
        for since in (created.since_block, None):
            assert not await lab.rail.observer.cannot_be_mined(own(created, since), [])
    assert lab.rail.nodes.disagreement.startswith(PRUNED_MESSAGE)


async def test_a_payout_that_a_pruned_node_forgot_is_not_sent_again(lab):
    """A second transfer would be a gift."""
    rail = SolanaRail(
        make_chain_settings(), RELAYER, lab.transport, treasury=SolanaSigner(b"\x53" * 32)
    )
    assert rail.payouts is not None
    created = await lab.rail.durable_nonces.sign_advance(lab.rail.durable_nonces.addresses)
    tx = own(created, created.since_block)
    await lab.slots(400)
    assert await rail.payouts.cannot_be_mined(tx, created.lapses_at)
    await prune(lab)
    assert not await rail.payouts.cannot_be_mined(tx, created.lapses_at)
    assert not await rail.payouts.cannot_be_mined(own(created, None), created.lapses_at)
    assert rail.nodes.disagreement.startswith(PRUNED_MESSAGE)
    await rail.close()


def test_history_gap_is_no_longer_reported_when_not_checked_again():
    now = [1_000.0]
    gaps = HistoryGaps(lambda: now[0])
    for number in range(1_500):
        assert not gaps.is_absence_proven(f"hash {number}", since=10, first=11)
    # a bound that is never reached
    assert gaps.problem.endswith(": 1000")
    now[0] += 30
    assert not gaps.is_absence_proven("hash 7", since=5_000, first=4_001)
    now[0] += 30
    assert gaps.problem.endswith(": 1")
    now[0] += 30
    assert gaps.problem == ""
    assert gaps.is_absence_proven("hash 8", since=5_000, first=4_000)
    assert gaps.is_absence_proven("hash 9", since=0, first=0)


async def test_every_transaction_that_a_pruned_node_forgot_is_counted(lab):
    plain = [await lab.create_item(SolanaTestWallet()) for _ in range(2)]
    with_nonce = [await accepted_with_nonce(lab, SolanaTestWallet()) for _ in range(2)]
    await advance_nonce(lab)
    await prune(lab)
    for count, (item, issued) in enumerate([*plain, *with_nonce], 1):
        assert await lab.rail.observer.find_unpayable_reason(item, [issued]) is None
        assert lab.rail.nodes.disagreement.endswith(f": {count}")
