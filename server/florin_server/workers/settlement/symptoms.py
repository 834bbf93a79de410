"""How settling on one chain is doing, as conditions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from florin_server.domain.conditions import ConditionName
from florin_server.domain.health import Board, Health
from florin_server.domain.payments.payment import Status
from florin_server.domain.settlement.chain_txs import Accepted
from florin_server.flows.app import Core
from florin_server.store.settlement.chain_txs import FAILURES_MAX
from florin_server.workers.settlement.blocked_payers import BlockedPayers
from florin_server.workers.settlement.blocks import Follower
from florin_server.workers.settlement.conclude import Concluder
from florin_server.workers.settlement.gas_spending import Spending, given_up
from florin_server.workers.settlement.missed_blocks import MissedBlocks
from florin_server.workers.settlement.open_payments import OpenPayments
from florin_server.workers.settlement.senders import Senders

_NAMES = (
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


class Symptoms:
    """What the parts of one settler say of themselves."""

    def __init__(  # noqa: PLR0917  (one of each, none alike)
        self,
        app: Core,
        open_payments: OpenPayments,
        senders: Senders,
        spending: Spending,
        blocked: BlockedPayers,
        missed: MissedBlocks,
        concluder: Concluder,
        blocks: Follower,
    ) -> None:
        self._open = open_payments
        self._senders = senders
        self._spending = spending
        self._blocked = blocked
        self._missed = missed
        self._concluder = concluder
        self._blocks = blocks
        self._board = Board(_NAMES, app.clock.now_us)

    def health(self, found: Mapping[ConditionName, Iterable[str]], turns: int) -> Health:
        """How settling looks after some turns; `found` is what its parts do not know."""
        unsettled = self._open.items
        lost = given_up(unsettled)
        conditions = self._board.look(
            {
                ConditionName.SETTLEMENT_PAUSED: [self._pauses()],
                ConditionName.BLOCKS_UNREAD: [self._missed.problem],
                ConditionName.TRANSACTION_STUCK: [one.problem for one in self._senders.all],
                ConditionName.PAYERS_BLOCKED: [self._blocked.problem(unsettled)],
                ConditionName.EVENTS_MISSING: [self._concluder.unproven.problem(unsettled)],
                ConditionName.GAS_BUDGET_EXHAUSTED: self._spending.exhausted(),
                ConditionName.PAYMENTS_GIVEN_UP: [_given_up(lost)],
                ConditionName.PAYMENTS_UNDONE: [_undone(unsettled)],
                **found,
            }
        )
        return Health(
            self._blocks.head,
            self._senders.open_transactions,
            conditions,
            paused=self._spending.paused(unsettled),
            given_up=lost,
            open_payments=len(unsettled),
            remembered_events=sum(map(len, self._blocks.evidence.paid.values())),
            turns=turns,
        )

    def _pauses(self) -> str:
        if self._senders.all_paused:
            return "paused by the operator"
        paused = self._senders.paused
        return f"paused by the operator: {', '.join(paused)}" if paused else ""


def _given_up(count: int) -> str:
    text = f"payments not sent any more because {FAILURES_MAX} transactions did not pay them"
    return f"{text}: {count}" if count else ""


def _undone(unsettled: Collection[Accepted]) -> str:
    """What a reorganisation took back, until it is final again."""
    count = sum(item.payment.status is Status.SUCCEEDED for item in unsettled)
    text = "a reorganisation undid payments that had succeeded; they are settled again"
    return f"{text}: {count}" if count else ""
