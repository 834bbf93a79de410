"""Test a Solana rail on several nodes: failing, lagging and lying ones."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import Confirmation
from florin_server.domain.settlement.chain_txs import SettlementItem
from florin_server.money.settlement.worker.blocks import create_follower
from florin_server.rails.connection.health import BACKOFF_MAX_S
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.types import RailUnavailable

from tests.support import proxy as faults
from tests.support.proxy import FaultyNodeProxy
from tests.support.solana import SolanaTestWallet
from tests.support.solana_devnet import START_S
from tests.support.solana_rail_harness import (
    FINAL,
    RELAYER,
    SolanaRailHarness,
    make_chain_settings,
    make_outputs,
    open_lab,
    sign_build,
)
from tests.support.solana_requests import open_receivers, pay_request


@dataclass
class Nodes:
    lab: SolanaRailHarness
    proxies: tuple[FaultyNodeProxy, FaultyNodeProxy]
    rail: SolanaRail
    now: list[float]

    async def later(self, seconds):
        """Advance the time and check every node that is due."""
        self.now[0] += seconds
        await self.rail.rpc.probe_due()

    async def landed(self):
        """Settle a payment to finality, as the first node reports it."""
        buyer = SolanaTestWallet()
        item, issued = await self.lab.create_item(buyer)
        tx = await self.lab.submit_item(item)
        await self.lab.slots(FINAL + 1)
        return item, issued, tx


@asynccontextmanager
async def nodes():
    async with (
        open_lab() as lab,
        FaultyNodeProxy(lab.node.chain.handle) as first,
        FaultyNodeProxy(lab.node.chain.handle) as second,
    ):
        now = [1000.0]
        urls = (first.url, second.url.replace("127.0.0.1", "localhost"))
        rail = SolanaRail(make_chain_settings(rpc_url=urls), RELAYER, now=lambda: now[0])
        found_nodes = Nodes(lab, (first, second), rail, now)
        await rail.start()
        await found_nodes.later(0)
        yield found_nodes
        await rail.close()


@pytest.mark.parametrize(
    "fault",
    [
        faults.make_status_fault(429),
        faults.answer_html,
        faults.truncate_response,
        faults.make_error_fault(-32005, "Node is behind"),
    ],
    ids=["429", "html", "truncated", "behind"],
)
async def test_a_node_that_fails_is_answered_for_by_the_other(fault):
    async with nodes() as result:
        head = await result.rail.observer.get_head()
        result.proxies[0].fail(fault)
        assert await result.rail.observer.get_head() == head
        assert await result.rail.list_problems() == ()


async def confirmed(result, slots=0):
    """Return a payment whose transaction was issued and signed `slots` slots ago."""
    buyer = SolanaTestWallet()
    _, option = await result.lab.offer(buyer)
    issued = await result.lab.build_option(option)
    await result.lab.slots(slots)
    await result.rail.verifier.verify(option, [issued], make_outputs(sign_build(buyer, issued)))


def _unknown(_params, result):
    result["result"]["value"] |= {"err": "BlockhashNotFound", "accounts": None}
    return result


UNKNOWN = faults.make_change_fault(_unknown, method="simulateTransaction")


async def test_blockhash_missing_on_a_node_is_tried_on_the_next_node():
    async with nodes() as result:
        result.proxies[0].fail(UNKNOWN)
        await confirmed(result)
        assert [item.problem for item in result.rail.nodes.list_states()] == ["", ""]


async def test_blockhash_that_no_node_knows_yet_is_no_refusal():
    async with nodes() as result:
        for proxy in result.proxies:
            proxy.fail(UNKNOWN)
        with pytest.raises(RailUnavailable, match="no node knows the blockhash now"):
            await confirmed(result)


async def test_blockhash_has_lapsed_only_if_no_node_is_behind_its_end():
    async with nodes() as result:
        with pytest.raises(ApiError) as caught:
            await confirmed(result, slots=160)
        assert caught.value.code is ErrorCode.QUOTE_EXPIRED


async def test_node_that_claims_to_be_far_ahead_ends_no_blockhash_alone():
    def ahead(params, result):
        # only heights are numbers; in its simulations this node knows no blockhash
        if isinstance(result["result"], int) and params:
            return {**result, "result": 10**9}
        is_trial = isinstance(result["result"], dict) and "unitsConsumed" in str(result)
        return _unknown(params, result) if is_trial else result

    async with nodes() as found_result:
        buyer = SolanaTestWallet()
        _, option = await found_result.lab.offer(buyer)
        issued = await found_result.lab.build_option(option)
        first, second = found_result.proxies
        first.fail(faults.make_change_fault(ahead))
        second.fail(UNKNOWN)
        with pytest.raises(RailUnavailable, match="no node knows"):
            await found_result.rail.verifier.verify(
                option, [issued], make_outputs(sign_build(buyer, issued))
            )


async def test_node_without_the_fee_agrees_and_node_without_balances_does_not_count():
    async with nodes() as result:
        item, _, tx = await result.landed()
        facts = await result.rail.observer.find_settlement_events([item])

        def without(*names):
            def spoil(_params, reported_result):
                for name in names:
                    del reported_result["result"]["meta"][name]
                return reported_result

            return faults.make_change_fault(spoil, method="getTransaction")

        result.proxies[1].fail(without("fee"))
        assert await result.rail.observer.confirm_facts(facts) == dict.fromkeys(facts, True)
        result.proxies[1].heal()
        result.proxies[1].fail(without("preTokenBalances"))
        assert await result.rail.observer.confirm_facts(facts) == {}
        assert tx.hash not in result.rail.nodes.disagreement


async def test_node_of_another_cluster_is_never_called():
    async with nodes() as result:
        first, second = result.proxies
        genesis = "5" * 43
        first.fail(
            faults.make_change_fault(faults.make_result_change(genesis), method="getGenesisHash")
        )
        await result.later(BACKOFF_MAX_S)
        (reported_result, _) = result.rail.nodes.list_states()
        assert reported_result.problem.startswith(f"serves solana:{genesis[:32]}, not solana:")
        first.methods.clear()
        await result.rail.observer.get_head()
        assert first.methods == []
        assert "getSlot" in second.methods


async def test_slot_older_than_the_last_seen_slot_is_ignored():
    async with nodes() as result:
        await result.lab.slots(20)
        head = await result.rail.observer.get_head()
        result.proxies[0].fail(
            faults.make_change_fault(faults.make_result_change(head.number - 5), method="getSlot")
        )
        assert await result.rail.observer.get_head() == head
        result.proxies[1].down()
        with pytest.raises(RailUnavailable):
            await result.rail.observer.get_head()


async def test_payment_that_both_nodes_attest_is_settled():
    async with nodes() as result:
        follower = create_follower(result.rail)
        await follower.start()
        item, _, tx = await result.landed()
        await follower.poll()
        follower.evidence.mined_transactions.update(
            await result.rail.observer.find_mined([tx.hash])
        )
        (paid,) = await result.rail.observer.find_settlement_events([item])
        follower.evidence.add_event(paid)
        assert await follower.is_settled(paid)


async def test_fabricated_payment_of_a_single_node_is_not_settled():
    async with nodes() as result:
        follower = create_follower(result.rail)
        await follower.start()
        item, _, _ = await result.landed()
        await follower.poll()

        def poorer(_, answer):
            meta = answer["result"]["meta"]
            meta["fee"] += 1
            meta["preBalances"][0] += 1
            return json.loads(json.dumps(answer))

        result.proxies[1].fail(faults.make_change_fault(poorer, method="getTransaction"))
        (paid,) = await result.rail.observer.find_settlement_events([item])
        follower.evidence.add_event(paid)
        assert not await follower.is_settled(paid)
        assert "differ" in result.rail.nodes.disagreement
        # a fact on which nodes disagree is dropped, and read again
        assert follower.evidence.settlement_events == {}
        result.proxies[1].heal()
        await follower.poll()
        (paid,) = await result.rail.observer.find_settlement_events([item])
        follower.evidence.add_event(paid)
        assert await follower.is_settled(paid)
        # nodes agree on it again
        assert result.rail.nodes.disagreement == ""


async def test_wallets_own_transaction_needs_both_nodes():
    async with nodes() as result:
        await open_receivers(result.lab)
        follower = create_follower(result.rail)
        await follower.start()
        payment, option, signature = await pay_request(result.lab, SolanaTestWallet())
        outputs = (json.dumps(signature),)
        confirmation = Confirmation(payment.id, option.id, outputs, b"", START_S * 1_000_000)
        item = SettlementItem(payment, option, confirmation, 0)
        await follower.poll()

        def empty(_, answer):
            answer["result"]["meta"]["postTokenBalances"] = []
            return answer

        result.proxies[1].fail(faults.make_change_fault(empty, method="getTransaction"))
        (paid,) = await result.rail.observer.find_settlement_events([item])
        follower.evidence.add_event(paid)
        assert not await follower.is_settled(paid)
        result.proxies[1].heal()
        await follower.poll()
        (paid,) = await result.rail.observer.find_settlement_events([item])
        follower.evidence.add_event(paid)
        assert await follower.is_settled(paid)
        # its wallet can sign the same transfer again, so nothing proves that it never pays
        assert await result.rail.observer.find_unpayable_reason(item, ()) is None


async def test_false_height_from_a_single_node_does_not_fail_a_payment():
    async with nodes() as result:
        item, issued = await result.lab.create_item(SolanaTestWallet())
        lapsed = issued.terms["last_valid"] + 1
        height = faults.make_change_fault(
            faults.make_result_change(lapsed), method="getBlockHeight"
        )
        result.proxies[0].fail(height)
        assert await result.rail.observer.find_unpayable_reason(item, [issued]) is None
        result.proxies[1].fail(height)
        assert (
            await result.rail.observer.find_unpayable_reason(item, [issued])
            == "The transaction lapsed before it landed"
        )


async def test_pace_of_slots_is_measured_by_our_clock():
    async with nodes() as result:
        assert result.rail.pace.block_s is None
        for _ in range(6):
            result.now[0] += 3.0
            await result.lab.slots(14)
            await result.rail.observer.get_head()
        assert result.rail.pace.block_s == pytest.approx(3 / 14)
