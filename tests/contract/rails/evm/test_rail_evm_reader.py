"""Test that the reader uses a node's best read strategy, and another when that fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest
from florin_sandbox.devnet.evm import DEVNET
from florin_sandbox.devnet.genesis import load_artifact
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.reading.reader import PROBE_PAUSE_S, STRATEGY_NAMES, EvmReader
from florin_server.rails.evm.reading.reads import ContractAnswer, ContractQuestion
from florin_server.rails.evm.settings import MULTICALL3
from florin_server.rails.types import RailUnavailable
from pydantic import ValidationError

from tests.support.evm_harness import (
    PRICE,
    RELAYER,
    TOKEN,
    make_asset,
    make_buyer,
    make_chain_settings,
    make_euro_asset,
    open_lab,
    to_account,
)
from tests.support.until import wait_until

PAYERS = [to_account(make_buyer(number)) for number in (1, 2)]
QUESTIONS = [ContractQuestion(b"\x01" * 20, b"")]
TRUE: list[ContractAnswer] = [(True, b"\x01")]
FALSE: list[ContractAnswer] = [(True, b"\x02")]


class Stage:
    """Read strategies whose duration and answers a test sets."""

    def __init__(self, **takes: float) -> None:
        self.now = 0.0
        self.takes = takes
        self.answers = dict.fromkeys(STRATEGY_NAMES, TRUE)
        self.broken: set[str] = set()
        self.hanging: set[str] = set()
        self.tried_strategies: list[str] = []
        self.ways = {name: self._way(name) for name in STRATEGY_NAMES}
        self.reader = self.reader_of(pause_s=0)

    def reader_of(self, **options) -> EvmReader:
        return EvmReader(
            None, "chain", self.ways, timer=lambda: self.now, attempt_s=0.05, **options
        )

    def _way(self, name: str):
        async def way(node: object, questions: Sequence[ContractQuestion]) -> list[ContractAnswer]:
            self.tried_strategies.append(name)
            self.now += self.takes.get(name, 1.0)
            if name in self.hanging:
                await asyncio.Event().wait()
            if name in self.broken:
                raise RailUnavailable("no")
            return self.answers[name]

        return way

    async def read(self) -> tuple[list[ContractAnswer], list[str]]:
        """Read; return the answers and the strategies that were tried."""
        self.tried_strategies.clear()
        answers = await self.reader.read(QUESTIONS)
        return answers, list(self.tried_strategies)

    async def passed(self) -> None:
        """Return once the background work that needs no waiting is done."""
        for _ in range(100):
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("takes", "order"),
    [
        ({"batch": 1, "deployless": 9, "multicall3": 9.5}, ("batch", "deployless", "multicall3")),
        ({"batch": 9, "deployless": 1, "multicall3": 2}, ("deployless", "multicall3", "batch")),
        ({"batch": 9, "deployless": 9, "multicall3": 1}, ("multicall3", "batch", "deployless")),
        ({"batch": 1, "deployless": 1.2, "multicall3": 1}, ("deployless", "batch", "multicall3")),
        ({"batch": 1, "deployless": 1.3, "multicall3": 1.1}, ("multicall3", "batch", "deployless")),
    ],
)
async def test_fastest_read_method_is_chosen_and_ties_go_to_fewest_calls(takes, order):
    stage = Stage(**takes)
    await stage.reader.probe(QUESTIONS)
    assert stage.reader.strategy_order[0] == order[0]
    assert set(stage.reader.strategy_order) == set(order)
    assert await stage.read() == (TRUE, [order[0]])


async def test_plain_batch_is_used_before_probing():
    stage = Stage()
    assert not stage.reader.is_probed
    assert await stage.read() == (TRUE, ["batch"])


async def test_read_method_that_differs_from_plain_calls_is_excluded():
    stage = Stage(deployless=0.25)
    stage.answers["deployless"] = FALSE
    await stage.reader.probe(QUESTIONS)
    assert stage.reader.strategy_order == ("multicall3", "batch")


async def test_failing_read_method_is_excluded():
    stage = Stage(batch=9)
    stage.broken = {"deployless"}
    await stage.reader.probe(QUESTIONS)
    assert stage.reader.strategy_order == ("multicall3", "batch")
    stage.broken, stage.hanging = set(), {"batch", "multicall3"}
    await stage.reader.probe(QUESTIONS)
    assert stage.reader.strategy_order == ("deployless",)


async def test_when_nothing_works_the_order_stays():
    stage = Stage()
    await stage.reader.probe(QUESTIONS)
    before = stage.reader.strategy_order
    stage.broken = set(STRATEGY_NAMES)
    await stage.reader.probe(QUESTIONS)
    assert stage.reader.strategy_order == before
    with pytest.raises(RailUnavailable):
        await stage.read()
    await stage.reader.close()


@pytest.mark.parametrize("how", ["broken", "hanging"])
async def test_read_method_that_starts_to_fail_loses_no_results(how):
    stage = Stage(deployless=0.25, multicall3=0.5)
    await stage.reader.probe(QUESTIONS)
    setattr(stage, how, {"deployless"})
    assert await stage.read() == (TRUE, ["deployless", "multicall3"])
    # the next read does not try it
    assert stage.reader.strategy_order == ("multicall3", "batch", "deployless")
    # a hanging strategy is dropped after a timeout
    await wait_until(lambda: "deployless" not in stage.reader.strategy_order)
    assert await stage.read() == (TRUE, ["multicall3"])


async def test_a_way_that_fails_for_an_account_that_anybody_named_keeps_its_place():
    stage = Stage(deployless=0.25)
    await stage.reader.probe(QUESTIONS)
    spoilt = stage.ways["deployless"]

    async def spoils(node: object, questions: Sequence[ContractQuestion]) -> list[ContractAnswer]:
        if questions[0].owner is not None:
            stage.tried_strategies.append("deployless")
            raise RailUnavailable("execution reverted")
        return await spoilt(node, questions)

    stage.ways["deployless"] = spoils
    hostile = [ContractQuestion(b"\x02" * 20, b"", owner=b"\x02" * 20)]
    stage.tried_strategies.clear()
    assert await stage.reader.read(hostile) == TRUE
    await stage.passed()
    assert stage.reader.strategy_order[0] == "deployless"
    # the sample was answered with the same strategy, so nothing more is probed
    assert stage.tried_strategies == ["deployless", "multicall3", "deployless"]
    # a strategy that also fails for others loses its place
    stage.broken = {"deployless"}
    assert await stage.reader.read(hostile) == TRUE
    await stage.passed()
    assert stage.reader.strategy_order[0] != "deployless"
    await stage.reader.close()


async def test_a_way_that_works_again_is_taken_again():
    stage = Stage(deployless=0.25)
    await stage.reader.probe(QUESTIONS)
    stage.broken = {"deployless"}
    _, tried = await stage.read()
    assert tried[0] == "deployless"
    stage.broken = set()
    await stage.passed()
    assert stage.reader.strategy_order[0] == "deployless"


async def test_a_node_that_fails_often_is_probed_seldom():
    stage = Stage(deployless=0.25)
    stage.reader = stage.reader_of(pause_s=3600)
    await stage.reader.probe(QUESTIONS)
    stage.broken = {"deployless"}
    stage.tried_strategies.clear()
    for _ in range(20):
        await stage.reader.read(QUESTIONS)
        await stage.passed()
    assert stage.tried_strategies == ["deployless", *["multicall3"] * 20]
    assert stage.reader.strategy_order == ("multicall3", "batch", "deployless")
    # the next probe is an hour away
    assert len(asyncio.all_tasks()) == 2
    await stage.reader.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_configured_read_method_is_the_only_method():
    stage = Stage()
    stage.reader = stage.reader_of(strategy="multicall3")
    await stage.reader.probe(QUESTIONS)
    assert await stage.read() == (TRUE, ["multicall3"])
    stage.broken = {"multicall3"}
    with pytest.raises(RailUnavailable):
        await stage.read()
    assert stage.tried_strategies == ["multicall3"]


# ---- with a chain


@pytest.fixture
async def lab():
    lab = await open_lab()
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def rail_of(lab, now=time.monotonic, **changes) -> EvmRail:
    chain = make_chain_settings(
        **{"assets": (make_asset(), make_euro_asset()), "reads": "auto", **changes}
    )
    rail = EvmRail(chain, RELAYER, lab.node, now=now)
    await rail.start()
    return rail


async def test_chain_without_multicall_is_read_by_the_remaining_methods(lab):
    rail = await rail_of(lab)
    assert set(rail.reader.strategy_order) == {"deployless", "batch"}
    receipt = await lab.send(data=load_artifact("TestMulticall").init, gas=2_000_000)
    rail = await rail_of(lab, multicall3=receipt["contractAddress"])
    assert set(rail.reader.strategy_order) == {"deployless", "multicall3", "batch"}


async def test_a_contract_that_is_no_multicall_is_not_used(lab):
    rail = await rail_of(lab, multicall3=DEVNET.settler)
    assert set(rail.reader.strategy_order) == {"deployless", "batch"}


async def test_options_survive_a_node_that_stops_taking_creations(lab):
    await lab.payable(PAYERS, {TOKEN: PRICE})
    later = [0.0]
    rail = await rail_of(lab, now=lambda: time.monotonic() + later[0])
    rail.reader.strategy_order = ("deployless", "batch")
    # a new probe is allowed
    later[0] += PROBE_PAUSE_S

    def no_creations(params, answer):
        if "to" in params[0]:
            return answer
        return {"id": answer["id"], "error": {"code": -32602, "message": "missing to"}}

    lab.node.changes["eth_call"] = no_creations
    assert len(await rail.offers.list_payable(PAYERS, {TOKEN: PRICE})) == 2
    await wait_until(lambda: rail.reader.strategy_order, ("batch",))
    await rail.close()


async def test_read_method_with_false_results_is_replaced(lab):
    def lies(params, answer):
        if "to" in params[0] or "result" not in answer:
            return answer
        return answer | {"result": answer["result"].replace("00" * 31 + "06", "00" * 31 + "08")}

    lab.node.changes["eth_call"] = lies
    rail = await rail_of(lab)
    assert rail.reader.strategy_order == ("batch",)


async def test_starting_without_assets_probes_nothing_and_the_next_check_does(lab):
    lab.node.changes["eth_chainId"] = lambda _, answer: answer | {"result": "0x1"}
    rail = await rail_of(lab)
    assert not rail.reader.is_probed
    lab.node.changes.clear()
    assert await rail.list_problems() == ()
    assert rail.reader.is_probed


async def test_equal_concurrent_reads_are_sent_once(lab):
    before = lab.rail.rpc.request_count
    results = await asyncio.gather(
        *(lab.payable(PAYERS, {TOKEN: PRICE}) for _ in range(5)),
        lab.payable(PAYERS[:1], {TOKEN: PRICE}),
    )
    assert [len(item) for item in results] == [2, 2, 2, 2, 2, 1]
    # both accounts are read, filled by the faucet, and read again
    assert lab.rail.rpc.request_count - before <= 6


def test_settings_name_a_way():
    assert make_chain_settings(reads="deployless").reads == "deployless"
    assert make_chain_settings().multicall3 == MULTICALL3
    with pytest.raises(ValidationError):
        make_chain_settings(reads="guess")
