"""A node that has forgotten blocks: that it does not know a transaction proves nothing then."""

from __future__ import annotations

import pytest
from florin_server.devnet.solana import SOLNET
from florin_server.domain.settlement.chain_txs import ChainTx, TxState
from florin_server.rails.connection.jsonrpc import METHOD_NOT_FOUND
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.solana.reading.gaps import Gaps
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.types import Signed

from tests.support.evm_lab import refuse
from tests.support.solana import SolanaWallet
from tests.support.solana_kit import NodeError, coin, opened, wallet
from tests.support.solana_lab import FINAL, RELAYER, Lab, journaled, open_lab, settings
from tests.support.solana_nonce_steps import accepted as accepted_with_nonce
from tests.support.solana_nonce_steps import advance

LAPSED = "The transaction lapsed before it landed"
USED_UP = "The transaction's nonce was used up before it landed"
TOLD = "the node has forgotten blocks that may hold transactions of ours"


@pytest.fixture
async def lab():
    async with open_lab(durable_nonces=2) as lab:
        made = await lab.rail.durable_nonces.create(lab.rail.durable_nonces.addresses)
        await lab.rail.relay.broadcast(made.raw)
        await lab.slots(FINAL)
        yield lab


@pytest.fixture
def buyer() -> SolanaWallet:
    return SolanaWallet()


async def prune(lab: Lab) -> int:
    """Days pass, and the node forgets all but the newest slots; the first that it knows."""
    await lab.slots(2_000)
    first = await lab.node.fault("prune")
    assert first == await lab.node.ask("getFirstAvailableBlock") > 1_000
    return first


async def test_the_embedded_chain_forgets_like_any_node(tmp_path):
    path = tmp_path / "chain.db"
    async with opened(path, finalized_slots=FINAL) as node:
        assert await node.ask("getFirstAvailableBlock") == 0
        buyer, shop = wallet(1), wallet(2).pubkey()
        await node.fund(buyer)
        old = await node.send(await node.made([buyer], coin(buyer, shop, 10**7)))
        await node.fault("slots", slots=500)
        new = await node.send(await node.made([buyer], coin(buyer, shop, 10**7)))
        # what could still land a second time is kept
        with pytest.raises(NodeError):
            await node.fault("prune", slots=149)
        slot = await node.ask("getSlot", {"commitment": "processed"})
        assert await node.fault("prune", slots=200) == slot - 200
    async with opened(path, finalized_slots=FINAL) as node:
        assert await node.ask("getFirstAvailableBlock") == slot - 200
        # what was forgotten is not remembered again
        assert await node.fault("prune", slots=1000) == slot - 200
        await node.fault("slots", slots=40)
        assert await node.status(old) is None
        assert await node.ask("getTransaction", old, "base64") is None
        assert (await node.status(new))["err"] is None
        listed = await node.ask("getSignaturesForAddress", str(shop))
        assert [one["signature"] for one in listed] == [new]
        assert await node.coin(shop) == 2 * 10**7


@pytest.mark.parametrize("landed", [True, False])
async def test_a_payment_that_a_pruned_node_forgot_is_not_dead(lab, buyer, landed):
    item, issued = await lab.accepted(buyer)
    tx = journaled(await lab.rail.relay.sign(RELAYER.address, 0, [item]), item)
    if landed:
        await lab.sent(item)
        await lab.slots(FINAL)
    assert lab.rail.nodes.disagreement == ""
    await prune(lab)
    assert (await lab.node.status(tx.hash)) is None
    assert await lab.rail.observer.unpayable_reason(item, [issued]) is None
    assert not await lab.rail.observer.cannot_be_mined(tx, [issued])
    assert lab.rail.nodes.disagreement.startswith(TOLD)
    assert lab.rail.nodes.disagreement.endswith(": 1")


@pytest.mark.parametrize("landed", [True, False])
async def test_nor_is_one_whose_nonce_was_used(lab, buyer, landed):
    item, issued = await accepted_with_nonce(lab, buyer)
    if landed:
        await lab.sent(item)
    else:
        await advance(lab)
    await prune(lab)
    assert await lab.rail.observer.unpayable_reason(item, [issued]) is None
    assert lab.rail.nodes.disagreement.startswith(TOLD)


async def test_what_was_issued_after_all_that_is_forgotten_ends_as_ever(lab, buyer):
    await prune(lab)
    await lab.slots(1_000)
    item, issued = await lab.accepted(buyer)
    with_nonce = await accepted_with_nonce(lab, SolanaWallet())
    await lab.slots(400)
    await advance(lab)
    await lab.slots(FINAL)
    assert await lab.rail.observer.unpayable_reason(item, [issued]) == LAPSED
    assert await lab.rail.observer.unpayable_reason(with_nonce[0], [with_nonce[1]]) == USED_UP
    assert lab.rail.nodes.disagreement == ""


async def test_a_node_that_does_not_tell_what_it_forgot_proves_nothing(lab, buyer):
    item, issued = await lab.accepted(buyer)
    await lab.slots(400)
    lab.between.changes["getFirstAvailableBlock"] = refuse(METHOD_NOT_FOUND, "no such method")
    assert await lab.rail.observer.unpayable_reason(item, [issued]) is None
    assert lab.rail.nodes.disagreement.startswith(TOLD)
    lab.between.changes.clear()
    assert await lab.rail.observer.unpayable_reason(item, [issued]) == LAPSED


def own(made: Signed, since_block: int | None) -> ChainTx:
    """A transaction of our own as it is written down."""
    return ChainTx(
        id="tx_1",
        chain_id=SOLNET.chain_id,
        sender=RELAYER.address,
        nonce=0,
        raw=made.raw,
        hash=made.hash,
        payment_ids=(),
        state=TxState.SENT,
        created_at_us=0,
        since_block=since_block,
    )


async def test_a_transaction_of_our_own_is_judged_from_the_slot_of_its_blockhash(lab):
    addresses = lab.rail.durable_nonces.addresses
    lost = await lab.rail.durable_nonces.advance(addresses)
    assert lost.since_block == await lab.node.ask("getSlot", {"commitment": "finalized"})
    await lab.slots(1)
    landed = await lab.rail.durable_nonces.advance(addresses)
    await lab.rail.relay.broadcast(landed.raw)
    await lab.slots(400)
    assert await lab.rail.observer.cannot_be_mined(own(lost, lost.since_block), [])
    assert not await lab.rail.observer.cannot_be_mined(own(landed, landed.since_block), [])
    await prune(lab)
    assert not await lab.rail.relay.knows(landed.hash)
    for made in (lost, landed):
        # what an older release signed has no slot
        for since in (made.since_block, None):
            assert not await lab.rail.observer.cannot_be_mined(own(made, since), [])
    assert lab.rail.nodes.disagreement.startswith(TOLD)


async def test_a_payout_that_a_pruned_node_forgot_is_not_sent_again(lab):
    """A second transfer would be a gift."""
    rail = SolanaRail(settings(), RELAYER, lab.between, treasury=SolanaSigner(b"\x53" * 32))
    assert rail.payouts is not None
    made = await lab.rail.durable_nonces.advance(lab.rail.durable_nonces.addresses)
    tx = own(made, made.since_block)
    await lab.slots(400)
    assert await rail.payouts.cannot_be_mined(tx, made.lapses_at)
    await prune(lab)
    assert not await rail.payouts.cannot_be_mined(tx, made.lapses_at)
    assert not await rail.payouts.cannot_be_mined(own(made, None), made.lapses_at)
    assert rail.nodes.disagreement.startswith(TOLD)
    await rail.close()


def test_what_nobody_asks_about_any_more_is_not_told():
    now = [1_000.0]
    gaps = Gaps(lambda: now[0])
    for number in range(1_500):
        assert not gaps.proves_absence(f"hash {number}", since=10, first=11)
    # a bound that nobody reaches
    assert gaps.problem.endswith(": 1000")
    now[0] += 30
    assert not gaps.proves_absence("hash 7", since=5_000, first=4_001)
    now[0] += 30
    assert gaps.problem.endswith(": 1")
    now[0] += 30
    assert gaps.problem == ""
    assert gaps.proves_absence("hash 8", since=5_000, first=4_000)
    assert gaps.proves_absence("hash 9", since=0, first=0)


async def test_every_transaction_that_a_pruned_node_forgot_is_counted(lab):
    plain = [await lab.accepted(SolanaWallet()) for _ in range(2)]
    with_nonce = [await accepted_with_nonce(lab, SolanaWallet()) for _ in range(2)]
    await advance(lab)
    await prune(lab)
    for count, (item, issued) in enumerate([*plain, *with_nonce], 1):
        assert await lab.rail.observer.unpayable_reason(item, [issued]) is None
        assert lab.rail.nodes.disagreement.endswith(f": {count}")
