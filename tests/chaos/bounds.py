"""Compute the cost of a run's attackers, and check it against bounds that hold for any attacker.

The cost is counted on the chains: the gas of a settlement that did not pay its payments is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from florin_sandbox.simulation.audit.facts import StoredFacts
from florin_server.money.settlement.store.settlement_items import FAILURES_MAX
from florin_server.rails.evm.sending.fees import (
    WALLET_GAS,
    compute_creation_share,
    compute_payment_share,
    compute_transaction_gas,
)

from tests.chaos.chaos_service import EVM, FAILED_GAS, OPENED, OPTIONS, ChaosEnvironment
from tests.chaos.facts import Chain, Sent
from tests.chaos.payment_run import PaymentRun
from tests.chaos.plan import ATTACKERS, BuyerBehavior
from tests.support.solana import ASSETS

# accounts that have code, or get it
_CODED = {BuyerBehavior.BURNER, BuyerBehavior.TURNCOAT, BuyerBehavior.CREATOR}
# payments of these can be given up
_FAILING = _CODED | {BuyerBehavior.MOVER, BuyerBehavior.BROKE}
_HOUR_S, _DAY_S, _DAY_US = 3600, 86_400, 86_400_000_000
# calldata of a payment that creates its account, rounded up
_BYTES = 3_000
# the most gas of a single payment in its own transaction
PAYMENT_GAS_MAX = compute_transaction_gas(
    compute_payment_share(WALLET_GAS, _BYTES) + compute_creation_share(_BYTES), 2 * _BYTES
)
# the least gas of a payment that moves money
_PAID_LEAST = 60_000
_LATE = "payment {} was paid late, or twice, by "
_HELD = "payment {} was paid( late)? by .*, and its payer is blocked by screening list"
_STRAY = "payment {}: {} holds "
_GIVEN_UP = "payment {} is no longer sent: 3 transactions failed to pay it"
_EXHAUSTED = (
    ("FAILED", "the hour's budget for failed gas is exhausted", FAILED_GAS.chain),
    ("OPENED", "the hour's budget for creating accounts is exhausted", FAILED_GAS.opened_chain),
)
_BUDGETS = (
    *(text for _, text, _ in _EXHAUSTED),
    "the hour's budget of .* for (failed gas|creating accounts) is exhausted",
    "payers whose payments are paused until .* because too many failed",
)
_USED = f"""
    SELECT at_us / 3600000000, CAST(sum(gas) AS BIGINT) FROM failed_gas
    WHERE chain_id = '{EVM}' AND upper(kind) = '{{}}' GROUP BY 1
"""


class Bounds:
    """The checks of one run's costs, which `bill` has; `problems` lists what exceeds a bound."""

    def __init__(
        self,
        environment: ChaosEnvironment,
        facts: StoredFacts,
        payment_runs: Sequence[PaymentRun],
        now_us: int,
    ) -> None:
        self.problems: list[str] = []
        self.bill: dict[str, Any] = {}
        self._environment = environment
        self._facts = facts
        self._payment_runs = {
            payment_run.payment_id: payment_run
            for payment_run in payment_runs
            if payment_run.payment_id
        }
        self._now_us = now_us
        self._began_s = 0

    def check(self, chain: Chain, opened: Mapping[str, int]) -> None:
        """Compare costs with bounds; `opened` are the token accounts that the relayer opened."""
        self._began_s = chain.began
        self._check_gas(chain)
        self._check_rent(opened)
        self._check_memory(chain)
        self._check_late_attackers()

    def _check_at_most(self, label: str, value: int, limit: int) -> None:
        if value > limit:
            self.problems.append(f"{label}: {value}, and {limit} at most")

    # ---- gas

    def _check_gas(self, chain: Chain) -> None:
        lost: Counter[BuyerBehavior] = Counter()
        payers: Counter[str] = Counter()
        failures: Counter[str] = Counter()
        full_total = paid = 0
        for sent in chain.settlements:
            failed = {ref: most for ref, most in sent.items.items() if ref not in sent.paid}
            full_total += sent.gas
            paid += len(sent.paid)
            for ref, gas in _compute_lost_gas(sent, failed).items():
                offered = self._facts.offered_payments[ref]
                lost[self._payment_runs[offered.id].order.behavior] += gas
                payers[offered.payer] += gas
                failures[offered.id] += sent.worked or len(sent.items) == 1
        hours = self._now_us // (_HOUR_S * 1_000_000) - chain.began // _HOUR_S + 1
        share = PAYMENT_GAS_MAX * len(self._environment.relayers())
        by_code = sum(gas for behavior, gas in lost.items() if behavior in _CODED)
        self._check_at_most(
            "gas lost to accounts with code", by_code, hours * (FAILED_GAS.chain + share)
        )
        for payer, gas in payers.items():
            self._check_at_most(f"gas lost to {payer}", gas, hours * (FAILED_GAS.payer + share))
        for payment_id, count in failures.items():
            self._check_at_most(f"transactions that did not pay {payment_id}", count, FAILURES_MAX)
        total = sum(lost.values())
        self.bill |= {
            "paid": paid,
            "failed": len(failures),
            "gas_a_paid_payment": (full_total - total) // max(1, paid),
            "gas_a_failed_payment": total // max(1, len(failures)),
            "lost": dict(lost),
            "lost_to_code": by_code,
            "bound": hours * (FAILED_GAS.chain + share),
            "failures": max(failures.values(), default=0),
            "copied": chain.copied_count,
        }

    # ---- rent

    def _check_rent(self, opened: Mapping[str, int]) -> None:
        for place, count in opened.items():
            self._check_at_most(f"times that {place} was opened", count, 1)
        days = self._now_us // _DAY_US - self._began_s // _DAY_S + 1
        # the treasury's accounts are additional
        most = days * OPENED["accounts_a_day"] + len(ASSETS)
        self._check_at_most("token accounts that were opened", len(opened), most)
        query = "SELECT day, merchant_id, count(*) FROM opened_account GROUP BY 1, 2"
        for day, merchant_id, count in self._environment.select(query):
            if merchant_id is not None:
                most = OPENED["accounts_a_merchant_day"]
                self._check_at_most(f"accounts for {merchant_id} on day {day}", count, most)
        self.bill["accounts_opened"] = sum(opened.values())

    # ---- memory

    def _check_memory(self, chain: Chain) -> None:
        query = "SELECT payment_id, count(*) FROM payment_option GROUP BY 1"
        counts = dict(self._environment.select(query))
        for payment_id, count in counts.items():
            self._check_at_most(f"options of {payment_id}", count, OPTIONS["options_per_payment"])
        self.bill["options"] = max(counts.values(), default=0)
        # unrelated events are not remembered
        own = sum(len(events) for events in chain.payment_events.values())
        self.bill["remembered"] = self._environment.read_facts("memory")
        self._check_at_most("settlement events that are remembered", self.bill["remembered"], own)

    # ---- alarms

    def list_alarms(self) -> dict[str, list[str]]:
        """Return which alarms attackers may cause, and which they must cause."""
        late = [
            _LATE.format(payment_id)
            for payment_id in sorted({refund.payment_id for refund in self._facts.returned_payouts})
            if payment_id not in self._facts.held_states
        ] + [_HELD.format(payment_id) for payment_id in self._facts.held_states]
        strays = [
            _STRAY.format(stray.payment_id, stray.id)
            for stray in self._facts.strays
            if not stray.why.startswith(("not worth", "not part"))
        ]
        failing = [
            payment_run.payment_id
            for payment_run in self._payment_runs.values()
            if payment_run.order.behavior in _FAILING
        ]
        given_up = [
            _GIVEN_UP.format(payment_id)
            for (payment_id,) in self._environment.select(
                f"SELECT payment_id FROM confirm WHERE failures >= {FAILURES_MAX}"
            )
        ]
        exhausted = [
            text
            for kind, text, most in _EXHAUSTED
            for _, gas in self._environment.select(_USED.format(kind))
            if gas >= most
        ]
        return {
            "may": [*late, *strays, *map(_GIVEN_UP.format, failing), *_BUDGETS],
            "must": [*late, *strays, *given_up, *sorted(set(exhausted))],
        }

    def _check_late_attackers(self) -> None:
        """Check that only attackers' money comes late or twice.

        Money of blocked payers must be held.
        """
        for payment_id, state in self._facts.held_states.items():
            behavior = self._payment_runs[payment_id].order.behavior
            if behavior is not BuyerBehavior.BLOCKED or state == "held":
                self.problems.append(f"{payment_id}, {behavior}, is {state}")
        for refund in self._facts.returned_payouts:
            behavior = self._payment_runs[refund.payment_id].order.behavior
            if behavior not in ATTACKERS:
                self.problems.append(f"{refund.payment_id}, {behavior}, was paid late, or twice")


def _compute_lost_gas(sent: Sent, failed: Mapping[str, int]) -> dict[str, int]:
    """Return the gas each unpaid item can have used, but no more than all of them used."""
    if not failed:
        return {}
    left = sent.gas - _PAID_LEAST * len(sent.paid)
    return {
        ref: min(most, left) if sent.paid else left // len(failed) for ref, most in failed.items()
    }
