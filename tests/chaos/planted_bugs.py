"""Plant known bugs in the service, each of which once existed: a chaos run must find them.

    python -m tests.chaos.planted_bugs [NAME]

Run a short chaos run per bug, with attackers only of the kind that exploits it, and print the
findings. Exit with 1 if one was not found.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from florin_server.accounts.service import own_accounts
from florin_server.db.engine.query import Op, operation
from florin_server.domain.x402.messages import InvalidReason
from florin_server.money.settlement.store import token_accounts
from florin_server.money.settlement.worker import deposit_watch
from florin_server.money.settlement.worker.direct_payments import DirectPayments
from florin_server.money.settlement.worker.gas_spending import GasBudgets
from florin_server.money.settlement.worker.late_payments import LatePayments
from florin_server.money.settlement.worker.stray_returns import StrayReturns
from florin_server.money.x402.worker import FacilitatedTransfers
from florin_server.rails.evm.paying.terms import EvmOptionTerms

from tests.chaos.plan import BuyerBehavior, Way

PAYMENTS, SEED = 24, 1


@dataclass(frozen=True)
class PlantedBug:
    """A planted bug: how to plant it, which attacker uses it, and what the audit reports.

    `address_kinds` are the buyers at addresses, if they use it; `payments` are enough to find it.
    """

    plant: Callable[[], None]
    attacker: BuyerBehavior
    report_pattern: str
    address_kinds: tuple[tuple[Way, BuyerBehavior], ...] = ()
    payments: int = PAYMENTS
    needs_reorgs: bool = False


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


def _with_second_returns() -> None:
    """Book money that went home from addresses twice, as if it came by two transactions."""
    record = StrayReturns._record  # noqa: SLF001  (planted bug)

    async def record_twice(self: StrayReturns, look: Any, stray: Any, reports: Any) -> None:
        await record(self, look, stray, reports)
        again = replace(stray, tx_hash="0x" + stray.tx_hash[:1:-1])
        await record(self, look, again, ())

    StrayReturns._record = record_twice  # noqa: SLF001  (planted bug)


def _with_replaced_deposits() -> None:
    """Count deposits of replaced blocks beside those of the blocks that replaced them."""
    take = deposit_watch.AddressWatch.take
    add = deposit_watch.DepositChanges.add

    def take_more(self: Any, arrived: Any, settled: int) -> None:
        before = self.pending
        take(self, arrived, settled)
        self.pending = {**before, **self.pending}

    def add_only(self: Any, watched: Any, arrived: Any, settled: int) -> None:
        add(self, watched, arrived, settled)
        self.removed.clear()

    deposit_watch.AddressWatch.take = take_more
    deposit_watch.DepositChanges.add = add_only


def _with_forgotten_transfers() -> None:
    """Report transfers of programs as failed although they were made, so that others are signed."""
    end = FacilitatedTransfers._end  # noqa: SLF001  (planted bug)

    async def end_as_failed(self: Any, facilitation: Any, _: Any, **more: Any) -> None:
        reason = InvalidReason.TRANSACTION_FAILED
        await end(self, facilitation, reason, gas_used=more.get("gas_used", 0))

    FacilitatedTransfers._end = end_as_failed  # noqa: SLF001  (planted bug)


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
    "second-returns": PlantedBug(
        _with_second_returns,
        BuyerBehavior.HONEST,
        "money of .* that went home from",
        ((Way.ADDRESS, BuyerBehavior.OVER), (Way.ADDRESS, BuyerBehavior.SHORT)),
        payments=16,
    ),
    "replaced-deposits": PlantedBug(
        _with_replaced_deposits,
        BuyerBehavior.HONEST,
        "stored deposits that are not on the chain|a deposit at .* is not final",
        ((Way.ADDRESS, BuyerBehavior.PARTS), (Way.ADDRESS, BuyerBehavior.SHORT)),
        payments=32,
        needs_reorgs=True,
    ),
    "forgotten-transfers": PlantedBug(
        _with_forgotten_transfers,
        BuyerBehavior.HONEST,
        "a transfer of .* failed: used True",
        ((Way.X402, BuyerBehavior.HONEST), (Way.X402, BuyerBehavior.REPEATS)),
        payments=16,
    ),
}


def is_detected(bug: str, bad: list[str]) -> bool:
    """Return whether a run's audit found the planted bug."""
    return any(re.search(PLANTED_BUGS[bug].report_pattern, text) for text in bad)


def main() -> int:
    from tests.chaos.campaign import SHOWN, Run, campaign

    missed = 0
    for name in sys.argv[1:] or PLANTED_BUGS:
        payments = PLANTED_BUGS[name].payments
        run = Run(Path("build/chaos") / f"bug-{name}", SEED, payments, embedded=False, bug=name)
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
