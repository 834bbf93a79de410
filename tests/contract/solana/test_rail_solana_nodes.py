"""A Solana rail on several nodes: failing ones, ones that lag, and ones that lie."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from florin_server.rails.connection.health import BACKOFF_MAX_S
from florin_server.rails.connection.witness import DISAGREEMENT_S
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.types import RailUnavailable
from florin_server.workers.settlement.blocks import follow

from tests.support import proxy as faults
from tests.support.proxy import FaultyProxy
from tests.support.solana import SolanaWallet
from tests.support.solana_lab import FINAL, RELAYER, Lab, open_lab, settings


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
        assert found.rail.nodes.disagreement
        found.now[0] += DISAGREEMENT_S
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
