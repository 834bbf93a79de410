"""Differences between nodes: reported while they last, bounded, and with what to do."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from florin_server.rails.connection import witness
from florin_server.rails.connection.witness import DISAGREEMENT_S, QUIET_S, Witnesses
from florin_server.rails.types import Mined, RailUnavailable

ADVICE = "all 2 nodes have to agree, so one that is wrong or down stops settlement: name one more"


def fact(number: int) -> Mined:
    return Mined(f"0x{number:064x}", number, f"0x{number}", success=True, gas_cost=None)


class Nodes:
    """Stands in for endpoints: two have to agree, of as many as there are."""

    agreement = 2

    def __init__(self, count: int = 2) -> None:
        self.count = count
        self.facts: tuple[frozenset[Any], ...] = ()

    async def several(self, _: Any) -> list[witness.Testimony]:
        if not self.facts:
            raise RailUnavailable("1 endpoints answer, and 2 have to agree")
        return [witness.Testimony(facts, far_enough=True) for facts in self.facts]


class Asked:
    """Witnesses, and what both nodes say."""

    def __init__(self, count: int = 2) -> None:
        self.now_s = 1000.0
        self.nodes = Nodes(count)
        self.witnesses = Witnesses(self.nodes, lambda: self.now_s)  # type: ignore[arg-type]

    async def ask(self, wanted: Collection[Any], *facts: Collection[Any]) -> dict[Any, bool]:
        self.nodes.facts = tuple(map(frozenset, facts))
        return await self.witnesses.agreed(wanted, lambda _: None)  # type: ignore[arg-type]


async def test_difference_ends_as_soon_as_nodes_agree_about_it():
    asked, one = Asked(), fact(1)
    assert await asked.ask([one], [one], []) == {one: False}
    assert f"nodes differ about {one.tx_hash} in block 1" in asked.witnesses.disagreement
    assert await asked.ask([one], [one], [one]) == {one: True}
    assert asked.witnesses.disagreement == ""


@pytest.mark.parametrize(("later_s", "ends"), [(QUIET_S - 1, False), (QUIET_S, True)])
async def test_difference_ends_a_minute_after_it_where_nodes_agree_about_others(later_s, ends):
    asked = Asked()
    await asked.ask([fact(1)], [fact(1)], [])
    asked.now_s += later_s
    # while a node is wrong about something it stays
    assert await asked.ask([fact(2)], [fact(2)], [fact(2)]) == {fact(2): True}
    assert (asked.witnesses.disagreement == "") is ends


async def test_difference_that_lasts_is_reported_as_long_as_nodes_are_asked():
    asked = Asked()
    for _ in range(20):
        asked.now_s += QUIET_S
        both = [fact(1), fact(2)]
        assert await asked.ask(both, both, [fact(2)]) == {fact(1): False, fact(2): True}
        assert "differ about" in asked.witnesses.disagreement
    asked.now_s += DISAGREEMENT_S
    assert asked.witnesses.disagreement == ""


async def test_differences_are_bounded_and_the_newest_is_named():
    asked = Asked()
    for number in range(1000):
        await asked.ask([fact(number)], [fact(number)], [])
    assert f"{fact(999).tx_hash} in block 999" in asked.witnesses.disagreement
    assert len(asked.witnesses.disagreement) < 300


@pytest.mark.parametrize(("count", "advised"), [(2, True), (3, False)])
async def test_nodes_of_which_all_have_to_agree_are_too_few(count, advised):
    asked = Asked(count)
    await asked.ask([fact(1)])
    assert asked.witnesses.disagreement.startswith("1 endpoints answer, and 2 have to agree")
    assert (ADVICE in asked.witnesses.disagreement) is advised
    await asked.ask([fact(1)], [fact(1)], [fact(1)])
    assert asked.witnesses.disagreement == ""
