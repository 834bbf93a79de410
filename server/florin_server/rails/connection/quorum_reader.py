"""Facts that end a payment are read from several endpoints; if these differ, no payment ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Hashable
from dataclasses import dataclass
from typing import TypeVar

from florin_server.rails.connection.endpoints import FailoverRpc
from florin_server.rails.connection.jsonrpc import ChainRpc
from florin_server.rails.types import ConfirmableFact, Fact, RailUnavailable

T = TypeVar("T")

# how long a difference is reported if nodes are not asked about it again
DISAGREEMENT_S = 600.0
# how long it is reported at least if nodes agree about other facts since
AGREEMENT_S = 60.0
# differences that are remembered; they are enough to identify a node with more
_DIFFERENCES_MAX = 16


@dataclass(frozen=True, slots=True)
class Attestation:
    """The requested facts that an endpoint confirms.

    An endpoint that is not `is_caught_up` may confirm the others later.
    """

    facts: frozenset[ConfirmableFact]
    is_caught_up: bool


class QuorumReader:
    """Ask as many endpoints as must agree. `now` returns monotonic seconds."""

    def __init__(self, endpoints: FailoverRpc, now: Callable[[], float]) -> None:
        self._endpoints = endpoints
        self._now = now
        self._unanswered = ""
        # descriptions of what nodes differed about, and when they last did
        self._differences: dict[Hashable, tuple[str, float]] = {}

    @property
    def disagreement(self) -> str:
        """Return why endpoints do not agree; empty if they agree, or agree again by now."""
        since = self._now() - DISAGREEMENT_S
        lasting = [what for what, at in self._differences.values() if at > since]
        differ = f"nodes differ about {lasting[-1]}" if lasting else ""
        report = [text for text in (self._unanswered, differ) if text]
        count, needed = self._endpoints.endpoint_count, self._endpoints.agreement
        if report and count == needed:
            report.append(
                f"all {count} nodes must agree, so a node that is wrong or down stops settlement: "
                "add a node"
            )
        return "; ".join(report)

    async def confirm_facts(
        self, facts: Collection[Fact], ask: Callable[[ChainRpc], Awaitable[Attestation]]
    ) -> dict[Fact, bool]:
        """Return True for facts that all endpoints confirm, False for facts they differ on."""
        if self._endpoints.agreement == 1:
            return dict.fromkeys(facts, True)
        try:
            attestations = await self._endpoints.ask_quorum(ask)
        except RailUnavailable as fault:
            self._unanswered = str(fault)
            return {}
        self._unanswered = ""
        verdicts = {}
        for fact in facts:
            if all(fact in attestation.facts for attestation in attestations):
                verdicts[fact] = True
                self._clear_difference(fact)
            elif all(attestation.is_caught_up for attestation in attestations):
                verdicts[fact] = False
                self._record_difference(fact, f"{fact.tx_hash} in block {fact.block_number}")
        return verdicts

    async def read_agreed(self, ask: Callable[[ChainRpc], Awaitable[T]], subject: str) -> T:
        """Return the equal answer; raise RailUnavailable if answers differ or are too few."""
        if self._endpoints.agreement == 1:
            return await ask(self._endpoints)
        answers = await self._endpoints.ask_quorum(ask)
        if any(answer != answers[0] for answer in answers):
            self._record_difference(subject, subject)
            raise RailUnavailable(f"nodes differ about {subject}")
        self._clear_difference(subject)
        return answers[0]

    async def read_unanimous(self, ask: Callable[[ChainRpc], Awaitable[T | None]]) -> T | None:
        """Return the first endpoint's answer if no endpoint answers None; None otherwise.

        Raise RailUnavailable if too few endpoints answer.
        """
        if self._endpoints.agreement == 1:
            return await ask(self._endpoints)
        answers = await self._endpoints.ask_quorum(ask)
        if any(answer is None for answer in answers):
            return None
        return answers[0]

    def _clear_difference(self, about: Hashable) -> None:
        """Forget a difference that is resolved, and all of them if the last is long ago."""
        self._differences.pop(about, None)
        newest = max((at for _, at in self._differences.values()), default=0.0)
        if self._differences and self._now() - newest >= AGREEMENT_S:
            self._differences.clear()

    def _record_difference(self, about: Hashable, text: str) -> None:
        self._differences.pop(about, None)
        self._differences[about] = text, self._now()
        while len(self._differences) > _DIFFERENCES_MAX:
            del self._differences[next(iter(self._differences))]
