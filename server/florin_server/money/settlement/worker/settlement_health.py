"""The state of settlement on one chain, as conditions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from florin_server.db.context import StorageContext
from florin_server.domain.conditions import ConditionName
from florin_server.domain.health import ChainHealth, ConditionTracker
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.domain.settlement.chain_txs import SettlementItem
from florin_server.money.settlement.store.chain_txs import FAILURES_MAX
from florin_server.money.settlement.worker.blocked_payers import BlockedPayers
from florin_server.money.settlement.worker.blocks import ChainFollower
from florin_server.money.settlement.worker.gas_spending import GasBudgets, count_abandoned
from florin_server.money.settlement.worker.missed_blocks import MissedBlocks
from florin_server.money.settlement.worker.open_payments import OpenPayments
from florin_server.money.settlement.worker.payment_finalizer import PaymentFinalizer
from florin_server.money.settlement.worker.senders import SenderPool

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

    def __init__(  # noqa: PLR0917  (one of each, none alike)
        self,
        app: StorageContext,
        open_payments: OpenPayments,
        senders: SenderPool,
        gas_budgets: GasBudgets,
        blocked_payers: BlockedPayers,
        missed_blocks: MissedBlocks,
        finalizer: PaymentFinalizer,
        follower: ChainFollower,
    ) -> None:
        self._open_payments = open_payments
        self._senders = senders
        self._gas_budgets = gas_budgets
        self._blocked_payers = blocked_payers
        self._missed_blocks = missed_blocks
        self._finalizer = finalizer
        self._follower = follower
        self._conditions = ConditionTracker(_CONDITIONS, app.clock.now_us)

    def get_health(
        self, problems: Mapping[ConditionName, Iterable[str]], turn_count: int
    ) -> ChainHealth:
        """Return the state of settlement after some turns; `problems` is unknown to its parts."""
        unsettled = self._open_payments.items
        lost = count_abandoned(unsettled)
        conditions = self._conditions.update(
            {
                ConditionName.SETTLEMENT_PAUSED: [self._describe_pauses()],
                ConditionName.BLOCKS_UNREAD: [self._missed_blocks.problem],
                ConditionName.TRANSACTION_STUCK: [
                    sender.problem for sender in self._senders.senders
                ],
                ConditionName.PAYERS_BLOCKED: [self._blocked_payers.describe_problem(unsettled)],
                ConditionName.EVENTS_MISSING: [
                    self._finalizer.awaiting_proof.describe_problem(unsettled)
                ],
                ConditionName.GAS_BUDGET_EXHAUSTED: self._gas_budgets.describe_exhausted(),
                ConditionName.PAYMENTS_GIVEN_UP: [_describe_abandoned(lost)],
                ConditionName.PAYMENTS_UNDONE: [_describe_undone(unsettled)],
                **problems,
            }
        )
        return ChainHealth(
            self._follower.head,
            self._senders.open_transactions,
            conditions,
            paused_payments=self._gas_budgets.count_paused(unsettled),
            given_up_payments=lost,
            open_payments=len(unsettled),
            remembered_events=sum(map(len, self._follower.evidence.settlement_events.values())),
            turn_count=turn_count,
        )

    def _describe_pauses(self) -> str:
        if self._senders.is_all_paused:
            return "paused by the operator"
        paused = self._senders.paused_addresses
        return f"paused by the operator: {', '.join(paused)}" if paused else ""


def _describe_abandoned(count: int) -> str:
    text = f"payments no longer sent because {FAILURES_MAX} transactions failed to pay them"
    return f"{text}: {count}" if count else ""


def _describe_undone(unsettled_items: Collection[SettlementItem]) -> str:
    """Return the text about payments that a reorganization removed, until they are final again."""
    count = sum(item.payment.status is PaymentStatus.SUCCEEDED for item in unsettled_items)
    text = "a reorganization removed payments that had succeeded; Florin settles them again"
    return f"{text}: {count}" if count else ""
