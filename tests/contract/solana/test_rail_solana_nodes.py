"""A Solana rail on several nodes: failing ones, ones that lag, and ones that lie."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from florin_server.domain.errors import Code, FlorinError
from florin_server.rails.connection.health import BACKOFF_MAX_S
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.types import RailUnavailable
from florin_server.workers.settlement.blocks import follow

from tests.support import proxy as faults
from tests.support.proxy import FaultyProxy
from tests.support.solana import SolanaWallet
from tests.support.solana_lab import (
    FINAL,
    RELAYER,
    Lab,
    open_lab,
    outputs,
    settings,
    signed,
)


@dataclass
class Nodes:
    lab: Lab
    proxies: tuple[FaultyProxy, FaultyProxy]
    rail: SolanaRail
    now: list[float]

    async def later(self, seconds):
        """Time passes, and every node is looked at whose time has come."""
        self.now[0] += seconds
        await self.rail.rpc.look()

    async def landed(self):
        """A payment that is final, as the first node tells it."""
        buyer = SolanaWallet()
        item, issued = await self.lab.accepted(buyer)
        tx = await self.lab.sent(item)
        await self.lab.slots(FINAL + 1)
        return item, issued, tx


@asynccontextmanager
async def nodes():
    async with (
        open_lab() as lab,
        FaultyProxy(lab.node.chain.handle) as first,
        FaultyProxy(lab.node.chain.handle) as second,
    ):
        now = [1000.0]
        urls = (first.url, second.url.replace("127.0.0.1", "localhost"))
        rail = SolanaRail(settings(rpc_url=urls), RELAYER, now=lambda: now[0])
        found = Nodes(lab, (first, second), rail, now)
        await rail.start()
        await found.later(0)
        yield found
        await rail.close()


@pytest.mark.parametrize(
    "fault",
    [faults.status(429), faults.html, faults.truncated, faults.error(-32005, "Node is behind")],
    ids=["429", "html", "truncated", "behind"],
)
async def test_a_node_that_fails_is_answered_for_by_the_other(fault):
    async with nodes() as found:
        head = await found.rail.observer.head()
        found.proxies[0].fail(fault)
        assert await found.rail.observer.head() == head
        assert await found.rail.problems() == ()


async def confirmed(found, slots=0):
    """A payment whose transaction was issued and signed before so many slots passed."""
    buyer = SolanaWallet()
    _, option = await found.lab.offer(buyer)
    issued = await found.lab.issued(option)
    await found.lab.slots(slots)
    await found.rail.verifier.verify(option, [issued], outputs(signed(buyer, issued)))


def _unknown(_params, told):
    told["result"]["value"] |= {"err": "BlockhashNotFound", "accounts": None}
    return told


UNKNOWN = faults.change(_unknown, method="simulateTransaction")


async def test_blockhash_that_one_node_does_not_know_yet_is_tried_on_the_other():
    async with nodes() as found:
        found.proxies[0].fail(UNKNOWN)
        await confirmed(found)
        assert [one.problem for one in found.rail.nodes.states()] == ["", ""]


async def test_blockhash_that_no_node_knows_yet_is_no_refusal():
    async with nodes() as found:
        for proxy in found.proxies:
            proxy.fail(UNKNOWN)
        with pytest.raises(RailUnavailable, match="no node knows the blockhash now"):
            await confirmed(found)


async def test_blockhash_has_lapsed_only_if_no_node_is_behind_its_end():
    async with nodes() as found:
        with pytest.raises(FlorinError) as caught:
            await confirmed(found, slots=160)
        assert caught.value.code is Code.QUOTE_EXPIRED


async def test_node_that_claims_to_be_far_ahead_ends_no_blockhash_alone():
    def ahead(params, told):
        # a height is a number; all else that this node tells of transactions is unknown
        if isinstance(told["result"], int) and params:
            return {**told, "result": 10**9}
        is_trial = isinstance(told["result"], dict) and "unitsConsumed" in str(told)
        return _unknown(params, told) if is_trial else told

    async with nodes() as found:
        buyer = SolanaWallet()
        _, option = await found.lab.offer(buyer)
        issued = await found.lab.issued(option)
        first, second = found.proxies
        first.fail(faults.change(ahead))
        second.fail(UNKNOWN)
        with pytest.raises(RailUnavailable, match="no node knows"):
            await found.rail.verifier.verify(option, [issued], outputs(signed(buyer, issued)))


async def test_witness_without_a_fee_agrees_and_one_without_token_balances_does_not_count():
    async with nodes() as found:
        item, _, tx = await found.landed()
        facts = await found.rail.observer.find([item])

        def without(*names):
            def spoil(_params, told):
                for name in names:
                    del told["result"]["meta"][name]
                return told

            return faults.change(spoil, method="getTransaction")

        found.proxies[1].fail(without("fee"))
        assert await found.rail.observer.agreed(facts) == dict.fromkeys(facts, True)
        found.proxies[1].heal()
        found.proxies[1].fail(without("preTokenBalances"))
        assert await found.rail.observer.agreed(facts) == {}
        assert tx.hash not in found.rail.nodes.disagreement


async def test_a_node_of_another_cluster_is_never_asked():
    async with nodes() as found:
        first, second = found.proxies
        genesis = "5" * 43
        first.fail(faults.change(faults.replied(genesis), method="getGenesisHash"))
        await found.later(BACKOFF_MAX_S)
        (told, _) = found.rail.nodes.states()
        assert told.problem.startswith(f"serves solana:{genesis[:32]}, not solana:")
        first.asked.clear()
        await found.rail.observer.head()
        assert first.asked == []
        assert "getSlot" in second.asked


async def test_a_slot_older_than_what_was_seen_is_not_believed():
    async with nodes() as found:
        await found.lab.slots(20)
        head = await found.rail.observer.head()
        found.proxies[0].fail(faults.change(faults.replied(head.number - 5), method="getSlot"))
        assert await found.rail.observer.head() == head
        found.proxies[1].down()
        with pytest.raises(RailUnavailable):
            await found.rail.observer.head()


async def test_what_both_nodes_tell_of_a_transaction_ends_it():
    async with nodes() as found:
        follower = follow(found.rail)
        await follower.start()
        item, _, tx = await found.landed()
        await follower.look()
        follower.evidence.mined.update(await found.rail.observer.mined([tx.hash]))
        (paid,) = await found.rail.observer.find([item])
        follower.evidence.add_paid(paid)
        assert await follower.is_settled(paid)


async def test_a_payment_that_one_node_made_up_ends_nothing():
    async with nodes() as found:
        follower = follow(found.rail)
        await follower.start()
        item, _, _ = await found.landed()
        await follower.look()

        def poorer(_, answer):
            meta = answer["result"]["meta"]
            meta["fee"] += 1
            meta["preBalances"][0] += 1
            return json.loads(json.dumps(answer))

        found.proxies[1].fail(faults.change(poorer, method="getTransaction"))
        (paid,) = await found.rail.observer.find([item])
        follower.evidence.add_paid(paid)
        assert not await follower.is_settled(paid)
        assert "differ" in found.rail.nodes.disagreement
        # what is so is asked for again
        assert follower.evidence.paid == {}
        found.proxies[1].heal()
        await follower.look()
        (paid,) = await found.rail.observer.find([item])
        follower.evidence.add_paid(paid)
        assert await follower.is_settled(paid)
        # nodes agree again about it
        assert found.rail.nodes.disagreement == ""


async def test_a_payment_is_not_dead_because_one_node_says_so():
    async with nodes() as found:
        item, issued = await found.lab.accepted(SolanaWallet())
        lapsed = issued.terms["last_valid"] + 1
        height = faults.change(faults.replied(lapsed), method="getBlockHeight")
        found.proxies[0].fail(height)
        assert await found.rail.observer.unpayable_reason(item, [issued]) is None
        found.proxies[1].fail(height)
        assert (
            await found.rail.observer.unpayable_reason(item, [issued])
            == "The transaction lapsed before it landed"
        )


async def test_pace_of_slots_is_measured_by_our_clock():
    async with nodes() as found:
        assert found.rail.pace.block_s is None
        for _ in range(6):
            found.now[0] += 3.0
            await found.lab.slots(14)
            await found.rail.observer.head()
        assert found.rail.pace.block_s == pytest.approx(3 / 14)
