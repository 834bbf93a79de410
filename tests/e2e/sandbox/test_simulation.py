"""Simulated days of payments on a real service: all kinds of events occur, and all totals agree."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sqlite3
from collections import Counter
from contextlib import closing
from datetime import date

import pytest
from florin_sandbox.simulation import check
from florin_sandbox.simulation.config import SimulationConfig
from florin_sandbox.simulation.environment import open_environment
from florin_sandbox.simulation.population import BuyerBehavior, WalletKind, generate_plan
from florin_sandbox.simulation.quiet_loop import QuietLoop
from florin_sandbox.simulation.run import simulate
from florin_sandbox.simulation.runner import SimulationRunner
from florin_server.settings import Settings

from tests.support.command import get_state_folder, start_command, wait_command

pytestmark = pytest.mark.slow

FIRST = date(2026, 6, 1)  # a Monday
BEGIN_US = 1_780_272_000_000_000
# one of few seeds whose sixty payments have all kinds of buyers among them
EVERYBODY = SimulationConfig(seed=4771, payments=60, days=3, reorgs=0.1)
FEW = SimulationConfig(seed=3, payments=25, days=2)


@pytest.fixture(scope="module")
def everybody(tmp_path_factory):
    home = tmp_path_factory.mktemp("everybody") / "home"
    return simulate(Settings(home=home), EVERYBODY, first_day=FIRST), home


def test_every_kind_of_buyer_is_there_and_ends_as_such_a_buyer_does(everybody):
    result, _ = everybody
    assert list(result.problems) == []
    ends = {
        behavior: Counter(
            story.last_status for story in result.scenarios if story.order.behavior is behavior
        )
        for behavior in BuyerBehavior
    }
    for behavior in (BuyerBehavior.IGNORES, BuyerBehavior.LOOKS, BuyerBehavior.HESITATES):
        assert set(ends[behavior]) == {"expired"}
    assert set(ends[BuyerBehavior.CANCELS]) == {"cancelled"}
    assert set(ends[BuyerBehavior.BLUNDERS]) == {"failed"}
    assert set(ends[BuyerBehavior.LATE]) == {"expired", "cancelled"}
    paid = [story for story in result.scenarios if story.last_status == "succeeded"]
    assert {item.order.wallet_kind for item in paid} == set(WalletKind)
    # the others had no option for their asset
    left = [
        story
        for story in result.scenarios
        if story.order.behavior is BuyerBehavior.PAYS and story not in paid
    ]
    assert all(item.asset == "" for item in left)
    assert any(item.order.is_double_click for item in paid)
    assert any(item.order.has_reorg and item.order.wallet_kind.chain == "evm" for item in paid)


def test_late_buyers_and_refunded_buyers_get_their_money_back(everybody):
    result, _ = everybody
    late = [story for story in result.scenarios if story.order.behavior is BuyerBehavior.LATE]
    sent = [item for item in late if item.order.wallet_kind is WalletKind.COIN]
    assert sent
    assert all(item.returned_us > item.signed_us for item in sent)
    assert all("payment_expired" in item.refusals for item in late if item not in sent)
    refunded = [story for story in result.scenarios if story.refund_status]
    assert {item.refund_status for item in refunded} == {"succeeded"}
    assert {item.order.wallet_kind.chain for item in refunded} == {"evm", "solana"}
    # buyers who were too slow for a blockhash sign again
    slow = [story for story in result.scenarios if "quote_expired" in story.refusals]
    assert {item.last_status for item in slow} == {"succeeded"}


def test_registrations_open_no_accounts(everybody):
    """The first payment to a merchant opens its account, in the transaction that pays it."""
    _, home = everybody
    alone = "SELECT count(*) FROM chain_tx WHERE id NOT IN (SELECT tx_id FROM chain_tx_item)"
    with closing(sqlite3.connect(home / "florin.db")) as books:
        (opened,) = books.execute(alone).fetchone()
    assert opened == 0


def test_report_counts_match_the_scenarios(everybody):
    result, _ = everybody
    report, funnel = result.report, result.report.funnel
    assert sum(report.outcomes.values()) == report.payments == 60
    assert list(funnel.values()) == sorted(funnel.values(), reverse=True)
    assert funnel["succeeded"] == report.outcomes["succeeded"] == sum(report.assets.values())
    for time in report.times.values():
        assert 0 < time.p50_s <= time.promised_s
    assert json.loads(json.dumps(report.to_json()))["story"] == report.story


def test_same_seed_gives_the_same_story_in_any_process(tmp_path):
    """Two processes at a time, with hashes in another order; and another seed in a third."""
    chosen = ["--payments", str(FEW.payments), "--days", str(FEW.days), "--begin", str(FIRST)]
    started = [
        start_command(
            "simulate", "--json", "--seed", seed, *chosen, home=tmp_path / name, PYTHONHASHSEED=n
        )
        for seed, name, n in (("3", "one", "1"), ("3", "two", "2"), ("4", "three", "3"))
    ]
    results = []
    for process in started:
        ended = wait_command(process)
        assert (ended.status, ended.err) == (0, "")
        *progress, result = map(json.loads, ended.out.splitlines())
        assert [each_item["done"] for each_item in progress] == sorted(
            each_item["done"] for each_item in progress
        )
        assert progress[-1]["done"] == progress[-1]["of"] == FEW.payments
        results.append(result)
    item, two, three = results
    assert item["problems"] == two["problems"] == three["problems"] == []
    assert item["report"] == two["report"]
    assert item["report"]["story"] != three["report"]["story"]


def test_planted_slow_chain_is_visible_and_the_other_chain_keeps_its_eta(tmp_path):
    slow = SimulationConfig(seed=3, payments=25, days=2, slow_chain="evm")
    result = simulate(Settings(home=tmp_path / "home"), slow, first_day=FIRST)
    assert list(result.problems) == []
    evm, solana = result.report.times["evm"], result.report.times["solana"]
    usual = simulate(
        Settings(home=tmp_path / "usual"), dataclasses.replace(slow, slow_chain=""), first_day=FIRST
    )
    # promised times follow the actual ones
    assert evm.p50_s > 5 * usual.report.times["evm"].p50_s
    assert solana.p95_s <= solana.promised_s


QUOTED = """
    SELECT p.reference_id, o.value FROM payment_option o JOIN payment p ON p.id = o.payment_id
    WHERE o.asset LIKE '%/slip44:60' ORDER BY p.reference_id, o.value
"""


def test_a_price_that_moves_does_so_by_the_seed_and_changes_no_story(tmp_path):
    moving = dataclasses.replace(FEW, volatility=5.0, jump=-10.0)
    quoted, stories = [], set()
    for name, config in (("calm", FEW), ("one", moving), ("two", moving)):
        result = simulate(Settings(home=tmp_path / name), config, first_day=FIRST)
        assert list(result.problems) == []
        stories.add(result.report.story)
        with closing(sqlite3.connect(get_state_folder(tmp_path / name).database_path)) as file:
            quoted.append(file.execute(QUOTED).fetchall())
    calm, item, two = quoted
    assert item == two
    assert len(stories) == 1
    # every price moved, and none went missing
    assert [payment for payment, _ in item] == [payment for payment, _ in calm]
    assert not {*item} & {*calm}


def test_payments_of_an_outage_wait_for_its_end(tmp_path):
    # a stopped chain has no reorganization, although one is planned
    planted = {"reorgs": 1.0, "outage_minutes": 15}
    stopped = SimulationConfig(seed=1927, payments=40, days=1, abandoners=0.0, **planted)
    result = simulate(Settings(home=tmp_path / "home"), stopped, first_day=FIRST)
    assert list(result.problems) == []
    (outage,) = generate_plan(stopped, BEGIN_US).outages
    waiting = [
        scenario
        for scenario in result.scenarios
        if scenario.asset.startswith("eip155:")
        and scenario.order.behavior is BuyerBehavior.PAYS
        and outage.start_us < scenario.confirmed_us < outage.end_us
    ]
    assert len(waiting) >= 3
    assert all(scenario.ended_us > outage.end_us for scenario in waiting)
    # shorter than the validity of an authorization
    assert {scenario.last_status for scenario in waiting} == {"succeeded"}


# by planted fault: column and row, the new value, and the audit's text
SPOILS = {
    "a unit more in the books": (
        ("ledger_transfer", "amount", "idem_key"),
        "SELECT max(idem_key) FROM ledger_transfer WHERE idem_key LIKE 'settle:%'",
        lambda amount: str(int(amount) + 1),
        "in the ledger",
    ),
    "a payment left open": (
        ("payment", "status", "id"),
        "SELECT max(id) FROM payment WHERE status = 'succeeded'",
        lambda _: "processing",
        "is still processing",
    ),
    "a refund without a transaction": (
        ("refund", "status", "id"),
        "SELECT max(id) FROM refund",
        lambda _: "pending",
        "payments with a missing or unexpected refund",
    ),
    "an unrecorded transaction": (
        ("chain_tx", "hash", "id"),
        "SELECT max(id) FROM chain_tx WHERE chain_id LIKE 'eip155:%'",
        lambda hash_: hash_[:-1],
        "not in the store",
    ),
}


def test_audit_detects_every_planted_fault(tmp_path):
    """Plant each in turn; the audit reports nothing once it is removed."""
    home, results = get_state_folder(tmp_path / "home"), {}

    async def spoiled():
        population = generate_plan(EVERYBODY, BEGIN_US)
        loop = asyncio.get_running_loop()
        async with open_environment(Settings(home=home.path), EVERYBODY, BEGIN_US, loop) as stage:
            ground = await check.start_audit(stage)
            await stage.register_merchants(population.merchants, "spoiled")
            stories = await SimulationRunner(stage, population, "spoiled").run(lambda *_: None)
            assert await check.run_audit(stage, ground, stories) == []
            for name, ((table, column, key), which, change, _) in SPOILS.items():
                write = f"UPDATE {table} SET {column} = ? WHERE {key} = ?"
                with closing(sqlite3.connect(home.database_path, isolation_level=None)) as file:
                    ((row,),) = file.execute(which)
                    look = f"SELECT {column} FROM {table} WHERE {key} = ?"
                    (stored,) = file.execute(look, (row,)).fetchone()
                    file.execute(write, (change(stored), row))
                    results[name] = await check.run_audit(stage, ground, stories)
                    file.execute(write, (stored, row))
            assert await check.run_audit(stage, ground, stories) == []

    with asyncio.Runner(loop_factory=QuietLoop) as runner:
        runner.run(spoiled())
    for name, (*_, sentence) in SPOILS.items():
        assert any(sentence in text for text in results[name]), (name, results[name])
