"""A chain is read in the way that its node does best, and in another one when that fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest
from florin_server.devnet.evm import DEVNET
from florin_server.devnet.genesis import artifact
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.reading.reader import PROBE_PAUSE_S, WAYS, Reader
from florin_server.rails.evm.reading.reads import Answer, Question
from florin_server.rails.evm.settings import MULTICALL3
from florin_server.rails.types import RailUnavailable
from pydantic import ValidationError

from tests.support.evm_lab import (
    PRICE,
    RELAYER,
    TOKEN,
    account_of,
    asset,
    buyer,
    euro,
    open_lab,
    settings,
)
from tests.support.until import until

PAYERS = [account_of(buyer(number)) for number in (1, 2)]
ASKED = [Question(b"\x01" * 20, b"")]
TRUE: list[Answer] = [(True, b"\x01")]
FALSE: list[Answer] = [(True, b"\x02")]


class Stage:
    """Ways to read that take as long, and tell what, a test says."""

    def __init__(self, **takes: float) -> None:
        self.now = 0.0
        self.takes = takes
        self.told = dict.fromkeys(WAYS, TRUE)
        self.broken: set[str] = set()
        self.hanging: set[str] = set()
        self.asked: list[str] = []
        self.ways = {name: self._way(name) for name in WAYS}
        self.reader = self.reader_of(pause_s=0)

    def reader_of(self, **options) -> Reader:
        return Reader(None, "chain", self.ways, timer=lambda: self.now, attempt_s=0.05, **options)

    def _way(self, name: str):
        async def way(node: object, questions: Sequence[Question]) -> list[Answer]:
            self.asked.append(name)
            self.now += self.takes.get(name, 1.0)
            if name in self.hanging:
                await asyncio.Event().wait()
            if name in self.broken:
                raise RailUnavailable("no")
            return self.told[name]

        return way

    async def read(self) -> tuple[list[Answer], list[str]]:
        """What was read, and the ways that were tried for it."""
        self.asked.clear()
        answers = await self.reader.read(ASKED)
        return answers, list(self.asked)

    async def passed(self) -> None:
        """Returns once whatever goes on in the background, and waits for nobody, is over."""
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
async def test_the_fastest_is_taken_and_among_equals_the_one_with_fewest_calls(takes, order):
    stage = Stage(**takes)
    await stage.reader.probe(ASKED)
    assert stage.reader.order[0] == order[0]
    assert set(stage.reader.order) == set(order)
    assert await stage.read() == (TRUE, [order[0]])


async def test_before_anything_is_known_a_plain_batch_is_asked():
    stage = Stage()
    assert not stage.reader.probed
    assert await stage.read() == (TRUE, ["batch"])


async def test_who_tells_something_else_than_plain_calls_is_not_believed():
    stage = Stage(deployless=0.25)
    stage.told["deployless"] = FALSE
    await stage.reader.probe(ASKED)
    assert stage.reader.order == ("multicall3", "batch")


async def test_what_does_not_work_is_left_out():
    stage = Stage(batch=9)
    stage.broken = {"deployless"}
    await stage.reader.probe(ASKED)
    assert stage.reader.order == ("multicall3", "batch")
    stage.broken, stage.hanging = set(), {"batch", "multicall3"}
    await stage.reader.probe(ASKED)
    assert stage.reader.order == ("deployless",)


async def test_when_nothing_works_the_order_stays():
    stage = Stage()
    await stage.reader.probe(ASKED)
    before = stage.reader.order
    stage.broken = set(WAYS)
    await stage.reader.probe(ASKED)
    assert stage.reader.order == before
    with pytest.raises(RailUnavailable):
        await stage.read()
    await stage.reader.close()


@pytest.mark.parametrize("how", ["broken", "hanging"])
async def test_a_way_that_begins_to_fail_costs_nobody_their_answers(how):
    stage = Stage(deployless=0.25, multicall3=0.5)
    await stage.reader.probe(ASKED)
    setattr(stage, how, {"deployless"})
    assert await stage.read() == (TRUE, ["deployless", "multicall3"])
    # the next one does not even try
    assert stage.reader.order == ("multicall3", "batch", "deployless")
    # one that hangs is given up after a time
    await until(lambda: "deployless" not in stage.reader.order)
    assert await stage.read() == (TRUE, ["multicall3"])


async def test_a_way_that_fails_for_an_account_that_anybody_named_keeps_its_place():
    stage = Stage(deployless=0.25)
    await stage.reader.probe(ASKED)
    spoilt = stage.ways["deployless"]

    async def spoils(node: object, questions: Sequence[Question]) -> list[Answer]:
        if questions[0].of is not None:
            stage.asked.append("deployless")
            raise RailUnavailable("execution reverted")
        return await spoilt(node, questions)

    stage.ways["deployless"] = spoils
    hostile = [Question(b"\x02" * 20, b"", of=b"\x02" * 20)]
    stage.asked.clear()
    assert await stage.reader.read(hostile) == TRUE
    await stage.passed()
    assert stage.reader.order[0] == "deployless"
    # the sample was asked in the same way, which answered; nothing else is to be found out
    assert stage.asked == ["deployless", "multicall3", "deployless"]
    # what fails for others too does lose its place
    stage.broken = {"deployless"}
    assert await stage.reader.read(hostile) == TRUE
    await stage.passed()
    assert stage.reader.order[0] != "deployless"
    await stage.reader.close()


async def test_a_way_that_works_again_is_taken_again():
    stage = Stage(deployless=0.25)
    await stage.reader.probe(ASKED)
    stage.broken = {"deployless"}
    _, tried = await stage.read()
    assert tried[0] == "deployless"
    stage.broken = set()
    await stage.passed()
    assert stage.reader.order[0] == "deployless"


async def test_a_node_that_fails_often_is_probed_seldom():
    stage = Stage(deployless=0.25)
    stage.reader = stage.reader_of(pause_s=3600)
    await stage.reader.probe(ASKED)
    stage.broken = {"deployless"}
    stage.asked.clear()
    for _ in range(20):
        await stage.reader.read(ASKED)
        await stage.passed()
    assert stage.asked == ["deployless", *["multicall3"] * 20]
    assert stage.reader.order == ("multicall3", "batch", "deployless")
    # it would be probed in an hour
    assert len(asyncio.all_tasks()) == 2
    await stage.reader.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_way_that_the_operator_chose_is_the_only_one():
    stage = Stage()
    stage.reader = stage.reader_of(way="multicall3")
    await stage.reader.probe(ASKED)
    assert await stage.read() == (TRUE, ["multicall3"])
    stage.broken = {"multicall3"}
    with pytest.raises(RailUnavailable):
        await stage.read()
    assert stage.asked == ["multicall3"]


# ---- with a chain


@pytest.fixture
async def lab():
    lab = await open_lab()
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def rail_of(lab, now=time.monotonic, **changes) -> EvmRail:
    chain = settings(**{"assets": (asset(), euro()), "reads": "auto", **changes})
    rail = EvmRail(chain, RELAYER, lab.node, now=now)
    await rail.start()
    return rail


async def test_a_chain_without_multicall_is_read_by_the_others(lab):
    rail = await rail_of(lab)
    assert set(rail.reader.order) == {"deployless", "batch"}
    receipt = await lab.send(data=artifact("TestMulticall").bytecode, gas=2_000_000)
    rail = await rail_of(lab, multicall3=receipt["contractAddress"])
    assert set(rail.reader.order) == {"deployless", "multicall3", "batch"}


async def test_a_contract_that_is_no_multicall_is_not_used(lab):
    rail = await rail_of(lab, multicall3=DEVNET.settler)
    assert set(rail.reader.order) == {"deployless", "batch"}


async def test_options_survive_a_node_that_stops_taking_creations(lab):
    await lab.payable(PAYERS, {TOKEN: PRICE})
    later = [0.0]
    rail = await rail_of(lab, now=lambda: time.monotonic() + later[0])
    rail.reader.order = ("deployless", "batch")
    # it may be probed again
    later[0] += PROBE_PAUSE_S

    def no_creations(params, answer):
        if "to" in params[0]:
            return answer
        return {"id": answer["id"], "error": {"code": -32602, "message": "missing to"}}

    lab.node.changes["eth_call"] = no_creations
    assert len(await rail.offers.payable(PAYERS, {TOKEN: PRICE})) == 2
    await until(lambda: rail.reader.order, ("batch",))
    await rail.close()


async def test_a_node_that_lies_in_one_way_is_read_in_another(lab):
    def lies(params, answer):
        if "to" in params[0] or "result" not in answer:
            return answer
        return answer | {"result": answer["result"].replace("00" * 31 + "06", "00" * 31 + "08")}

    lab.node.changes["eth_call"] = lies
    rail = await rail_of(lab)
    assert rail.reader.order == ("batch",)


async def test_starting_without_assets_probes_nothing_and_the_next_check_does(lab):
    lab.node.changes["eth_chainId"] = lambda _, answer: answer | {"result": "0x1"}
    rail = await rail_of(lab)
    assert not rail.reader.probed
    lab.node.changes.clear()
    assert await rail.problems() == ()
    assert rail.reader.probed


async def test_equal_questions_at_the_same_time_are_asked_once(lab):
    before = lab.rail.rpc.requests
    found = await asyncio.gather(
        *(lab.payable(PAYERS, {TOKEN: PRICE}) for _ in range(5)),
        lab.payable(PAYERS[:1], {TOKEN: PRICE}),
    )
    assert [len(one) for one in found] == [2, 2, 2, 2, 2, 1]
    # each of the two is asked, filled by the faucet, and asked again
    assert lab.rail.rpc.requests - before <= 6


def test_settings_name_a_way():
    assert settings(reads="deployless").reads == "deployless"
    assert settings().multicall3 == MULTICALL3
    with pytest.raises(ValidationError):
        settings(reads="guess")
