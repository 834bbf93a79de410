"""Budgets of settlement on one chain: possible costs, actual costs, and the time of retries.

A payment by an account with code is sent only if all open transactions fit into the budgets, even
if each of them fails; so a budget is never overdrawn by more than the gas of one payment.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from florin_server.base.context import MeterContext
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, Operation, operation
from florin_server.domain.payments.payment import Payment
from florin_server.domain.settlement.chain_txs import (
    ChainTx,
    GasShare,
    GasSpending,
    GasSpendingKind,
    PayerKind,
    PaymentOutcome,
    SettlementItem,
)
from florin_server.money.context import UsageContext
from florin_server.money.settlement import service as gas_budgets
from florin_server.money.settlement.service import GasBudgetKind, HourlyGasBudgets
from florin_server.money.settlement.store import (
    gas,
    payment_outcomes,
    settlement_items,
    token_accounts,
)
from florin_server.money.settlement.store.gas import GasUsage
from florin_server.money.settlement.store.settlement_items import FAILURES_MAX
from florin_server.money.settlement.worker.ended_transactions import EndedTransaction
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail
from florin_server.rails.types import MinedTransaction
from florin_server.settings.context import SettingsContext


class _Context(ChainContext, MeterContext, SettingsContext, StorageContext, UsageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

# a payment whose transaction was never mined, or failed together with others
_RETRY_S = 5
# After the first transaction that did not pay its payment, the money may be on its way; after the
# second, a minute lets other payments go first. A fourth is never sent.
_FAILED_PAUSES_S = (10, 60)
# payments that wait for a budget are checked this often, in case an operator raised it
_BUDGET_PAUSE_S = 60


@dataclass(slots=True)
class _BudgetUsage:
    """The usage of a budget, and the possible usage of all open transactions."""

    limit: int
    spent_gas: int
    reserved_gas: int = 0

    @property
    def is_empty(self) -> bool:
        return self.spent_gas >= self.limit

    def has_room(self, amount: int) -> bool:
        """Return True if the amount fits in; one payment always may go."""
        return not self.reserved_gas or self.spent_gas + self.reserved_gas + amount <= self.limit


_BudgetUsages: TypeAlias = dict[tuple[str, ...], _BudgetUsage]


@dataclass(frozen=True, slots=True)
class PaymentRetry:
    """A payment at present whose transaction ended without it; it is due at a time.

    `is_split` means that it was one of several whose transaction failed as a whole.
    """

    item: SettlementItem
    at_us: int
    is_split: bool


class GasBudgets:
    """The budgets of one chain as its settler keeps to them."""

    def __init__(self, app: _Context, rail: Rail) -> None:
        self._app = app
        self._rail = rail
        self._paused_ids: set[str] = set()
        self._usage: GasUsage | None = None
        self._reported: set[tuple[int, GasBudgetKind, tuple[str, ...]]] = set()  # with the hour

    # ---- before sending

    async def select_affordable(
        self, items: Sequence[SettlementItem], pending: Iterable[tuple[SettlementItem, GasShare]]
    ) -> list[SettlementItem]:
        """Return the items that can be sent now; the others wait.

        `pending` are those in open transactions.
        """
        gas_usage = await self._read_usage()
        plain = all(each_item.payer_kind in {None, PayerKind.KEY} for each_item in items)
        if plain and not gas_usage.total_failed_gas and not self._hourly_budgets.covers_keys:
            self._paused_ids.difference_update(each_item.payment.id for each_item in items)
            return list(items)
        payers = {each_item.option.payer for each_item in items}
        lost_gas = await self._app.store.read(
            gas.sum_by_payer(self._rail.chain_id, gas_usage.since_us, payers)
        )
        budget_usages: _BudgetUsages = {}
        for item, share in pending:
            for budget_usage in self._list_budgets(budget_usages, item, share, gas_usage, lost_gas):
                budget_usage.reserved_gas += share.gas
        affordable_items: list[SettlementItem] = []
        over_budget_items: list[SettlementItem] = []
        crowded_items: list[SettlementItem] = []
        for item in items:
            share = self._get_share(item)
            item_budgets = self._list_budgets(budget_usages, item, share, gas_usage, lost_gas)
            if self._is_stopped(item, lost_gas) or any(
                budget_usage.is_empty for budget_usage in item_budgets
            ):
                over_budget_items.append(item)
            elif all(budget_usage.has_room(share.gas) for budget_usage in item_budgets):
                affordable_items.append(item)
                for budget_usage in item_budgets:
                    budget_usage.reserved_gas += share.gas
            else:
                crowded_items.append(item)
        await self._defer(over_budget_items, crowded_items)
        self._paused_ids.difference_update(
            each_item.payment.id for each_item in (*affordable_items, *crowded_items)
        )
        self._paused_ids.update(each_item.payment.id for each_item in over_budget_items)
        return affordable_items

    @property
    def _hourly_budgets(self) -> HourlyGasBudgets:
        return gas_budgets.get_budgets(self._app, self._rail.chain_id)

    def _get_share(self, item: SettlementItem) -> GasShare:
        return self._rail.relay.get_gas_share(item)

    def _is_stopped(self, item: SettlementItem, lost_gas: Mapping[str, int]) -> bool:
        """Return True if its payer lost too much, for any kind of payer."""
        return lost_gas.get(item.option.payer, 0) >= self._hourly_budgets.payer

    def _list_budgets(
        self,
        budget_usages: _BudgetUsages,
        item: SettlementItem,
        share: GasShare,
        gas_usage: GasUsage,
        lost_gas: Mapping[str, int],
    ) -> list[_BudgetUsage]:
        """Return the budgets that a payment draws on in advance.

        Plain keys draw on none where their evasions cost them more than us.
        """
        most, payer, app = self._hourly_budgets, item.option.payer, item.app
        if share.kind is PayerKind.KEY and not most.covers_keys:
            return []
        usage_values = {
            ("payer", payer): (most.payer, lost_gas.get(payer, 0)),
            ("app", app): (most.app, gas_usage.failed_gas_by_app.get(app, 0)),
            ("chain",): (most.chain, gas_usage.total_failed_gas),
        }
        if share.kind is PayerKind.UNBORN:
            usage_values["opened", app] = (
                most.opening_app,
                gas_usage.opening_gas_by_app.get(app, 0),
            )
            usage_values["opened",] = (most.opening_chain, gas_usage.total_opening_gas)
        return [
            budget_usages.setdefault(key, _BudgetUsage(*value))
            for key, value in usage_values.items()
        ]

    async def _defer(
        self, over_budget_items: Sequence[SettlementItem], crowded_items: Sequence[SettlementItem]
    ) -> None:
        now_us = self._app.clock.now_us()
        for items, pause_s in ((over_budget_items, _BUDGET_PAUSE_S), (crowded_items, _RETRY_S)):
            if items:
                due_us = now_us + pause_s * 1_000_000
                await self._app.store.write(
                    settlement_items.release([item.payment.id for item in items], due_us)
                )

    # ---- after it is final

    async def add_gas_spending(
        self,
        ended_txs: Sequence[EndedTransaction],
        items: Mapping[str, SettlementItem],
        is_paid_by: Callable[[SettlementItem, ChainTx], bool],
    ) -> list[EndedTransaction]:
        """Return the ended transactions with their spending; `items` are unsettled payments, by id.

        `is_paid_by` says whether a transaction paid a payment.
        """
        return [
            replace(
                ended_tx,
                outcome=replace(
                    ended_tx.outcome,
                    gas_spending=await self._list_gas_spending(ended_tx, items, is_paid_by),
                ),
            )
            for ended_tx in ended_txs
        ]

    async def _list_gas_spending(
        self,
        ended_tx: EndedTransaction,
        items: Mapping[str, SettlementItem],
        is_paid_by: Callable[[SettlementItem, ChainTx], bool],
    ) -> tuple[GasSpending, ...]:
        tx, mined = ended_tx.tx, ended_tx.mined
        if mined is None or not tx.item_ids:
            return ()
        if is_reverted_batch(ended_tx):
            # no item can cause that: each has gas of its own, so no payer is charged
            used, cost = _get_gas_used(tx, mined), mined.gas_cost or 0
            return (GasSpending("", "", "", GasSpendingKind.FAILED, used, cost),)
        ended_ids = [item_id for item_id in tx.item_ids if item_id not in items]
        paid_otherwise = (
            await self._app.store.read(gas.list_paid_otherwise(ended_ids, tx.hashes))
            if ended_ids
            else []
        )
        failed = {payment_id: (payer, app) for payment_id, payer, app in paid_otherwise}
        opened: dict[str, tuple[str, str]] = {}
        shares = dict(zip(tx.item_ids, tx.gas_shares, strict=False))
        for payment_id in tx.item_ids:
            if (item := items.get(payment_id)) is None:
                continue
            if not is_paid_by(item, tx):
                if await self._is_misjudged(item, tx, shares.get(payment_id)):
                    continue
                failed[payment_id] = item.option.payer, item.app
            elif payment_id in shares and shares[payment_id].kind is PayerKind.UNBORN:
                opened[payment_id] = item.option.payer, item.app
        most = _get_max_gas(tx, shares, mined)
        total = sum(share.gas for share in tx.gas_shares)
        return (
            *(
                _build_gas_spending(
                    mined, payment_id, payer, app, GasSpendingKind.FAILED, most[payment_id]
                )
                for payment_id, (payer, app) in failed.items()
            ),
            *(
                _build_gas_spending(
                    mined,
                    payment_id,
                    payer,
                    app,
                    GasSpendingKind.OPENED,
                    _get_gas_used(tx, mined) * shares[payment_id].gas // total,
                )
                for payment_id, (payer, app) in opened.items()
            ),
        )

    async def _is_misjudged(
        self, item: SettlementItem, tx: ChainTx, share: GasShare | None
    ) -> bool:
        """Return whether a payment failed for want of gas that we should have given it."""
        gas = self._rail.gas
        if share is None or gas is None or not await gas.is_short_of_gas(item, share):
            return False
        text = "payment %s had too little gas in transaction %s: no budget is charged"
        _log.warning(text, item.payment.id, tx.hash)
        return True

    def plan_retries(
        self,
        ended_txs: Sequence[EndedTransaction],
        freed_items: Sequence[SettlementItem],
        now_us: int,
    ) -> list[PaymentRetry]:
        """Return when payments are due again whose transactions ended without them."""
        failed_ids = {
            spending.payment_id
            for ended_tx in ended_txs
            for spending in ended_tx.outcome.gas_spending
        }
        split_ids = {
            item_id
            for ended_tx in ended_txs
            if is_reverted_batch(ended_tx)
            for item_id in ended_tx.tx.item_ids
        }
        retries = []
        for item in freed_items:
            pause_s, retry_item = _RETRY_S, item
            if item.payment.id in failed_ids:
                retry_item = replace(item, failures=item.failures + 1, isolated=True)
                pause_s = _FAILED_PAUSES_S[min(retry_item.failures, len(_FAILED_PAUSES_S)) - 1]
            elif item.payment.id in split_ids:
                retry_item = replace(item, isolated=True)
            due_us = now_us + pause_s * 1_000_000
            retries.append(PaymentRetry(retry_item, due_us, item.payment.id in split_ids))
        return retries

    async def report_committed(
        self, ended_txs: Sequence[EndedTransaction], retries: Sequence[PaymentRetry]
    ) -> None:
        """Log what was lost, and what stops because of it."""
        lines = [
            (ended_tx.tx, spent)
            for ended_tx in ended_txs
            for spent in ended_tx.outcome.gas_spending
        ]
        for tx, spent in lines:
            if not spent.payment_id:
                text = (
                    "transaction %s of %d payments reverted as a whole; Florin sends each "
                    "payment alone"
                )
                _log.warning(text, tx.hash, len(tx.item_ids))
            elif spent.kind is GasSpendingKind.FAILED:
                text = "payment %s was not paid by transaction %s, which lost %d %s to payer %s"
                unit = "lamports" if self._hourly_budgets.covers_keys else "gas"
                _log.warning(text, spent.payment_id, tx.hash, spent.gas, unit, spent.payer)
        for retry in retries:
            if retry.item.failures >= FAILURES_MAX:
                text = "payment %s is no longer sent: %d transactions failed to pay it"
                _log.error(text, retry.item.payment.id, retry.item.failures)
        if lines:
            self._app.usage_cache.remove(self._rail.chain_id)
            await self._read_usage()

    # ---- its state

    async def _read_usage(self) -> GasUsage:
        """Return what was spent in this hour; log an exhausted budget once."""
        self._usage = used = await gas_budgets.get_usage(self._app, self._rail.chain_id)
        self._reported = {
            reported_line for reported_line in self._reported if reported_line[0] == used.since_us
        }
        for budget in gas_budgets.list_exhausted(self._app, self._rail.chain_id, used):
            line = used.since_us, budget.budget, budget.app_ids
            if line not in self._reported:
                self._reported.add(line)
                _log.error("%s: %s", self._rail.chain_id, budget.reason)
        return used

    def count_paused(self, unsettled_items: Iterable[SettlementItem]) -> int:
        """Return how many of the payments wait for a budget."""
        return sum(item.payment.id in self._paused_ids for item in unsettled_items)

    def describe_exhausted(self) -> list[str]:
        """Return the operator's text about exhausted budgets, one sentence each."""
        used = self._usage
        if used is None or used.since_us != gas_budgets.get_hour_start(self._app.clock.now_us()):
            return []
        budgets = gas_budgets.list_exhausted(self._app, self._rail.chain_id, used)
        return [budget.reason for budget in budgets]


def count_abandoned(unsettled_items: Iterable[SettlementItem]) -> int:
    """Return how many of the payments are no longer sent."""
    return sum(item.failures >= FAILURES_MAX for item in unsettled_items)


def is_reverted_batch(ended_tx: EndedTransaction) -> bool:
    """Return True if a transaction of several payments was reverted as a whole."""
    return (
        ended_tx.mined is not None and not ended_tx.mined.success and len(ended_tx.tx.item_ids) > 1
    )


@operation
def commit_outcomes(
    outcomes: Sequence[PaymentOutcome],
    ended_txs: Sequence[EndedTransaction],
    retries: Sequence[PaymentRetry],
    now_us: int,
    watch_operation: Operation[None] | None,
) -> Op[list[Payment]]:
    """End payments and transactions, and schedule payments whose transaction ended without them.

    Both belong together: a payment without a transaction and without a schedule would wait forever,
    and one whose failure was not counted would be sent without end.
    """
    changed_payments = yield from payment_outcomes.finalize(
        outcomes, [ended_tx.outcome for ended_tx in ended_txs], now_us, watch_operation
    )
    # a failed transaction opened nothing
    yield from token_accounts.release(
        [
            ended_tx.tx.hash
            for ended_tx in ended_txs
            if ended_tx.mined is None or not ended_tx.mined.success
        ]
    )
    for due_us in sorted({retry.at_us for retry in retries}):
        yield from settlement_items.release(
            [retry.item.payment.id for retry in retries if retry.at_us == due_us], due_us
        )
    yield from settlement_items.isolate(
        [retry.item.payment.id for retry in retries if retry.is_split]
    )
    return changed_payments


def _get_max_gas(
    tx: ChainTx, shares: Mapping[str, GasShare], mined: MinedTransaction
) -> dict[str, int]:
    """Return what each item can have used: its share, but no more than all of them did."""
    used = _get_gas_used(tx, mined)
    if len(tx.item_ids) == 1:
        return {tx.item_ids[0]: used}
    return {
        item_id: min(shares[item_id].gas, used) if item_id in shares else used
        for item_id in tx.item_ids
    }


def _get_gas_used(tx: ChainTx, mined: MinedTransaction) -> int:
    """Return the gas that a transaction used; all that it might use where no node reports it."""
    return sum(share.gas for share in tx.gas_shares) if mined.gas_used is None else mined.gas_used


def _build_gas_spending(  # noqa: PLR0917  (one of each, none alike)
    mined: MinedTransaction,
    payment_id: str,
    payer: str,
    app: str,
    kind: GasSpendingKind,
    gas_used: int,
) -> GasSpending:
    gas_cost = mined.gas_cost or 0
    cost = gas_cost * gas_used // mined.gas_used if mined.gas_used else gas_cost
    return GasSpending(payment_id, payer, app, kind, gas_used, cost)
