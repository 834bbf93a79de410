"""Test payments, payouts and reorganizations on each supported chain, at its pace and prices."""

from __future__ import annotations

from math import ceil

import pytest
from florin_server.domain.payouts.payout import PayoutKind, PayoutStatus
from florin_server.money.ledger.store import ledger
from florin_server.money.settlement.store import reorg, settlement_items
from florin_server.money.settlement.worker.blocks import create_follower

from tests.support.chainlab.profiles import EVM, SOLANA, EvmProfile, SolanaProfile
from tests.support.chainlab.solana_harness import get_token_balance, open_solana_harness
from tests.support.chains import EmbeddedChains
from tests.support.evm_harness import CHAIN, MERCHANT, PRICE, TOKEN, make_buyer, to_account
from tests.support.payout_harness import BUYER, open_payout_harness
from tests.support.settlement_harness import SettlementHarness, open_settlement_harness
from tests.support.solana import SolanaTestWallet
from tests.support.solana_rail_harness import MERCHANT as MERCHANT_ON_SOLANA

WALLET = make_buyer(77)
BLOCKS_MAX = 400
DEAR = 90 * 10**9
# the pace is known after four looks, two seconds apart
LOOKS, APART_S = 5, 2.0

on_each_chain = pytest.mark.parametrize("profile", EVM, ids=lambda item: item.name)
on_each_cluster = pytest.mark.parametrize("profile", SOLANA, ids=lambda item: item.name)


async def learn_pace(shop: SettlementHarness, profile: EvmProfile) -> None:
    """Let the settler observe the chain until it knows the pace of its blocks."""
    for _ in range(LOOKS):
        await shop.lab.rhythm.seal(ceil(APART_S / profile.block_s))
        await shop.turn()
    assert shop.lab.rail.finality.pace.measured_s is not None


async def block_of(shop: SettlementHarness, tx_hash: str) -> int:
    receipt = await shop.lab.control.call("eth_getTransactionReceipt", tx_hash)
    return int(receipt["blockNumber"], 16)


async def books_are_exact(shop: SettlementHarness, paid: int) -> None:
    booked = await shop.store.read(ledger.get_balance(f"external:{to_account(MERCHANT)}", TOKEN))
    assert booked == await shop.lab.balance(MERCHANT) == PRICE * paid
    assert await shop.store.read(ledger.check()) == []
    assert await shop.store.read(settlement_items.list_unsettled(CHAIN)) == []
    assert shop.settler.health().problem == ""


@on_each_chain
async def test_payment_is_final_when_its_chain_promises_and_not_before(tmp_path, profile):
    async with open_settlement_harness(tmp_path, evm=EmbeddedChains(profile=profile)) as shop:
        await learn_pace(shop, profile)
        payment = await shop.create_processing_payment(WALLET)
        await shop.turn()
        (sent,) = await shop.transactions()
        sent_us = shop.lab.clock.steady_us()
        for _ in range(BLOCKS_MAX):
            if (await shop.get_payment(payment)).status.is_final:
                break
            await shop.lab.rhythm.seal(1)
            await shop.turn()
        ended = await shop.get_payment(payment)
        assert (ended.status, ended.tx_id) == ("succeeded", sent.hash)
        age_s = (shop.lab.clock.steady_us() - sent_us) / 1_000_000
        depth = shop.settler.head - await block_of(shop, sent.hash) + 1
        assert age_s >= profile.promise_s
        assert depth >= profile.finality["confirmations"]
        await shop.check(ended)
        await books_are_exact(shop, 1)


@on_each_chain
async def test_reorganization_below_final_depth_leaves_books_exact(tmp_path, profile):
    async with open_settlement_harness(tmp_path, evm=EmbeddedChains(profile=profile)) as shop:
        await learn_pace(shop, profile)
        moved, lost = (
            await shop.create_processing_payment(WALLET),
            await shop.create_processing_payment(make_buyer(78)),
        )
        await shop.turn()
        sent = await shop.transactions()
        # one block short of final, and one more short for a sequencer restart, which adds a block
        await shop.lab.rhythm.seal(profile.depth - 3)
        await shop.turn()
        assert [await shop.status(each_payment) for each_payment in (moved, lost)] == [
            "processing"
        ] * 2
        # deep enough for both; the last transaction is in none of the new blocks
        depth = shop.settler.head - await block_of(shop, sent[0].hash) + 1
        await shop.lab.control.call(
            "florin_fault", {"kind": "reorg", "depth": depth, "drop": [sent[-1].hash]}
        )
        for payment in (moved, lost):
            assert (await shop.run_to_end(payment)).status == "succeeded"
        await books_are_exact(shop, 2)


@on_each_chain
async def test_reorganization_beyond_final_depth_is_undone_and_paid_again_after_a_restart(
    tmp_path, profile
):
    async with open_settlement_harness(tmp_path, evm=EmbeddedChains(profile=profile)) as shop:
        await learn_pace(shop, profile)
        ended = await shop.run_to_end(await shop.create_processing_payment(WALLET))
        # another process watches a transaction that it did not see, before it knows the pace
        await shop.restart()
        watched = await shop.store.read(reorg.list_watched(CHAIN))
        assert [watched_tx.tx_hash for watched_tx in watched] == [ended.tx_id]
        await shop.lab.reorg(await shop.lab.depth_of(ended.tx_id), ended.tx_id)
        assert await shop.lab.balance(MERCHANT) == 0
        await shop.mine(6)
        assert await shop.get_payment(ended) == ended
        await shop.check(ended)
        booked = await shop.store.read(
            ledger.get_balance(f"external:{to_account(MERCHANT)}", TOKEN)
        )
        assert booked == await shop.lab.balance(MERCHANT) == PRICE


@on_each_chain
async def test_refund_and_payout_are_final_when_their_chain_promises(tmp_path, profile):
    async with open_payout_harness(tmp_path, evm=EmbeddedChains(profile=profile)) as desk:
        await desk.book_owed(700)
        refund = await desk.create_payout(150)
        payout = await desk.create_payout(
            500, id="pout_1", kind=PayoutKind.BALANCE, payment_id=None, account=to_account(MERCHANT)
        )
        asked_us = desk.lab.clock.steady_us()
        for each_payout in (refund, payout):
            assert (await desk.wait_done(each_payout)).status is PayoutStatus.DONE
        assert (desk.lab.clock.steady_us() - asked_us) / 1_000_000 >= profile.promise_s
        assert (await desk.refund(refund)).status == "succeeded"
        assert await desk.transfers(BUYER) == [150]
        assert await desk.transfers(MERCHANT) == [500]


@on_each_chain
async def test_waiting_transaction_offers_more_after_seconds_however_fast_blocks_come(
    tmp_path, profile
):
    async with open_settlement_harness(tmp_path, evm=EmbeddedChains(profile=profile)) as shop:
        await learn_pace(shop, profile)
        payment = await shop.create_processing_payment(WALLET)
        await shop.lab.pause()
        await shop.turn()
        sent_us = shop.lab.clock.steady_us()
        for _ in range(BLOCKS_MAX):
            # new blocks exclude the transaction because its fee is too low
            await shop.base_fee(DEAR)
            await shop.lab.rhythm.seal(1)
            await shop.turn()
            (waiting,) = await shop.transactions()
            if waiting.bumps:
                break
        assert waiting.bumps
        waited_s = (shop.lab.clock.steady_us() - sent_us) / 1_000_000
        least_s = 6 if profile.finality["final_after_s"] else 3 * profile.block_s
        assert waited_s >= least_s
        assert (await shop.run_to_end(payment)).status == "succeeded"


@on_each_chain
async def test_idle_chain_costs_two_calls_a_look(tmp_path, profile):
    async with open_settlement_harness(tmp_path, evm=EmbeddedChains(profile=profile)) as shop:
        blocks = create_follower(shop.lab.rail)
        await blocks.start()
        for _ in range(LOOKS):
            # one second's blocks are read together; replaced blocks are read separately
            await shop.lab.rhythm.seal(ceil(1 / profile.block_s))
            rewinds, request = blocks.rewind_count, len(shop.lab.node.methods)
            await blocks.poll(is_idle=True)
            if blocks.rewind_count == rewinds:
                assert len(shop.lab.node.methods) - request <= 2


@on_each_cluster
async def test_payment_and_payout_on_solana_are_final_with_their_cluster(
    tmp_path, profile: SolanaProfile
):
    async with open_solana_harness(tmp_path, profile) as shop:
        wallet = SolanaTestWallet()
        payment = await shop.create_processing_payment(wallet)
        await shop.turn()
        sent_us = shop.node.clock.steady_us()
        for _ in range(BLOCKS_MAX):
            if (await shop.get_payment(payment)).status.is_final:
                break
            await shop.pass_slots()
        assert (await shop.get_payment(payment)).status == "succeeded"
        final_s = (shop.node.clock.steady_us() - sent_us) / 1_000_000
        least_s = profile.finalized_slots * profile.slot_s
        # it lands in its own slot or the next, and the settler looks once per slot
        assert least_s <= final_s <= least_s + 3 * profile.slot_s
        assert await get_token_balance(shop, MERCHANT_ON_SOLANA) == PRICE
        await shop.book_owed(700)
        held = await get_token_balance(shop, wallet.address)
        for payout in (await shop.ask_refund(wallet, 150), await shop.ask_balance(500)):
            await shop.pass_slots(profile.finalized_slots + 3)
            assert (await shop.payout(payout)).status is PayoutStatus.DONE
        assert await get_token_balance(shop, wallet.address) == held + 150
        assert await get_token_balance(shop, MERCHANT_ON_SOLANA) == PRICE + 500
        await shop.check_books()
