"""Days of payments on a real service: everything happens in them, and all of it adds up."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sqlite3
from collections import Counter
from contextlib import closing
from datetime import date

import pytest
from florin_server.boot.home import Home
from florin_server.config import Settings
from florin_server.simulation import check
from florin_server.simulation.knobs import Knobs
from florin_server.simulation.population import Deed, Purse, populate
from florin_server.simulation.quiet import QuietLoop
from florin_server.simulation.run import simulate
from florin_server.simulation.runner import Runner
from florin_server.simulation.stage import staged

from tests.support.command import begin, end

pytestmark = pytest.mark.slow

FIRST = date(2026, 6, 1)  # a Monday
BEGIN_US = 1_780_272_000_000_000
# one of few seeds whose sixty payments have all kinds of buyers among them
EVERYBODY = Knobs(seed=4771, payments=60, days=3, reorgs=0.1)
FEW = Knobs(seed=3, payments=25, days=2)


@pytest.fixture(scope="module")
def everybody(tmp_path_factory):
    home = tmp_path_factory.mktemp("everybody") / "home"
    return simulate(Settings(home=home), EVERYBODY, first=FIRST), home


def test_every_kind_of_buyer_is_there_and_ends_as_such_a_buyer_does(everybody):
    result, _ = everybody
    assert list(result.problems) == []
    ends = {
        deed: Counter(one.status for one in result.stories if one.order.deed is deed)
        for deed in Deed
    }
    for deed in (Deed.IGNORES, Deed.LOOKS, Deed.HESITATES):
        assert set(ends[deed]) == {"expired"}
    assert set(ends[Deed.CANCELS]) == {"cancelled"}
    assert set(ends[Deed.BLUNDERS]) == {"failed"}
    assert set(ends[Deed.LATE]) == {"expired", "cancelled"}
    paid = [one for one in result.stories if one.status == "succeeded"]
    assert {one.order.purse for one in paid} == set(Purse)
    # the others found nothing of theirs among the options
    left = [one for one in result.stories if one.order.deed is Deed.PAYS and one not in paid]
    assert all(one.asset == "" for one in left)
    assert any(one.order.twice for one in paid)
    assert any(one.order.reorg and one.order.purse.chain == "evm" for one in paid)


def test_who_pays_too_late_gets_it_back_and_who_is_refunded_too(everybody):
    result, _ = everybody
    late = [one for one in result.stories if one.order.deed is Deed.LATE]
    sent = [one for one in late if one.order.purse is Purse.COIN]
    assert sent
    assert all(one.returned_us > one.signed_us for one in sent)
    assert all("payment_expired" in one.refused for one in late if one not in sent)
    refunded = [one for one in result.stories if one.refund]
    assert {one.refund for one in refunded} == {"succeeded"}
    assert {one.order.purse.chain for one in refunded} == {"evm", "solana"}
    # who was too slow for a blockhash signs again
    slow = [one for one in result.stories if "quote_expired" in one.refused]
    assert {one.status for one in slow} == {"succeeded"}


def test_registrations_open_no_accounts(everybody):
    """The first payment to a merchant opens its account, in the transaction that pays it."""
    _, home = everybody
    alone = "SELECT count(*) FROM chain_tx WHERE id NOT IN (SELECT tx_id FROM chain_tx_item)"
    with closing(sqlite3.connect(home / "florin.db")) as books:
        (opened,) = books.execute(alone).fetchone()
    assert opened == 0


def test_a_report_counts_what_the_stories_tell(everybody):
    result, _ = everybody
    report, funnel = result.report, result.report.funnel
    assert sum(report.outcomes.values()) == report.payments == 60
    assert list(funnel.values()) == sorted(funnel.values(), reverse=True)
    assert funnel["succeeded"] == report.outcomes["succeeded"] == sum(report.assets.values())
    for one in report.times.values():
        assert 0 < one.p50_s <= one.promised_s
    assert json.loads(json.dumps(report.values()))["story"] == report.story


def test_the_same_seed_tells_the_same_story_whatever_else_differs(tmp_path):
    """In two processes at a time, with hashes in another order; and another seed in a third."""
    chosen = ["--payments", str(FEW.payments), "--days", str(FEW.days), "--begin", str(FIRST)]
    started = [
        begin("simulate", "--json", "--seed", seed, *chosen, home=tmp_path / name, PYTHONHASHSEED=n)
        for seed, name, n in (("3", "one", "1"), ("3", "two", "2"), ("4", "three", "3"))
    ]
    results = []
    for process in started:
        ended = end(process)
        assert (ended.status, ended.err) == (0, "")
        *progress, result = map(json.loads, ended.out.splitlines())
        assert [one["done"] for one in progress] == sorted(one["done"] for one in progress)
        assert progress[-1]["done"] == progress[-1]["of"] == FEW.payments
        results.append(result)
    one, two, three = results
    assert one["problems"] == two["problems"] == three["problems"] == []
    assert one["report"] == two["report"]
    assert one["report"]["story"] != three["report"]["story"]


def test_a_slow_chain_that_was_planted_is_seen_and_the_other_one_keeps_its_promise(tmp_path):
    slow = Knobs(seed=3, payments=25, days=2, slow_chain="evm")
    result = simulate(Settings(home=tmp_path / "home"), slow, first=FIRST)
    assert list(result.problems) == []
    evm, solana = result.report.times["evm"], result.report.times["solana"]
    usual = simulate(
        Settings(home=tmp_path / "usual"), dataclasses.replace(slow, slow_chain=""), first=FIRST
    )
    # promises follow what payments took
    assert evm.p50_s > 5 * usual.report.times["evm"].p50_s
    assert solana.p95_s <= solana.promised_s


QUOTED = """
    SELECT p.reference_id, o.value FROM payment_option o JOIN payment p ON p.id = o.payment_id
    WHERE o.asset LIKE '%/slip44:60' ORDER BY p.reference_id, o.value
"""


def test_a_price_that_moves_does_so_by_the_seed_and_changes_no_story(tmp_path):
    moving = dataclasses.replace(FEW, volatility=5.0, jump=-10.0)
    quoted, stories = [], set()
    for name, knobs in (("calm", FEW), ("one", moving), ("two", moving)):
        result = simulate(Settings(home=tmp_path / name), knobs, first=FIRST)
        assert list(result.problems) == []
        stories.add(result.report.story)
        with closing(sqlite3.connect(Home(tmp_path / name).database)) as file:
            quoted.append(file.execute(QUOTED).fetchall())
    calm, one, two = quoted
    assert one == two
    assert len(stories) == 1
    # every price moved, and none went missing
    assert [payment for payment, _ in one] == [payment for payment, _ in calm]
    assert not {*one} & {*calm}


def test_payments_of_an_outage_wait_for_its_end(tmp_path):
    # a chain that stands still replaces no blocks, whatever is planted
    planted = {"reorgs": 1.0, "outage_minutes": 15}
    stopped = Knobs(seed=1927, payments=40, days=1, abandoners=0.0, **planted)
    result = simulate(Settings(home=tmp_path / "home"), stopped, first=FIRST)
    assert list(result.problems) == []
    (outage,) = populate(stopped, BEGIN_US).outages
    waiting = [
        one
        for one in result.stories
        if one.asset.startswith("eip155:")
        and one.order.deed is Deed.PAYS
        and outage.from_us < one.confirmed_us < outage.until_us
    ]
    assert len(waiting) >= 3
    assert all(one.ended_us > outage.until_us for one in waiting)
    # shorter than an authorization lasts
    assert {one.status for one in waiting} == {"succeeded"}


# by what is planted: which column of which row, what it becomes, and what the check says
SPOILS = {
    "a unit more in the books": (
        ("ledger_transfer", "amount", "idem_key"),
        "SELECT max(idem_key) FROM ledger_transfer WHERE idem_key LIKE 'settle:%'",
        lambda amount: str(int(amount) + 1),
        "in the books",
    ),
    "a payment left open": (
        ("payment", "status", "id"),
        "SELECT max(id) FROM payment WHERE status = 'succeeded'",
        lambda _: "processing",
        "is still processing",
    ),
    "a refund that nobody sent": (
        ("refund", "status", "id"),
        "SELECT max(id) FROM refund",
        lambda _: "pending",
        "payments that are not refunded",
    ),
    "a transaction that nobody wrote down": (
        ("chain_tx", "hash", "id"),
        "SELECT max(id) FROM chain_tx WHERE chain_id LIKE 'eip155:%'",
        lambda hash_: hash_[:-1],
        "never written down",
    ),
}


def test_the_check_finds_what_is_planted(tmp_path):
    """Each in turn, and nothing once it is taken back."""
    home, found = Home(tmp_path / "home"), {}

    async def spoiled():
        population = populate(EVERYBODY, BEGIN_US)
        loop = asyncio.get_running_loop()
        async with staged(Settings(home=home.path), EVERYBODY, BEGIN_US, loop) as stage:
            ground = await check.begin(stage)
            await stage.open_shops(population.merchants, "spoiled")
            stories = await Runner(stage, population, "spoiled").run(lambda *_: None)
            assert await check.check(stage, ground, stories) == []
            for name, ((table, column, key), which, change, _) in SPOILS.items():
                write = f"UPDATE {table} SET {column} = ? WHERE {key} = ?"
                with closing(sqlite3.connect(home.database, isolation_level=None)) as file:
                    ((row,),) = file.execute(which)
                    look = f"SELECT {column} FROM {table} WHERE {key} = ?"
                    (kept,) = file.execute(look, (row,)).fetchone()
                    file.execute(write, (change(kept), row))
                    found[name] = await check.check(stage, ground, stories)
                    file.execute(write, (kept, row))
            assert await check.check(stage, ground, stories) == []

    with asyncio.Runner(loop_factory=QuietLoop) as runner:
        runner.run(spoiled())
    for name, (*_, sentence) in SPOILS.items():
        assert any(sentence in one for one in found[name]), (name, found[name])
