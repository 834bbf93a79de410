"""The treasury's key has one user, who knows what its forerunners left."""

from __future__ import annotations

import asyncio

import pytest
from florin_server.domain.conditions import ConditionName
from florin_server.domain.errors import FlorinError
from florin_server.domain.payouts.payout import PayoutStatus
from florin_server.domain.settlement.chain_txs import TxState
from florin_server.flows.operator import leases as operator
from florin_server.rails.types import RailUnavailable
from florin_server.store.settlement import leases
from florin_server.workers.payouts import pay_out
from florin_server.workers.payouts.pay_out import PayoutWorker

from tests.support.evm_lab import CHAIN
from tests.support.payout_lab import BUYER, TREASURY, Office, office
from tests.support.payout_steps import SEND, waits

LEASE = f"relayer:{CHAIN}:{TREASURY.address}"
S = 1_000_000
COPIED_US = 1_800_000_000 * S
PAUSED_FOR_A_COPY = "paused: what was paid out since 2027-01-15 08:00:00 UTC is not known"


@pytest.fixture
async def desk(tmp_path):
    async with office(tmp_path) as running:
        yield running


async def taken_over(desk: Office, seconds: int) -> None:
    """Somebody else has the lease for so long."""
    now_us = desk.lab.clock.now_us()
    assert await desk.store.write(leases.acquire(LEASE, "they", now_us, seconds * S, steal=True))


async def test_without_the_lease_nothing_is_sent_until_it_is_free(desk):
    await desk.lab.pause()
    first = await desk.asked(150)
    await desk.turn()
    (sent,) = await desk.transactions()
    await taken_over(desk, 30)
    desk.lab.clock.advance(11)
    second = await desk.asked(7)
    await desk.turn()
    health = desk.worker.health()
    assert health.has(ConditionName.PAYOUTS_LEASED_ELSEWHERE)
    assert health.problem == "payouts: another service has the lease"
    assert (health.head, health.open_transactions) == (desk.worker.head, 0)
    await desk.mine(4)
    # it may not even conclude
    assert (await desk.now(first)).status is PayoutStatus.SUBMITTED
    assert await waits(desk, second) == ""
    desk.lab.clock.advance(20)
    # what is on its way is known again, and is not sent twice
    assert (await desk.done(first)).tx_id == sent.hash
    await desk.done(second)
    assert desk.worker.health().problem == ""
    assert await desk.transfers() == [150, 7]


async def test_lease_that_the_operator_released_is_left_and_taken_by_another(desk):
    await desk.lab.pause()
    first = await desk.asked(150)
    await desk.turn()
    (lease,) = [one for one in (await operator.list_leases(desk.app)).leases if one.name == LEASE]
    for name, holder in ((LEASE, "another"), ("relayer:none", lease.holder)):
        with pytest.raises(FlorinError):
            await operator.release(desk.app, name, holder)
    released = await operator.release(desk.app, LEASE, lease.holder)
    assert (released.holder, released.epoch) == ("", lease.epoch + 1)
    with pytest.raises(FlorinError, match="no process has it"):
        await operator.release(desk.app, LEASE, lease.holder)
    # before the one that had it renews: what it signs by then is not written down, and not sent
    now_us = desk.lab.clock.now_us()
    taken = leases.acquire(LEASE, "they", now_us, 25 * S, steal=False)
    assert await desk.store.write(taken) == lease.epoch + 2
    second = await desk.asked(7)
    await desk.turn()
    assert len(await desk.transactions()) == 1
    await desk.turn()
    assert await waits(desk, second) == ""
    assert desk.worker.health().has(ConditionName.PAYOUTS_LEASED_ELSEWHERE)
    desk.lab.clock.advance(26)
    await desk.mine(4)
    await desk.done(first)
    await desk.done(second)


async def test_what_its_forerunner_wrote_down_is_sent_at_once(desk):
    """The lease was another's for a moment, in which something was to be written."""
    desk.lab.node.lost = frozenset({SEND})
    first = await desk.asked(150)
    await desk.turn()
    (signed,) = await desk.transactions()
    assert signed.state is TxState.SIGNED
    await taken_over(desk, 0)
    second = await desk.asked(7)
    await desk.turn()
    assert "lease" in desk.worker.health().problem
    assert await waits(desk, second) == ""
    desk.lab.node.lost = frozenset()
    await desk.turn()
    assert await desk.transfers() == [150, 7]
    for payout in (first, second):
        await desk.done(payout)


async def test_who_has_not_begun_says_so_and_is_the_one_to_pause(desk):
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
    told = copied.health().problem
    assert told == f"payouts: {PAUSED_FOR_A_COPY}; payouts: starting"
    copied.sender.resume()
    assert copied.health().problem == "payouts: starting"
    # once more is the operator's own
    copied.sender.pause()
    assert copied.health().problem.startswith("payouts: paused by the operator")
    other = PayoutWorker(desk.app, rail, treasury, "me", {f"{CHAIN}:0x"})
    assert not other.sender.paused


async def test_a_problem_without_words_is_told_by_its_kind(desk, monkeypatch, caplog):
    await desk.asked()
    await desk.turn()

    async def silent() -> None:
        raise RailUnavailable

    with monkeypatch.context() as node:
        node.setattr(desk.lab.rail.observer, "head", silent)
        await desk.turn()
    assert desk.worker.health().problem == "payouts: RailUnavailable"
    assert f"payouts on {CHAIN} wait: RailUnavailable" in caplog.text
    await desk.turn()
    assert desk.worker.health().problem == ""


async def test_it_rests_until_a_block_comes_or_it_is_woken(desk, monkeypatch):
    heard, never = [], asyncio.Event()

    async def at_once(name: str = "") -> None:
        heard.append(name)

    async def not_yet(name: str = "") -> None:
        await never.wait()

    async def rest() -> None:
        async with asyncio.timeout(20):
            await desk.worker.rest()

    # there is nothing to do: others may ask for something, and tell or not
    monkeypatch.setattr(pay_out, "_IDLE_S", 3600.0)
    desk.worker.wake()
    await rest()
    monkeypatch.setattr(pay_out, "_IDLE_S", 0.0)
    await rest()
    # something waits: a block may change that
    desk.app.blocked.add([BUYER])
    await desk.asked()
    await desk.turn()
    monkeypatch.setattr(desk.lab.rail.nodes, "wait_for_block", at_once)
    await rest()
    # the settler waits for blocks of the same chain, by a name of its own
    assert heard[0]
    monkeypatch.setattr(desk.lab.rail.nodes, "wait_for_block", not_yet)
    desk.worker.wake()
    await rest()
