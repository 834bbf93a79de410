"""What ends a payment is asked of several endpoints; where they differ, nothing ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from florin_server.rails.connection.endpoints import Endpoints
from florin_server.rails.connection.jsonrpc import Rpc
from florin_server.rails.types import Fact, RailUnavailable

T = TypeVar("T")

DISAGREEMENT_S = 600.0  # how long a difference is told, so that an operator sees it


@dataclass(frozen=True, slots=True)
class Testimony:
    """Which of the facts that it was asked for an endpoint tells.

    One that is not `far_enough` may tell the others later.
    """

    facts: frozenset[Fact]
    far_enough: bool


class Witnesses:
    """Asks as many endpoints as have to agree. `now` tells monotonic seconds."""

    def __init__(self, endpoints: Endpoints, now: Callable[[], float]) -> None:
        self._endpoints = endpoints
        self._now = now
        self._unheard = ""
        self._differ = ""
        self._differed_at = 0.0

    @property
    def disagreement(self) -> str:
        """Why they do not agree; empty if they do, and did for a while."""
        differ = self._differ if self._now() - self._differed_at < DISAGREEMENT_S else ""
        return "; ".join(text for text in (self._unheard, differ) if text)

    async def agreed(
        self, facts: Collection[Fact], ask: Callable[[Rpc], Awaitable[Testimony]]
    ) -> dict[Fact, bool]:
        """True for facts that all of them tell, False for those that they differ about."""
        if self._endpoints.agreement == 1:
            return dict.fromkeys(facts, True)
        try:
            told = await self._endpoints.several(ask)
        except RailUnavailable as fault:
            self._unheard = str(fault)
            return {}
        self._unheard = ""
        verdicts = {}
        for fact in facts:
            if all(fact in one.facts for one in told):
                verdicts[fact] = True
            elif all(one.far_enough for one in told):
                verdicts[fact] = False
                self._tell(f"{fact.tx_hash} in block {fact.block_number}")
        return verdicts

    async def same(self, ask: Callable[[Rpc], Awaitable[T]], what: str) -> T:
        """What all of them answer; RailUnavailable if they differ, or too few of them answer."""
        if self._endpoints.agreement == 1:
            return await ask(self._endpoints)
        answers = await self._endpoints.several(ask)
        if any(one != answers[0] for one in answers):
            self._tell(what)
            raise RailUnavailable(f"nodes differ about {what}")
        return answers[0]

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

    def _tell(self, what: str) -> None:
        self._differed_at = self._now()
        self._differ = f"nodes differ about {what}"
