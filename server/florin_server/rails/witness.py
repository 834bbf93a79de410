"""What ends a payment is asked of several endpoints; where they differ, nothing ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from florin_server.rails.base import Fact, RailUnavailable
from florin_server.rails.endpoints import Endpoints
from florin_server.rails.jsonrpc import Rpc

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Testimony:
    """Which of the facts that it was asked for an endpoint tells.

    One that is not `far_enough` may tell the others later.
    """

    facts: frozenset[Fact]
    far_enough: bool


class Witnesses:
    """Asks as many endpoints as have to agree. `doubt` tells why they do not."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self.doubt = ""

    async def agreed(
        self, facts: Collection[Fact], ask: Callable[[Rpc], Awaitable[Testimony]]
    ) -> frozenset[Fact]:
        """The facts that all of them tell; without a need to agree, all facts."""
        wanted = frozenset(facts)
        if self._endpoints.agreement == 1:
            return wanted
        try:
            told = await self._endpoints.several(ask)
        except RailUnavailable as fault:
            self.doubt = str(fault)
            return frozenset()
        agreed = wanted.intersection(*(one.facts for one in told))
        self.doubt = ""
        if agreed != wanted and all(one.far_enough for one in told):
            (first, *_) = sorted(wanted - agreed, key=lambda one: one.block_number)
            self.doubt = f"nodes differ about {first.tx_hash} in block {first.block_number}"
        return agreed

    async def unanimous(self, ask: Callable[[Rpc], Awaitable[T | None]]) -> T | None:
        """What the first of them answers if none answers None.

        RailUnavailable if too few of them answer.
        """
        if self._endpoints.agreement == 1:
            return await ask(self._endpoints)
        answers = await self._endpoints.several(ask)
        if any(one is None for one in answers):
            return None
        return answers[0]
