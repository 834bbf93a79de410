"""What ends a payment is asked of several endpoints; where they differ, nothing ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Hashable
from dataclasses import dataclass
from typing import TypeVar

from florin_server.rails.connection.endpoints import Endpoints
from florin_server.rails.connection.jsonrpc import Rpc
from florin_server.rails.types import Fact, RailUnavailable

T = TypeVar("T")

# how long a difference is reported that nodes are not asked about again
DISAGREEMENT_S = 600.0
# and how long at least where they agree about other things since
QUIET_S = 60.0
# differences that are remembered; a node that is wrong about more is named by these
_DIFFERENCES_MAX = 16


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
        # what nodes differed about, in words, and when they did last
        self._differences: dict[Hashable, tuple[str, float]] = {}

    @property
    def disagreement(self) -> str:
        """Why they do not agree; empty if they do, or agree by now about what they differed."""
        since = self._now() - DISAGREEMENT_S
        lasting = [what for what, at in self._differences.values() if at > since]
        differ = f"nodes differ about {lasting[-1]}" if lasting else ""
        told = [text for text in (self._unheard, differ) if text]
        count, needed = self._endpoints.count, self._endpoints.agreement
        if told and count == needed:
            told.append(
                f"all {count} nodes have to agree, so one that is wrong or down stops settlement: "
                "name one more"
            )
        return "; ".join(told)

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
                self._agree(fact)
            elif all(one.far_enough for one in told):
                verdicts[fact] = False
                self._note(fact, f"{fact.tx_hash} in block {fact.block_number}")
        return verdicts

    async def same(self, ask: Callable[[Rpc], Awaitable[T]], what: str) -> T:
        """What all of them answer; RailUnavailable if they differ, or too few of them answer."""
        if self._endpoints.agreement == 1:
            return await ask(self._endpoints)
        answers = await self._endpoints.several(ask)
        if any(one != answers[0] for one in answers):
            self._note(what, what)
            raise RailUnavailable(f"nodes differ about {what}")
        self._agree(what)
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

    def _agree(self, about: Hashable) -> None:
        """Forget a difference that is over, and all if the last one is a while ago."""
        self._differences.pop(about, None)
        newest = max((at for _, at in self._differences.values()), default=0.0)
        if self._differences and self._now() - newest >= QUIET_S:
            self._differences.clear()

    def _note(self, about: Hashable, text: str) -> None:
        self._differences.pop(about, None)
        self._differences[about] = text, self._now()
        while len(self._differences) > _DIFFERENCES_MAX:
            del self._differences[next(iter(self._differences))]
