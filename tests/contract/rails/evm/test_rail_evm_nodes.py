"""Test an EVM rail on several nodes: with the limits of real providers, and with lying nodes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from florin_sandbox.devnet.evm import EvmDevChain, EvmDevSettings
from florin_server.domain.settlement.chain_txs import ChainTx, TransactionVariant, TxState
from florin_server.rails.connection.health import BACKOFF_MAX_S, PROBE_S
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.types import RailUnavailable, TransferEffect, TreasuryTransfer

from tests.support import proxy as faults
from tests.support.evm_harness import (
    CHAIN,
    FEES,
    RELAYER,
    START_S,
    make_chain_settings,
)
from tests.support.evm_nodes import CONFIRMATIONS, nodes

# behavior of providers


@pytest.mark.parametrize(
    "fault",
    [
        faults.make_status_fault(429),
        faults.make_status_fault(502, body="<html>bad gateway</html>"),
        faults.make_status_fault(503),
        faults.answer_html,
        faults.truncate_response,
        faults.cut_connection,
        faults.make_error_fault(-32005, "daily request count exceeded, request rate limited"),
        faults.make_error_fault(-32603, "internal error"),
    ],
    ids=["429", "502", "503", "html", "truncated", "cut", "limit", "internal"],
)
async def test_a_node_that_fails_in_any_way_is_answered_for_by_the_other(fault):
    async with nodes() as result:
        first, second = result.proxies
        head = await result.rail.observer.get_head()
        first.fail(fault)
        before = second.requests
        assert await result.rail.observer.get_head() == head
        assert await result.rail.blocks.find_block(head.number) is not None
        assert second.requests > before


@pytest.mark.parametrize(
    "fault",
    [
        faults.make_status_fault(500),
        faults.answer_html,
        faults.truncate_response,
        faults.cut_connection,
        faults.make_status_fault(429),
    ],
    ids=["500", "html", "truncated", "cut", "429"],
)
async def test_failing_single_node_raises_rail_unavailable(fault):
    async with nodes(1) as result:
        (only,) = result.proxies
        only.fail(fault)
        with pytest.raises(RailUnavailable) as exception_info:
            await result.rail.observer.get_head()
        assert "secret" not in str(exception_info.value)
        assert "secret" not in str(result.rail.nodes.list_states())


async def test_a_node_that_says_when_to_come_again_is_left_alone_until_then():
    async with nodes(1) as result:
        (only,) = result.proxies
        only.fail(faults.make_status_fault(429, headers={"Retry-After": "7"}), times=1)
        with pytest.raises(RailUnavailable, match="429"):
            await result.rail.observer.get_head()
        before = only.requests
        await result.later(6)
        with pytest.raises(RailUnavailable, match="429"):
            await result.rail.observer.get_head()
        assert only.requests == before
        await result.later(1)
        assert (await result.rail.observer.get_head()).number >= 0


@pytest.mark.parametrize("wrong", [None, [], {"number": "0x1"}, "0x1"])
async def test_healthy_node_answers_when_the_first_returns_unusable_responses(wrong):
    async with nodes() as result:
        item, signed = await result.settled()
        follower = await result.followed()
        await result.lab.mine()
        for method in ("eth_getBlockReceipts", "eth_getLogs", "eth_getTransactionReceipt"):
            result.proxies[0].fail(
                faults.make_change_fault(faults.make_result_change(wrong), method), method=method
            )
        head = await result.rail.observer.get_head()
        assert await follower.poll()
        assert follower.head == head.number
        number = head.number - CONFIRMATIONS
        view = await result.rail.blocks.find_block(number)
        reference = result.rail.terms.get_reference(item.option)
        assert [event.ref for event in view.events] == [reference]
        assert [
            event.ref for event in await result.rail.observer.find_settlement_events([item])
        ] == [reference]
        # the other node is now called first
        before = result.proxies[0].requests
        assert await result.rail.observer.find_settlement_events([item])
        assert result.proxies[0].requests == before
        assert signed.hash in {each_item.tx_hash for each_item in view.transactions}


async def test_batch_size_adapts_to_the_limit_of_a_node():
    async with nodes(1) as result:
        (only,) = result.proxies
        only.fail(faults.make_batch_limit_fault(4))
        assert await result.rail.list_problems() == ()
        only.methods.clear()
        before = only.requests
        assert await result.rail.list_problems() == ()
        assert only.requests - before <= -(-len(only.methods) // 2)  # no second refusal


async def test_a_node_that_serves_another_chain_after_a_restart_is_not_used():
    async with nodes() as result:
        first, _ = result.proxies
        other = await EvmDevChain.open(None, EvmDevSettings(clock=result.lab.clock, chain_id=5))
        first.down()
        await result.rail.observer.get_head()
        first.up()
        first.upstream = other.handle
        await result.later(BACKOFF_MAX_S)
        assert result.problems() == ["serves chain 5, not 31337", ""]
        first.methods.clear()
        assert (await result.rail.observer.get_head()).hash == (
            await result.lab.rail.observer.get_head()
        ).hash
        assert first.methods == []
        first.upstream = result.lab.chain.handle
        await result.later(BACKOFF_MAX_S)
        assert result.problems() == ["", ""]
        await other.close()


async def test_a_node_whose_head_jumps_back_is_answered_for_by_the_other():
    async with nodes() as result:
        first, _ = result.proxies
        await result.lab.mine(10)
        head = await result.rail.observer.get_head()
        first.fail(faults.make_lag_fault(head.number - 8))
        assert await result.rail.observer.get_head() == head
        await result.later(PROBE_S)
        assert result.problems() == ["is 8 blocks behind", ""]
        first.heal()
        await result.later(BACKOFF_MAX_S)
        assert result.problems() == ["", ""]


async def test_all_nodes_down_and_back():
    async with nodes() as result:
        for proxy in result.proxies:
            proxy.down()
        with pytest.raises(RailUnavailable):
            await result.rail.observer.get_head()
        assert all(result.problems())
        for proxy in result.proxies:
            proxy.up()
        assert (await result.rail.observer.get_head()).number >= 0


async def test_nodes_are_shown_by_their_hosts_alone():
    async with nodes() as result:
        assert [node.name for node in result.rail.nodes.list_states()] == ["127.0.0.1", "localhost"]
        assert all(
            node.head > 0 and node.latency_ms >= 0 for node in result.rail.nodes.list_states()
        )


async def test_chain_without_a_new_block_for_the_configured_time_stalls():
    async with nodes(stalled_after_s=60) as result:
        await result.lab.mine(1)
        await result.later(PROBE_S)
        for _ in range(3):
            await result.later(PROBE_S)
        assert result.rail.nodes.stall_problem == ""
        await result.later(PROBE_S)
        assert result.rail.nodes.stall_problem == "no node has reported a new block for 1 min"
        await result.lab.mine(1)
        await result.later(PROBE_S)
        assert result.rail.nodes.stall_problem == ""


async def test_a_chain_of_which_nothing_was_set_never_stalls():
    async with nodes() as result:
        for _ in range(10):
            await result.later(3600)
        assert result.rail.nodes.stall_problem == ""


# proof that ends a payment


async def test_quorum_is_reached_with_a_single_read_of_each_node():
    async with nodes() as result:
        follower = await result.followed()
        items = [await result.lab.create_verified_item(number) for number in (1, 2, 3)]
        signed = await result.lab.settle(*items)
        await result.lab.mine(CONFIRMATIONS - 1)
        await follower.poll()
        mined = follower.evidence.mined_transactions[signed.hash]
        before = [proxy.requests for proxy in result.proxies]
        for _ in items:
            assert await follower.is_settled(mined)
        assert [proxy.requests for proxy in result.proxies] == [item + 1 for item in before]
        assert result.rail.nodes.disagreement == ""


async def test_fabricated_settlement_event_settles_no_payment():
    async with nodes() as result:
        follower = await result.followed()
        item = await result.lab.create_verified_item(1)
        # another buyer's payment, in which the first node shows ours
        other = await result.lab.create_verified_item(2)
        real = await result.lab.settle(other)
        await result.lab.mine(CONFIRMATIONS - 1)
        mine = result.rail.terms.get_reference(item.option)[2:]
        theirs = result.rail.terms.get_reference(other.option)[2:]

        def swapped(_, answer):
            return json.loads(json.dumps(answer).replace(theirs, mine))

        result.proxies[0].fail(faults.make_change_fault(swapped))
        await follower.poll()
        (event,) = follower.evidence.new_events
        follower.evidence.add_event(event)
        assert event.ref == "0x" + mine
        assert event.tx_hash == real.hash
        assert not await follower.is_settled(event)
        assert "differ" in result.rail.nodes.disagreement
        assert "0x" + mine not in follower.evidence.settlement_events


async def test_fabricated_receipt_of_a_single_node_ends_no_transaction():
    async with nodes() as result:
        follower = await result.followed()
        _, signed = await result.settled()

        def failed(_, answer):
            return json.loads(json.dumps(answer).replace('"status": "0x1"', '"status": "0x0"'))

        result.proxies[0].fail(faults.make_change_fault(failed))
        await follower.poll()
        mined = follower.evidence.mined_transactions[signed.hash]
        assert not mined.success
        assert not await follower.is_settled(mined)
        assert signed.hash not in follower.evidence.mined_transactions
        # a fact that a node denies is read again
        result.proxies[0].heal()
        follower.evidence.mined_transactions.update(
            await result.rail.observer.find_mined([signed.hash])
        )
        mined = follower.evidence.mined_transactions[signed.hash]
        assert mined.success
        assert await follower.is_settled(mined)


async def test_a_node_that_is_behind_ends_nothing_and_is_no_liar():
    async with nodes() as result:
        follower = await result.followed()
        _, signed = await result.settled()
        await follower.poll()
        mined = follower.evidence.mined_transactions[signed.hash]
        result.proxies[1].fail(faults.make_lag_fault(mined.block_number))
        assert not await follower.is_settled(mined)
        assert result.rail.nodes.disagreement == ""
        result.proxies[1].heal()
        await follower.poll()
        assert await follower.is_settled(mined)


async def test_missing_quorum_settles_nothing_and_is_reported():
    async with nodes() as result:
        follower = await result.followed()
        _, signed = await result.settled()
        result.proxies[1].down()
        await follower.poll()
        mined = follower.evidence.mined_transactions[signed.hash]
        assert not await follower.is_settled(mined)
        text, advice = result.rail.nodes.disagreement.split("; ")
        assert text == "1 endpoints answer, but 2 must agree"
        # it says why payments stand
        assert advice == (
            "all 2 nodes must agree, so a node that is wrong or down stops settlement: add a node"
        )
        result.proxies[1].up()
        await result.later(BACKOFF_MAX_S)
        await follower.poll()
        assert await follower.is_settled(mined)
        assert result.rail.nodes.disagreement == ""


async def test_agreement_of_a_single_node_may_be_configured():
    async with nodes(agreement=1) as result:
        follower = await result.followed()
        _, signed = await result.settled()
        await follower.poll()
        result.proxies[1].down()
        mined = follower.evidence.mined_transactions[signed.hash]
        assert await follower.is_settled(mined)


async def test_hidden_event_of_a_single_node_does_not_fail_a_payment():
    async with nodes() as result:
        item, _ = await result.settled()
        result.proxies[0].fail(
            faults.make_change_fault(faults.make_result_change([]), method="eth_getLogs"),
            method="eth_getLogs",
        )
        # its authorization is used, as after a success
        assert await result.rail.observer.evidence.find_unpayable_reason(item.option) is not None
        assert await result.rail.observer.find_unpayable_reason(item, ()) is None


async def test_false_state_from_a_single_node_does_not_fail_a_payment():
    async with nodes() as result:
        item = await result.lab.create_verified_item(1)
        used = "0x" + "1".rjust(64, "0")
        result.proxies[0].fail(
            faults.make_change_fault(faults.make_result_change(used), method="eth_call")
        )
        await result.lab.mine(CONFIRMATIONS)
        assert await result.rail.observer.evidence.find_unpayable_reason(item.option) is not None
        assert await result.rail.observer.find_unpayable_reason(item, ()) is None


async def test_a_payment_that_both_nodes_call_dead_is():
    async with nodes() as result:
        item = await result.lab.create_verified_item(1)
        result.lab.clock.advance(3600)
        await result.lab.mine(CONFIRMATIONS)
        assert "lapsed" in (await result.rail.observer.find_unpayable_reason(item, ()) or "")


async def test_false_nonce_from_a_single_node_does_not_drop_a_transaction():
    async with nodes() as result:
        item = await result.lab.create_verified_item(1)
        nonce = await result.lab.rail.account_nonces.get_next_nonce(RELAYER.address)
        created = await result.lab.rail.relay.sign(RELAYER.address, nonce, [item])
        tx = journaled(created, nonce=nonce, sender=RELAYER.address)
        await result.lab.mine(CONFIRMATIONS)
        counts = faults.make_change_fault(
            faults.make_result_change(hex(99)), method="eth_getTransactionCount"
        )
        for proxy in result.proxies:
            proxy.fail(counts)
            assert not await result.rail.observer.cannot_be_mined(tx, ())


async def test_a_transaction_is_not_gone_while_nodes_do_not_have_its_receipt():
    """Nodes index receipts after blocks; the nonce is used, by the transaction itself."""
    async with nodes() as result:
        item = await result.lab.create_verified_item(1)
        nonce = await result.lab.rail.account_nonces.get_next_nonce(RELAYER.address)
        created = await result.lab.rail.relay.sign(RELAYER.address, nonce, [item])
        tx = replace(journaled(created, nonce=nonce, sender=RELAYER.address), sent_block=0)
        await result.lab.rail.relay.broadcast(created.raw)
        await result.lab.mine(CONFIRMATIONS)
        for proxy in result.proxies:
            proxy.fail(
                faults.make_change_fault(
                    faults.make_result_change(None), method="eth_getTransactionReceipt"
                )
            )
        assert not await result.rail.observer.cannot_be_mined(tx, ())


async def test_a_transaction_is_not_gone_if_a_variant_of_it_is_mined():
    """Both nodes are right: the nonce is used, and the first variant is in no block."""
    async with nodes() as result:
        item = await result.lab.create_verified_item(1)
        nonce = await result.lab.rail.account_nonces.get_next_nonce(RELAYER.address)
        first = await result.lab.rail.relay.sign(RELAYER.address, nonce, [item])
        tx = journaled(first, nonce=nonce, sender=RELAYER.address)
        raised = await result.lab.rail.account_nonces.bump_fee(tx)
        assert raised is not None
        await result.lab.rail.relay.broadcast(raised.raw)
        await result.lab.mine(CONFIRMATIONS)
        assert await result.rail.observer.cannot_be_mined(tx, ())
        raised_too = replace(tx, bumps=(TransactionVariant(raised.raw, raised.hash),))
        assert not await result.rail.observer.cannot_be_mined(raised_too, ())


async def test_a_block_was_replaced_only_if_both_nodes_say_so():
    async with nodes() as result:
        await result.lab.mine(3)
        head = await result.rail.observer.get_head()
        other = "0x" + "00" * 32

        def lie(_, answer):
            return {**answer, "result": {**answer["result"], "hash": other}}

        assert not await result.rail.blocks.is_replaced(head.number, head.hash)
        result.proxies[0].fail(faults.make_change_fault(lie, method="eth_getBlockByNumber"))
        assert not await result.rail.blocks.is_replaced(head.number, head.hash)
        result.proxies[0].heal()
        await result.lab.reorg(2)
        assert await result.rail.blocks.is_replaced(head.number, head.hash)


async def test_impossible_agreement_is_refused_without_showing_addresses():
    with pytest.raises(ValueError, match="agreement") as exception_info:
        make_chain_settings(rpc_url="http://node.example/secret-access-key", agreement=2)
    assert "secret" not in str(exception_info.value)
    with pytest.raises(ValueError, match="twice"):
        make_chain_settings(rpc_url=["http://node.example/a", "http://node.example/a"])


async def test_single_node_needs_no_agreement():
    async with nodes(1) as result:
        assert result.rail.observer.agreement == 1
        follower = await result.followed()
        _, signed = await result.settled()
        await follower.poll()
        mined = follower.evidence.mined_transactions[signed.hash]
        before = result.proxies[0].requests
        assert await follower.is_settled(mined)
        assert result.proxies[0].requests == before


async def test_a_payout_is_over_only_if_both_nodes_say_so():
    async with nodes() as result:
        first, second = result.proxies
        treasury = EvmSigner(b"\x77" * 32)
        urls = result.rail.chain.rpc_url
        rail = EvmRail(
            make_chain_settings(rpc_url=urls), RELAYER, treasury=treasury, now=lambda: 0.0
        )
        _, signed = await result.settled()
        (tx_hash, tx) = (signed.hash, journaled(signed, nonce=0, sender=treasury.address))
        coin = TreasuryTransfer("ref", rail.native_asset, f"{CHAIN}:{FEES}", 1)
        # both nodes report that a settlement is no transfer of coin
        assert await rail.payouts.read_effect(tx, tx_hash, coin) == TransferEffect.OTHER
        failed = {"status": "0x0"}

        def lie(_, answer):
            return {**answer, "result": {**answer["result"], **failed}}

        second.fail(faults.make_change_fault(lie, method="eth_getTransactionReceipt"))
        with pytest.raises(RailUnavailable, match="differ about what"):
            await rail.payouts.read_effect(tx, tx_hash, coin)
        assert "differ" in rail.nodes.disagreement
        # a nonce that only one node reports as used causes no second transfer
        first.fail(
            faults.make_change_fault(
                faults.make_result_change("0x9"), method="eth_getTransactionCount"
            )
        )
        assert not await rail.payouts.cannot_be_mined(tx, None)
        await rail.close()


def journaled(signed, *, nonce, sender):
    return ChainTx(
        id="tx_1",
        chain_id=CHAIN,
        sender=sender,
        nonce=nonce,
        raw=signed.raw,
        hash=signed.hash,
        payment_ids=("pay_1",),
        state=TxState.SIGNED,
        created_at_us=START_S * 1_000_000,
    )
