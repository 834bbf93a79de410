"""Plant known bugs in the service, each of which once existed: a chaos run must find them.

    python -m tests.chaos.planted_bugs [NAME]

Run a short chaos run per bug, with attackers only of the kind that exploits it, and print the
findings. Exit with 1 if one was not found.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from florin_server.accounts.service import own_accounts
from florin_server.db.engine.query import Op, operation
from florin_server.money.settlement.store import token_accounts
from florin_server.money.settlement.worker.direct_payments import DirectPayments
from florin_server.money.settlement.worker.gas_spending import GasBudgets
from florin_server.money.settlement.worker.late_payments import LatePayments
from florin_server.rails.evm.paying.terms import EvmOptionTerms

from tests.chaos.plan import BuyerBehavior

PAYMENTS, SEED = 24, 1


@dataclass(frozen=True)
class PlantedBug:
    """A planted bug: how to plant it, which attacker uses it, and what the audit reports."""

    plant: Callable[[], None]
    attacker: BuyerBehavior
    report_pattern: str


def _without_budgets() -> None:
    """Count no failures, so that failing payments are sent again and again."""

    async def nothing(*_: Any) -> tuple[()]:
        return ()

    GasBudgets._list_gas_spending = nothing  # noqa: SLF001  (planted bug)


def _without_nonces() -> None:
    """Accept any transfer of the offered amounts as proof, at any time and in any way."""
    EvmOptionTerms.is_proven_by = EvmOptionTerms._is_moved_by  # noqa: SLF001  (planted bug)
    EvmOptionTerms.is_resembled_by = lambda *_: False


def _without_returns() -> None:
    """Keep late and duplicate payments."""
    LatePayments.add = lambda *_, **__: None


def _without_claims() -> None:
    """Forget which token accounts were opened."""

    @operation
    def claim(*_: Any) -> Op[None]:
        yield from ()

    @operation
    def openable(openings: Any, *_: Any) -> Op[Any]:
        yield from ()
        return frozenset(opening.place for opening in openings)

    token_accounts.claim = claim
    token_accounts.filter_openable = openable


def _without_references() -> None:
    """Bind a direct payment only after the wallet's confirm."""

    async def leave(*_: Any) -> None:
        return

    DirectPayments._bind = leave  # noqa: SLF001  (planted bug)


def _without_forgetting() -> None:
    """Remember unrelated settlement events too."""
    inner = DirectPayments.take_events

    async def take(self: Any, events: Any, accepted: Any) -> None:
        for event in events:
            self._evidence.add_event(event)
        await inner(self, events, accepted)

    DirectPayments.take_events = take


def _without_own_accounts() -> None:
    """Allow Florin's own accounts as a merchant's destination."""
    own_accounts.find_reserved_role = lambda *_: None


PLANTED_BUGS = {
    "budgets": PlantedBug(
        _without_budgets, BuyerBehavior.BURNER, "transactions that did not pay|gas lost to"
    ),
    "nonces": PlantedBug(
        _without_nonces, BuyerBehavior.LATE, "events that prove|after its quote expired"
    ),
    "returns": PlantedBug(
        _without_returns, BuyerBehavior.DOUBLE, "unmatched money that was not returned"
    ),
    "claims": PlantedBug(_without_claims, BuyerBehavior.CLOSER, "times that .* was opened"),
    "destinations": PlantedBug(
        _without_own_accounts, BuyerBehavior.CLOSER, "a merchant is paid at"
    ),
    "memory": PlantedBug(
        _without_forgetting, BuyerBehavior.INTRUDER, "settlement events that are remembered"
    ),
    "references": PlantedBug(
        _without_references, BuyerBehavior.UNFETCHED, "no reason not to be paid"
    ),
}


def is_detected(bug: str, bad: list[str]) -> bool:
    """Return whether a run's audit found the planted bug."""
    return any(re.search(PLANTED_BUGS[bug].report_pattern, text) for text in bad)


def main() -> int:
    from tests.chaos.campaign import SHOWN, Run, campaign

    missed = 0
    for name in sys.argv[1:] or PLANTED_BUGS:
        run = Run(Path("build/chaos") / f"bug-{name}", SEED, PAYMENTS, embedded=False, bug=name)
        bad = campaign([run])[run.name]["bad"]
        missed += not is_detected(name, bad)
        print(
            name,
            "was found" if is_detected(name, bad) else f"was MISSED: {bad[:SHOWN]}",
            flush=True,
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
