"""Test that one process uses the treasury's key and knows what its predecessors left."""

from __future__ import annotations

import asyncio

import pytest
from florin_server.app.app import build_app, build_core
from florin_server.base.topics import Topic
from florin_server.domain.conditions import ConditionName
from florin_server.domain.errors import ApiError
from florin_server.domain.payouts.payout import PayoutStatus
from florin_server.domain.settlement.chain_txs import TxState
from florin_server.money.payouts.service import payouts as service
from florin_server.money.payouts.store import payouts
from florin_server.money.payouts.worker import pay_out
from florin_server.money.payouts.worker.pay_out import PayoutWorker
from florin_server.operations.service import leases as operator
from florin_server.operations.store import leases
from florin_server.rails.types import RailUnavailable

from tests.support.evm_harness import (
    CHAIN,
    MERCHANT,
)
from tests.support.health import has_condition
from tests.support.payout_actions import (
    SEND,
    get_waiting_reason,
)
from tests.support.payout_harness import (
    BUYER,
    TREASURY,
    PayoutHarness,
    open_payout_harness,
)

LEASE = f"relayer:{CHAIN}:{TREASURY.address}"
S = 1_000_000
COPIED_US = 1_800_000_000 * S
PAUSED_FOR_A_COPY = "paused: payouts since 2027-01-15 08:00:00 UTC are unknown"


@pytest.fixture
async def desk(tmp_path):
    async with open_payout_harness(tmp_path) as running:
        yield running


async def taken_over(desk: PayoutHarness, seconds: int) -> None:
    """Give the lease to another process for `seconds`."""
    now_us = desk.lab.clock.now_us()
    assert await desk.store.write(leases.acquire(LEASE, "they", now_us, seconds * S, steal=True))


async def test_without_the_lease_nothing_is_sent_until_it_is_free(desk):
    await desk.lab.pause()
    first = await desk.create_payout(150)
    await desk.turn()
    (sent,) = await desk.transactions()
    await taken_over(desk, 30)
    desk.lab.clock.advance(11)
    second = await desk.create_payout(7)
    await desk.turn()
    health = desk.worker.health()
    assert has_condition(health, ConditionName.PAYOUTS_LEASED_ELSEWHERE)
    assert health.problem == "payouts: another process has the lease"
    assert (health.head, health.open_transactions) == (desk.worker.head, 0)
    await desk.mine(4)
    # it cannot even finalize the payout
    assert (await desk.get_payout(first)).status is PayoutStatus.SUBMITTED
    assert await get_waiting_reason(desk, second) == ""
    desk.lab.clock.advance(20)
    # the pending transaction is known again, and is not sent twice
    assert (await desk.wait_done(first)).tx_id == sent.hash
    await desk.wait_done(second)
    assert desk.worker.health().problem == ""
    assert await desk.transfers() == [150, 7]


async def test_lease_that_the_operator_released_is_left_and_taken_by_another(desk):
    await desk.lab.pause()
    first = await desk.create_payout(150)
    await desk.turn()
    (lease,) = [
        each_lease
        for each_lease in (await operator.list_leases(desk.app)).leases
        if each_lease.name == LEASE
    ]
    for name, holder in ((LEASE, "another"), ("relayer:none", lease.holder)):
        with pytest.raises(ApiError):
            await operator.release(desk.app, name, holder)
    released = await operator.release(desk.app, LEASE, lease.holder)
    assert (released.holder, released.epoch) == ("", lease.epoch + 1)
    with pytest.raises(ApiError, match="no process has it"):
        await operator.release(desk.app, LEASE, lease.holder)
    # before the former holder renews: its next transactions are neither recorded nor sent
    now_us = desk.lab.clock.now_us()
    taken = leases.acquire(LEASE, "they", now_us, 25 * S, steal=False)
    assert await desk.store.write(taken) == lease.epoch + 2
    second = await desk.create_payout(7)
    await desk.turn()
    assert len(await desk.transactions()) == 1
    await desk.turn()
    assert await get_waiting_reason(desk, second) == ""
    assert has_condition(desk.worker.health(), ConditionName.PAYOUTS_LEASED_ELSEWHERE)
    desk.lab.clock.advance(26)
    await desk.mine(4)
    await desk.wait_done(first)
    await desk.wait_done(second)


async def test_transaction_signed_by_the_previous_lease_owner_is_sent_at_once(desk):
    """Another process had the lease for a moment, just when this worker had to record a write."""
    desk.lab.node.lost_methods = frozenset({SEND})
    first = await desk.create_payout(150)
    await desk.turn()
    (signed,) = await desk.transactions()
    assert signed.state is TxState.SIGNED
    await taken_over(desk, 0)
    second = await desk.create_payout(7)
    await desk.turn()
    assert "lease" in desk.worker.health().problem
    assert await get_waiting_reason(desk, second) == ""
    desk.lab.node.lost_methods = frozenset()
    await desk.turn()
    assert await desk.transfers() == [150, 7]
    for payout in (first, second):
        await desk.wait_done(payout)


async def test_worker_reports_starting_and_can_be_paused_before_it_starts(desk):
    rail, account = desk.lab.rail, f"{CHAIN}:{TREASURY.address}"
    treasury = rail.payouts
    new = PayoutWorker(desk.app, rail, treasury, "me")
    health = new.health()
    assert (health.head, health.open_transactions) == (0, 0)
    assert health.problem == "payouts: starting"
    assert desk.app.executors.keys() == {account}
    paused = PayoutWorker(desk.app, rail, treasury, "me", {account})
    assert paused.health().problem == "payouts: paused by the operator; payouts: starting"
    copied = PayoutWorker(desk.app, rail, treasury, "me", {account}, copied_at_us=COPIED_US)
    problem = copied.health().problem
    assert problem == f"payouts: {PAUSED_FOR_A_COPY}; payouts: starting"
    copied.key.resume()
    assert copied.health().problem == "payouts: starting"
    # a second pause is the operator's own
    copied.key.pause()
    assert copied.health().problem.startswith("payouts: paused by the operator")
    other = PayoutWorker(desk.app, rail, treasury, "me", {f"{CHAIN}:0x"})
    assert not other.key.is_paused


async def test_error_without_a_message_is_reported_by_its_type(desk, monkeypatch, caplog):
    await desk.create_payout()
    await desk.turn()

    async def silent() -> None:
        raise RailUnavailable

    with monkeypatch.context() as node:
        node.setattr(desk.lab.rail.observer, "get_head", silent)
        await desk.turn()
    assert desk.worker.health().problem == "payouts: RailUnavailable"
    assert f"payouts on {CHAIN} wait: RailUnavailable" in caplog.text
    await desk.turn()
    assert desk.worker.health().problem == ""


async def test_it_rests_until_a_block_comes_or_it_is_woken(desk, monkeypatch):
    received, never = [], asyncio.Event()

    async def at_once(name: str = "") -> None:
        received.append(name)

    async def not_yet(name: str = "") -> None:
        await never.wait()

    async def rest() -> None:
        async with asyncio.timeout(20):
            await desk.worker.rest()

    # nothing to do: others can request a payout, with or without a message
    monkeypatch.setattr(pay_out, "_IDLE_S", 3600.0)
    desk.app.notifier.publish(Topic.PAYOUTS_DUE)
    await rest()
    monkeypatch.setattr(pay_out, "_IDLE_S", 0.0)
    await rest()
    # a payout waits: a block can change that
    desk.app.blocklist.add([BUYER])
    await desk.create_payout()
    await desk.turn()
    monkeypatch.setattr(desk.lab.rail.nodes, "wait_for_block", at_once)
    await rest()
    # the settler waits for blocks of this chain under another name
    assert received[0]
    monkeypatch.setattr(desk.lab.rail.nodes, "wait_for_block", not_yet)
    desk.app.notifier.publish(Topic.PAYOUTS_DUE)
    await rest()


async def test_a_chain_without_its_treasurys_key_says_so(desk):
    payout = await desk.create_payout()
    assert await service.list_problems(desk.app, CHAIN) == []
    desk.lab.rail.payouts = None
    (reported_payout,) = await service.list_payouts(desk.app, include_closed=False)
    assert (reported_payout.id, reported_payout.problem) == (
        payout.id,
        "this installation has no treasury key for the chain",
    )
    why = f"payouts waiting: 1, because {reported_payout.problem}"
    assert await service.list_problems(desk.app, CHAIN) == [why]
    # the command line also works without chains
    nowhere = build_app(build_core(desk.app.settings, desk.store, desk.lab.clock, ()))
    assert [
        each_payout.problem
        for each_payout in await service.list_payouts(nowhere, include_closed=True)
    ] == [None]


async def test_a_key_that_is_not_the_treasurys_pays_nothing(desk):
    payout = await desk.create_payout()
    object.__setattr__(desk.lab.rail.chain, "treasury", MERCHANT)
    await desk.turn()
    assert MERCHANT in await get_waiting_reason(desk, payout)
    problems = await desk.store.read(payouts.count_problems())
    assert [(chain, count) for chain, _, count in problems] == [(CHAIN, 1)]


async def test_paused_treasury_sends_nothing_and_follows_sent_payouts(desk):
    first = await desk.create_payout()
    await desk.turn()
    desk.worker.key.pause()
    second = await desk.create_payout(7)
    for _ in range(4):
        await desk.mine()
    assert (await desk.get_payout(first)).status is PayoutStatus.DONE
    assert await get_waiting_reason(desk, second) == ""
    assert desk.worker.health().problem == "payouts: paused by the operator"
    desk.worker.key.resume()
    await desk.wait_done(second)
    assert await desk.transfers() == [150, 7]
