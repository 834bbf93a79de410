"""The state of settlement on one chain, as conditions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from florin_server.domain.conditions import ConditionName
from florin_server.domain.health import ChainHealth, ConditionTracker
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.domain.settlement.chain_txs import SettlementItem
from florin_server.money.settlement.store.settlement_items import FAILURES_MAX
from florin_server.money.settlement.worker.context import SettlementContext
from florin_server.money.settlement.worker.gas_spending import count_abandoned
from florin_server.money.settlement.worker.payment_finalizer import AwaitingProof

_CONDITIONS = (
    ConditionName.SETTLEMENT_PAUSED,
    ConditionName.SETTLEMENT_STARTING,
    ConditionName.SETTLEMENT_LEASED_ELSEWHERE,
    ConditionName.SETTLEMENT_FAILING,
    ConditionName.BLOCKS_UNREAD,
    ConditionName.TRANSACTION_STUCK,
    ConditionName.PAYERS_BLOCKED,
    ConditionName.EVENTS_MISSING,
    ConditionName.GAS_BUDGET_EXHAUSTED,
    ConditionName.PAYMENTS_GIVEN_UP,
    ConditionName.PAYMENTS_UNDONE,
    ConditionName.RELAYER_FUNDS_LOW,
    ConditionName.RELAYER_EMPTY,
    ConditionName.DURABLE_NONCES_MISSING,
    ConditionName.PACE_CHANGED,
)


class SettlementHealth:
    """The state that the parts of one settler report."""

    def __init__(self, context: SettlementContext, awaiting_proof: AwaitingProof) -> None:
        self._context = context
        self._awaiting_proof = awaiting_proof
        self._conditions = ConditionTracker(_CONDITIONS, context.app.clock.now_us)

    def get_health(
        self, problems: Mapping[ConditionName, Iterable[str]], turn_count: int
    ) -> ChainHealth:
        """Return the state of settlement after some turns; `problems` is unknown to its parts."""
        unsettled = self._context.open_payments.items
        lost = count_abandoned(unsettled)
        conditions = self._conditions.update(
            {
                ConditionName.SETTLEMENT_PAUSED: [self._describe_pauses()],
                ConditionName.BLOCKS_UNREAD: [self._context.missed_blocks.problem],
                ConditionName.TRANSACTION_STUCK: [
                    queue.problem for queue in self._context.senders.queues
                ],
                ConditionName.PAYERS_BLOCKED: [
                    self._context.blocked_payers.describe_problem(unsettled)
                ],
                ConditionName.EVENTS_MISSING: [self._awaiting_proof.describe_problem(unsettled)],
                ConditionName.GAS_BUDGET_EXHAUSTED: self._context.gas_budgets.describe_exhausted(),
                ConditionName.PAYMENTS_GIVEN_UP: [_describe_abandoned(lost)],
                ConditionName.PAYMENTS_UNDONE: [_describe_undone(unsettled)],
                **problems,
            }
        )
        return ChainHealth(
            self._context.head,
            self._context.senders.open_transactions,
            conditions,
            paused_payments=self._context.gas_budgets.count_paused(unsettled),
            given_up_payments=lost,
            open_payments=len(unsettled),
            remembered_events=sum(
                map(len, self._context.follower.evidence.settlement_events.values())
            ),
            turn_count=turn_count,
        )

    def _describe_pauses(self) -> str:
        if self._context.senders.is_all_paused:
            return "paused by the operator"
        paused = self._context.senders.paused_addresses
        return f"paused by the operator: {', '.join(paused)}" if paused else ""


def _describe_abandoned(count: int) -> str:
    text = f"payments no longer sent because {FAILURES_MAX} transactions failed to pay them"
    return f"{text}: {count}" if count else ""


def _describe_undone(unsettled_items: Collection[SettlementItem]) -> str:
    """Return the text about payments that a reorganization removed, until they are final again."""
    count = sum(item.payment.status is PaymentStatus.SUCCEEDED for item in unsettled_items)
    text = "a reorganization removed payments that had succeeded; Florin settles them again"
    return f"{text}: {count}" if count else ""
