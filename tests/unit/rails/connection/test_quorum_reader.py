"""Test disagreement between nodes: reported while it lasts, bounded, and with advice."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from florin_server.rails.connection import witness
from florin_server.rails.connection.witness import AGREEMENT_S, DISAGREEMENT_S, QuorumReader
from florin_server.rails.types import MinedTransaction, RailUnavailable

ADVICE = "all 2 nodes must agree, so a node that is wrong or down stops settlement: add a node"


def fact(number: int) -> MinedTransaction:
    return MinedTransaction(f"0x{number:064x}", number, f"0x{number}", success=True, gas_cost=None)


class Nodes:
    """Endpoints of which two must agree."""

    agreement = 2

    def __init__(self, count: int = 2) -> None:
        self.endpoint_count = count
        self.facts: tuple[frozenset[Any], ...] = ()

    async def ask_quorum(self, _: Any) -> list[witness.Attestation]:
        if not self.facts:
            raise RailUnavailable("1 endpoints answer, but 2 must agree")
        return [witness.Attestation(facts, is_caught_up=True) for facts in self.facts]


class Asked:
    """A quorum reader, and what both nodes return."""

    def __init__(self, count: int = 2) -> None:
        self.now_s = 1000.0
        self.nodes = Nodes(count)
        self.witnesses = QuorumReader(self.nodes, lambda: self.now_s)  # type: ignore[arg-type]

    async def ask(self, expected: Collection[Any], *facts: Collection[Any]) -> dict[Any, bool]:
        self.nodes.facts = tuple(map(frozenset, facts))
        return await self.witnesses.confirm_facts(expected, lambda _: None)  # type: ignore[arg-type]


async def test_difference_ends_as_soon_as_nodes_agree_about_it():
    request, mined_transaction = Asked(), fact(1)
    assert await request.ask([mined_transaction], [mined_transaction], []) == {
        mined_transaction: False
    }
    assert (
        f"nodes differ about {mined_transaction.tx_hash} in block 1"
        in request.witnesses.disagreement
    )
    assert await request.ask([mined_transaction], [mined_transaction], [mined_transaction]) == {
        mined_transaction: True
    }
    assert request.witnesses.disagreement == ""


@pytest.mark.parametrize(("later_s", "ends"), [(AGREEMENT_S - 1, False), (AGREEMENT_S, True)])
async def test_disagreement_ends_a_minute_after_nodes_agree_again(later_s, ends):
    request = Asked()
    await request.ask([fact(1)], [fact(1)], [])
    request.now_s += later_s
    # the report stays while a node is wrong about a fact
    assert await request.ask([fact(2)], [fact(2)], [fact(2)]) == {fact(2): True}
    assert (request.witnesses.disagreement == "") is ends


async def test_lasting_disagreement_is_reported_while_nodes_are_called():
    request = Asked()
    for _ in range(20):
        request.now_s += AGREEMENT_S
        both = [fact(1), fact(2)]
        assert await request.ask(both, both, [fact(2)]) == {fact(1): False, fact(2): True}
        assert "differ about" in request.witnesses.disagreement
    request.now_s += DISAGREEMENT_S
    assert request.witnesses.disagreement == ""


async def test_differences_are_bounded_and_the_newest_is_named():
    request = Asked()
    for number in range(1000):
        await request.ask([fact(number)], [fact(number)], [])
    assert f"{fact(999).tx_hash} in block 999" in request.witnesses.disagreement
    assert len(request.witnesses.disagreement) < 300


@pytest.mark.parametrize(("count", "advised"), [(2, True), (3, False)])
async def test_nodes_of_which_all_have_to_agree_are_too_few(count, advised):
    request = Asked(count)
    await request.ask([fact(1)])
    assert request.witnesses.disagreement.startswith("1 endpoints answer, but 2 must agree")
    assert (ADVICE in request.witnesses.disagreement) is advised
    await request.ask([fact(1)], [fact(1)], [fact(1)])
    assert request.witnesses.disagreement == ""
