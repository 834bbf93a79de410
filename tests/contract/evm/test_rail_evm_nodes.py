"""An EVM rail on several nodes of the kind that providers really have, and on nodes that lie."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

import pytest
from florin_server.devnet.evm import EvmDevChain, EvmDevSettings
from florin_server.domain.settlement.chain_txs import ChainTx, TxState, Variant
from florin_server.rails.connection.health import BACKOFF_MAX_S, PROBE_S
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.sending.transactions import Signer
from florin_server.rails.types import Effect, RailUnavailable, Transfer
from florin_server.workers.settlement.blocks import follow

from tests.support import proxy as faults
from tests.support.evm_lab import CHAIN, FEES, RELAYER, START_S, Lab, open_lab, settings
from tests.support.proxy import FaultyProxy

CONFIRMATIONS = 3


@dataclass
class Nodes:
    """A chain behind as many proxies as the rail has nodes."""

    lab: Lab
    proxies: list[FaultyProxy]
    rail: EvmRail
    now: list[float]

    async def later(self, seconds):
        """Time passes, and every node is looked at whose time has come."""
        self.now[0] += seconds
        await self.rail.rpc.look()

    def problems(self):
        return [node.problem for node in self.rail.nodes.states()]

    async def settled(self, number=1):
        """A payment in a block at final depth: the item, and the transaction."""
        item = await self.lab.sold(number)
        signed = await self.lab.settle(item)
        await self.lab.mine(CONFIRMATIONS - 1)
        return item, signed

    async def followed(self):
        follower = follow(self.rail)
        await follower.start()
        return follower


@asynccontextmanager
async def nodes(count=2, **changes):
    lab = await open_lab()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(lab.chain.close)
        stack.push_async_callback(lab.rail.close)
        proxies = [
            await stack.enter_async_context(FaultyProxy(lab.chain.handle)) for _ in range(count)
        ]
        # hosts tell nodes apart; both names lead to this machine
        urls = [
            proxy.url.replace("127.0.0.1", ("127.0.0.1", "localhost")[index])
            for index, proxy in enumerate(proxies)
        ]
        now = [1000.0]
        rail = EvmRail(settings(rpc_url=urls, **changes), RELAYER, now=lambda: now[0])
        stack.push_async_callback(rail.close)
        found = Nodes(lab, proxies, rail, now)
        await rail.start()
        await found.later(0)
        yield found


# what providers do


@pytest.mark.parametrize(
    "fault",
    [
        faults.status(429),
        faults.status(502, body="<html>bad gateway</html>"),
        faults.status(503),
        faults.html,
        faults.truncated,
        faults.cut,
        faults.error(-32005, "daily request count exceeded, request rate limited"),
        faults.error(-32603, "internal error"),
    ],
    ids=["429", "502", "503", "html", "truncated", "cut", "limit", "internal"],
)
async def test_a_node_that_fails_in_any_way_is_answered_for_by_the_other(fault):
    async with nodes() as found:
        first, second = found.proxies
        head = await found.rail.observer.head()
        first.fail(fault)
        before = second.requests
        assert await found.rail.observer.head() == head
        assert await found.rail.blocks.block(head.number) is not None
        assert second.requests > before


@pytest.mark.parametrize(
    "fault",
    [faults.status(500), faults.html, faults.truncated, faults.cut, faults.status(429)],
    ids=["500", "html", "truncated", "cut", "429"],
)
async def test_a_single_node_that_fails_tells_nothing(fault):
    async with nodes(1) as found:
        (only,) = found.proxies
        only.fail(fault)
        with pytest.raises(RailUnavailable) as told:
            await found.rail.observer.head()
        assert "secret" not in str(told.value)
        assert "secret" not in str(found.rail.nodes.states())


async def test_a_node_that_says_when_to_come_again_is_left_alone_until_then():
    async with nodes(1) as found:
        (only,) = found.proxies
        only.fail(faults.status(429, headers={"Retry-After": "7"}), times=1)
        with pytest.raises(RailUnavailable, match="429"):
            await found.rail.observer.head()
        before = only.requests
        await found.later(6)
        with pytest.raises(RailUnavailable, match="429"):
            await found.rail.observer.head()
        assert only.requests == before
        await found.later(1)
        assert (await found.rail.observer.head()).number >= 0


@pytest.mark.parametrize("wrong", [None, [], {"number": "0x1"}, "0x1"])
async def test_healthy_node_is_asked_where_the_first_gives_unusable_answers(wrong):
    async with nodes() as found:
        item, signed = await found.settled()
        follower = await found.followed()
        await found.lab.mine()
        for method in ("eth_getBlockReceipts", "eth_getLogs", "eth_getTransactionReceipt"):
            found.proxies[0].fail(faults.change(faults.replied(wrong), method), method=method)
        head = await found.rail.observer.head()
        assert await follower.look()
        assert follower.head == head.number
        number = head.number - CONFIRMATIONS
        view = await found.rail.blocks.block(number)
        reference = found.rail.terms.reference(item.option)
        assert [event.ref for event in view.paid] == [reference]
        assert [event.ref for event in await found.rail.observer.find([item])] == [reference]
        # it is asked first from now on
        before = found.proxies[0].requests
        assert await found.rail.observer.find([item])
        assert found.proxies[0].requests == before
        assert signed.hash in {one.tx_hash for one in view.mined}


async def test_batches_are_made_as_small_as_a_node_takes_them():
    async with nodes(1) as found:
        (only,) = found.proxies
        only.fail(faults.batches_up_to(4))
        assert await found.rail.problems() == ()
        only.asked.clear()
        before = only.requests
        assert await found.rail.problems() == ()
        assert only.requests - before <= -(-len(only.asked) // 2)  # nothing is refused again


async def test_a_node_that_serves_another_chain_after_a_restart_is_not_used():
    async with nodes() as found:
        first, _ = found.proxies
        other = await EvmDevChain.open(None, EvmDevSettings(clock=found.lab.clock, chain_id=5))
        first.down()
        await found.rail.observer.head()
        first.up()
        first.upstream = other.handle
        await found.later(BACKOFF_MAX_S)
        assert found.problems() == ["serves chain 5, not 31337", ""]
        first.asked.clear()
        assert (await found.rail.observer.head()).hash == (
            await found.lab.rail.observer.head()
        ).hash
        assert first.asked == []
        first.upstream = found.lab.chain.handle
        await found.later(BACKOFF_MAX_S)
        assert found.problems() == ["", ""]
        await other.close()


async def test_a_node_whose_head_jumps_back_is_answered_for_by_the_other():
    async with nodes() as found:
        first, _ = found.proxies
        await found.lab.mine(10)
        head = await found.rail.observer.head()
        first.fail(faults.behind(head.number - 8))
        assert await found.rail.observer.head() == head
        await found.later(PROBE_S)
        assert found.problems() == ["is 8 blocks behind", ""]
        first.heal()
        await found.later(BACKOFF_MAX_S)
        assert found.problems() == ["", ""]


async def test_all_nodes_down_and_back():
    async with nodes() as found:
        for proxy in found.proxies:
            proxy.down()
        with pytest.raises(RailUnavailable):
            await found.rail.observer.head()
        assert all(found.problems())
        for proxy in found.proxies:
            proxy.up()
        assert (await found.rail.observer.head()).number >= 0


async def test_nodes_are_shown_by_their_hosts_alone():
    async with nodes() as found:
        assert [node.name for node in found.rail.nodes.states()] == ["127.0.0.1", "localhost"]
        assert all(node.head > 0 and node.latency_ms >= 0 for node in found.rail.nodes.states())


async def test_a_chain_that_tells_no_block_for_as_long_as_was_set_stalls():
    async with nodes(stalled_after_s=60) as found:
        await found.lab.mine(1)
        await found.later(PROBE_S)
        for _ in range(3):
            await found.later(PROBE_S)
        assert found.rail.nodes.stalled == ""
        await found.later(PROBE_S)
        assert found.rail.nodes.stalled == "no node has told a new block for 1 min"
        await found.lab.mine(1)
        await found.later(PROBE_S)
        assert found.rail.nodes.stalled == ""


async def test_a_chain_of_which_nothing_was_set_never_stalls():
    async with nodes() as found:
        for _ in range(10):
            await found.later(3600)
        assert found.rail.nodes.stalled == ""


# what ends a payment


async def test_what_both_nodes_tell_is_agreed_on_with_one_read_of_each():
    async with nodes() as found:
        follower = await found.followed()
        items = [await found.lab.sold(number) for number in (1, 2, 3)]
        signed = await found.lab.settle(*items)
        await found.lab.mine(CONFIRMATIONS - 1)
        await follower.look()
        mined = follower.evidence.mined[signed.hash]
        before = [proxy.requests for proxy in found.proxies]
        for _ in items:
            assert await follower.is_settled(mined)
        assert [proxy.requests for proxy in found.proxies] == [one + 1 for one in before]
        assert found.rail.nodes.disagreement == ""


async def test_a_made_up_settlement_event_ends_nothing():
    async with nodes() as found:
        follower = await found.followed()
        item = await found.lab.sold(1)
        # somebody else's payment, in which the first node sees ours
        other = await found.lab.sold(2)
        real = await found.lab.settle(other)
        await found.lab.mine(CONFIRMATIONS - 1)
        mine = found.rail.terms.reference(item.option)[2:]
        theirs = found.rail.terms.reference(other.option)[2:]

        def swapped(_, answer):
            return json.loads(json.dumps(answer).replace(theirs, mine))

        found.proxies[0].fail(faults.change(swapped))
        await follower.look()
        (event,) = follower.evidence.fresh
        follower.evidence.add_paid(event)
        assert event.ref == "0x" + mine
        assert event.tx_hash == real.hash
        assert not await follower.is_settled(event)
        assert "differ" in found.rail.nodes.disagreement
        assert "0x" + mine not in follower.evidence.paid


async def test_a_receipt_that_one_node_made_up_ends_no_transaction():
    async with nodes() as found:
        follower = await found.followed()
        _, signed = await found.settled()

        def failed(_, answer):
            return json.loads(json.dumps(answer).replace('"status": "0x1"', '"status": "0x0"'))

        found.proxies[0].fail(faults.change(failed))
        await follower.look()
        mined = follower.evidence.mined[signed.hash]
        assert not mined.success
        assert not await follower.is_settled(mined)
        assert signed.hash not in follower.evidence.mined
        # what is not so is asked for again
        found.proxies[0].heal()
        follower.evidence.mined.update(await found.rail.observer.mined([signed.hash]))
        mined = follower.evidence.mined[signed.hash]
        assert mined.success
        assert await follower.is_settled(mined)


async def test_a_node_that_is_behind_ends_nothing_and_is_no_liar():
    async with nodes() as found:
        follower = await found.followed()
        _, signed = await found.settled()
        await follower.look()
        mined = follower.evidence.mined[signed.hash]
        found.proxies[1].fail(faults.behind(mined.block_number))
        assert not await follower.is_settled(mined)
        assert found.rail.nodes.disagreement == ""
        found.proxies[1].heal()
        await follower.look()
        assert await follower.is_settled(mined)


async def test_while_one_of_two_nodes_is_down_nothing_ends_and_it_is_told():
    async with nodes() as found:
        follower = await found.followed()
        _, signed = await found.settled()
        found.proxies[1].down()
        await follower.look()
        mined = follower.evidence.mined[signed.hash]
        assert not await follower.is_settled(mined)
        said, advice = found.rail.nodes.disagreement.split("; ")
        assert said == "1 endpoints answer, and 2 have to agree"
        # it says why payments stand
        assert advice == (
            "all 2 nodes have to agree, so one that is wrong or down stops settlement: "
            "name one more"
        )
        found.proxies[1].up()
        await found.later(BACKOFF_MAX_S)
        await follower.look()
        assert await follower.is_settled(mined)
        assert found.rail.nodes.disagreement == ""


async def test_an_operator_may_trust_one_node_of_two():
    async with nodes(agreement=1) as found:
        follower = await found.followed()
        _, signed = await found.settled()
        await follower.look()
        found.proxies[1].down()
        mined = follower.evidence.mined[signed.hash]
        assert await follower.is_settled(mined)


async def test_a_payment_is_not_dead_because_one_node_hides_its_event():
    async with nodes() as found:
        item, _ = await found.settled()
        found.proxies[0].fail(
            faults.change(faults.replied([]), method="eth_getLogs"), method="eth_getLogs"
        )
        # its authorization is used, as the sign of success
        assert await found.rail.observer.evidence.spent_or_lapsed(item.option) is not None
        assert await found.rail.observer.unpayable_reason(item, ()) is None


async def test_a_payment_is_not_dead_because_one_node_says_so():
    async with nodes() as found:
        item = await found.lab.sold(1)
        used = "0x" + "1".rjust(64, "0")
        found.proxies[0].fail(faults.change(faults.replied(used), method="eth_call"))
        await found.lab.mine(CONFIRMATIONS)
        assert await found.rail.observer.evidence.spent_or_lapsed(item.option) is not None
        assert await found.rail.observer.unpayable_reason(item, ()) is None


async def test_a_payment_that_both_nodes_call_dead_is():
    async with nodes() as found:
        item = await found.lab.sold(1)
        found.lab.clock.advance(3600)
        await found.lab.mine(CONFIRMATIONS)
        assert "lapsed" in (await found.rail.observer.unpayable_reason(item, ()) or "")


async def test_a_transaction_is_not_gone_because_one_node_says_so():
    async with nodes() as found:
        item = await found.lab.sold(1)
        nonce = await found.lab.rail.account_nonces.next_nonce(RELAYER.address)
        made = await found.lab.rail.relay.sign(RELAYER.address, nonce, [item])
        tx = journaled(made, nonce=nonce, sender=RELAYER.address)
        await found.lab.mine(CONFIRMATIONS)
        counts = faults.change(faults.replied(hex(99)), method="eth_getTransactionCount")
        found.proxies[0].fail(counts)
        assert not await found.rail.observer.cannot_be_mined(tx, ())
        found.proxies[1].fail(counts)
        assert await found.rail.observer.cannot_be_mined(tx, ())


async def test_a_transaction_is_not_gone_if_a_variant_of_it_is_mined():
    """Both nodes tell the truth: its nonce is used, and its first variant is in no block."""
    async with nodes() as found:
        item = await found.lab.sold(1)
        nonce = await found.lab.rail.account_nonces.next_nonce(RELAYER.address)
        first = await found.lab.rail.relay.sign(RELAYER.address, nonce, [item])
        tx = journaled(first, nonce=nonce, sender=RELAYER.address)
        raised = await found.lab.rail.account_nonces.bump(tx)
        assert raised is not None
        await found.lab.rail.relay.broadcast(raised.raw)
        await found.lab.mine(CONFIRMATIONS)
        assert await found.rail.observer.cannot_be_mined(tx, ())
        raised_too = replace(tx, bumps=(Variant(raised.raw, raised.hash),))
        assert not await found.rail.observer.cannot_be_mined(raised_too, ())


async def test_a_block_was_replaced_only_if_both_nodes_say_so():
    async with nodes() as found:
        await found.lab.mine(3)
        head = await found.rail.observer.head()
        other = "0x" + "00" * 32

        def lie(_, answer):
            return {**answer, "result": {**answer["result"], "hash": other}}

        assert not await found.rail.blocks.replaced(head.number, head.hash)
        found.proxies[0].fail(faults.change(lie, method="eth_getBlockByNumber"))
        assert not await found.rail.blocks.replaced(head.number, head.hash)
        found.proxies[0].heal()
        await found.lab.reorg(2)
        assert await found.rail.blocks.replaced(head.number, head.hash)


async def test_settings_refuse_what_cannot_agree_without_telling_addresses():
    with pytest.raises(ValueError, match="agreement") as told:
        settings(rpc_url="http://node.example/secret-access-key", agreement=2)
    assert "secret" not in str(told.value)
    with pytest.raises(ValueError, match="twice"):
        settings(rpc_url=["http://node.example/a", "http://node.example/a"])


async def test_one_address_is_one_node_that_nobody_has_to_agree_with():
    async with nodes(1) as found:
        assert found.rail.observer.agreement == 1
        follower = await found.followed()
        _, signed = await found.settled()
        await follower.look()
        mined = follower.evidence.mined[signed.hash]
        before = found.proxies[0].requests
        assert await follower.is_settled(mined)
        assert found.proxies[0].requests == before


async def test_a_payout_is_over_only_if_both_nodes_say_so():
    async with nodes() as found:
        first, second = found.proxies
        treasury = Signer(b"\x77" * 32)
        urls = found.rail.chain.rpc_url
        rail = EvmRail(settings(rpc_url=urls), RELAYER, treasury=treasury, now=lambda: 0.0)
        _, signed = await found.settled()
        (tx_hash, tx) = (signed.hash, journaled(signed, nonce=0, sender=treasury.address))
        coin = Transfer("ref", rail.native_asset, f"{CHAIN}:{FEES}", 1)
        # a settlement is no transfer of coin, as both tell
        assert await rail.payouts.effect(tx, tx_hash, coin) == Effect.OTHER
        failed = {"status": "0x0"}

        def lie(_, answer):
            return {**answer, "result": {**answer["result"], **failed}}

        second.fail(faults.change(lie, method="eth_getTransactionReceipt"))
        with pytest.raises(RailUnavailable, match="differ about what"):
            await rail.payouts.effect(tx, tx_hash, coin)
        assert "differ" in rail.nodes.disagreement
        # a nonce that only one node calls used makes no second transfer
        first.fail(faults.change(faults.replied("0x9"), method="eth_getTransactionCount"))
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
