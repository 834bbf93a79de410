"""Holes that are planted in the service, each one that was there once: a storm has to find them.

    python -m tests.chaos.holes [NAME]

Runs a short storm for each, in which all attackers are of the kind that it lets through, and tells
what the judge said. Ends with 1 if one was not found.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from florin_server.flows.accounts import own_accounts
from florin_server.rails.evm.paying.terms import Terms
from florin_server.store.engine.query import Op, operation
from florin_server.store.settlement import token_accounts
from florin_server.workers.settlement.direct_payments import DirectPayments
from florin_server.workers.settlement.gas_spending import Spending
from florin_server.workers.settlement.late_payments import LateMoney

from tests.chaos.plan import Mood

PAYMENTS, SEED = 24, 1


@dataclass(frozen=True)
class Hole:
    """What makes it, who uses it, and what the judge says of it."""

    plant: Callable[[], None]
    foe: Mood
    found: str


def _without_budgets() -> None:
    """Nothing that fails is counted: it is sent again and again."""

    async def nothing(*_: Any) -> tuple[()]:
        return ()

    Spending._spent = nothing  # noqa: SLF001  (a hole is inside)


def _without_nonces() -> None:
    """What moves the money as it was offered proves it, whenever it came and by what way."""
    Terms.proven_by = Terms._moved_by  # noqa: SLF001  (a hole is inside)
    Terms.resembled_by = lambda *_: False


def _without_returns() -> None:
    """What comes late, or twice, is kept."""
    LateMoney.add = lambda *_, **__: None


def _without_claims() -> None:
    """Nobody remembers which token accounts were opened."""

    @operation
    def claim(*_: Any) -> Op[None]:
        yield from ()

    @operation
    def openable(openings: Any, *_: Any) -> Op[Any]:
        yield from ()
        return frozenset(one.place for one in openings)

    token_accounts.claim = claim
    token_accounts.openable = openable


def _without_references() -> None:
    """What a wallet sends pays only once the wallet has said so."""

    async def leave(*_: Any) -> None:
        return

    DirectPayments._bind = leave  # noqa: SLF001  (a hole is inside)


def _without_forgetting() -> None:
    """Settlement events of others are remembered too."""
    inner = DirectPayments.take

    async def take(self: Any, events: Any, accepted: Any) -> None:
        for event in events:
            self._evidence.add_paid(event)
        await inner(self, events, accepted)

    DirectPayments.take = take


def _without_own_accounts() -> None:
    """A merchant may be paid at an account of ours."""
    own_accounts.reserved = lambda *_: None


HOLES = {
    "budgets": Hole(_without_budgets, Mood.BURNER, "transactions that did not pay|gas lost to"),
    "nonces": Hole(_without_nonces, Mood.LATE, "events that prove|its price was over"),
    "returns": Hole(_without_returns, Mood.DOUBLE, "came for nothing and did not go back"),
    "claims": Hole(_without_claims, Mood.CLOSER, "times that .* was opened"),
    "destinations": Hole(_without_own_accounts, Mood.CLOSER, "a merchant is paid at"),
    "memory": Hole(_without_forgetting, Mood.MEDDLER, "settlement events that are remembered"),
    "references": Hole(_without_references, Mood.UNFETCHED, "no reason not to be paid"),
}


def found(hole: str, bad: list[str]) -> bool:
    """True if the judge of a run found what was planted."""
    return any(re.search(HOLES[hole].found, one) for one in bad)


def main() -> int:
    from tests.chaos.campaign import SHOWN, Run, campaign

    missed = 0
    for name in sys.argv[1:] or HOLES:
        run = Run(Path("build/chaos") / f"hole-{name}", SEED, PAYMENTS, embedded=False, hole=name)
        bad = campaign([run])[run.name]["bad"]
        missed += not found(name, bad)
        print(name, "was found" if found(name, bad) else f"was MISSED: {bad[:SHOWN]}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
