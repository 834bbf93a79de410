"""What settling on one chain may still cost, what it did cost, and when what failed is tried again.

A payment by an account with code is sent only if all that is on its way fits into the budgets, as
if every one of them failed; so a budget is never overdrawn by more than the gas of one payment.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from florin_server.domain.payments.payment import Payment
from florin_server.domain.settlement.chain_txs import (
    Accepted,
    ChainTx,
    Finding,
    PayerKind,
    Share,
    Spent,
    SpentKind,
)
from florin_server.flows.app import Core
from florin_server.flows.limits import gas_budgets
from florin_server.flows.limits.gas_budgets import Budget, HourlyBudgets
from florin_server.rails.protocol import Rail
from florin_server.rails.types import Mined
from florin_server.store.engine.query import Op, Operation, operation
from florin_server.store.settlement import chain_txs, gas, token_accounts
from florin_server.store.settlement.chain_txs import FAILURES_MAX
from florin_server.store.settlement.gas import Usage
from florin_server.workers.settlement.tx_sender import Ended

_log = logging.getLogger(__name__)

# a payment whose transaction never came into a block, or came to nothing together with others
_RETRY_S = 5
# After the first transaction that did not pay its payment money may only just be under way; after
# the second a minute lets others go first. There is no fourth.
_FAILED_S = (10, 60)
# what waits for a budget is looked at this often, should an operator have raised it
_PAUSED_S = 60


@dataclass(slots=True)
class _Purse:
    """What was spent of a budget, and what may be by all that is on its way."""

    most: int
    spent: int
    reserved: int = 0

    @property
    def is_empty(self) -> bool:
        return self.spent >= self.most

    def has_room(self, amount: int) -> bool:
        """True if the amount fits in; one payment always may go."""
        return not self.reserved or self.spent + self.reserved + amount <= self.most


_Purses: TypeAlias = dict[tuple[str, ...], _Purse]


@dataclass(frozen=True, slots=True)
class Retry:
    """A payment, as it stands now, whose transaction ended without it; it is due at a time.

    `parted` tells that it was one of several which came to nothing as a whole.
    """

    item: Accepted
    at_us: int
    parted: bool


class Spending:
    """The budgets of one chain as its settler keeps to them."""

    def __init__(self, app: Core, rail: Rail) -> None:
        self._app = app
        self._rail = rail
        self._paused: set[str] = set()
        self._used: Usage | None = None
        self._told: set[tuple[int, Budget, tuple[str, ...]]] = set()  # with the hour

    # ---- before sending

    async def sort(
        self, items: Sequence[Accepted], on_way: Iterable[tuple[Accepted, Share]]
    ) -> list[Accepted]:
        """The items that may be sent now; the others are set aside.

        `on_way` are those in open transactions.
        """
        used = await self._read()
        plain = all(one.kind in {None, PayerKind.KEY} for one in items)
        if plain and not used.failed and not self._budgets.covers_keys:
            self._paused.difference_update(one.payment.id for one in items)
            return list(items)
        payers = {one.option.payer for one in items}
        lost = await self._app.store.read(gas.of_payers(self._rail.chain_id, used.since_us, payers))
        purses: _Purses = {}
        for item, share in on_way:
            for purse in self._purses(purses, item, share, used, lost):
                purse.reserved += share.gas
        free: list[Accepted] = []
        empty: list[Accepted] = []
        crowded: list[Accepted] = []
        for item in items:
            share = self._share(item)
            own = self._purses(purses, item, share, used, lost)
            if self._is_stopped(item, lost) or any(purse.is_empty for purse in own):
                empty.append(item)
            elif all(purse.has_room(share.gas) for purse in own):
                free.append(item)
                for purse in own:
                    purse.reserved += share.gas
            else:
                crowded.append(item)
        await self._set_aside(empty, crowded)
        self._paused.difference_update(one.payment.id for one in (*free, *crowded))
        self._paused.update(one.payment.id for one in empty)
        return free

    @property
    def _budgets(self) -> HourlyBudgets:
        return gas_budgets.budgets_of(self._app, self._rail.chain_id)

    def _share(self, item: Accepted) -> Share:
        return self._rail.relay.share(item)

    def _is_stopped(self, item: Accepted, lost: Mapping[str, int]) -> bool:
        """True if its payer lost too much, whatever that is."""
        return lost.get(item.option.payer, 0) >= self._budgets.payer

    def _purses(
        self,
        purses: _Purses,
        item: Accepted,
        share: Share,
        used: Usage,
        lost: Mapping[str, int],
    ) -> list[_Purse]:
        """The budgets that a payment draws on in advance.

        Plain keys draw on none where their evasions cost them more than us.
        """
        most, payer, own = self._budgets, item.option.payer, item.app
        if share.kind is PayerKind.KEY and not most.covers_keys:
            return []
        wanted = {
            ("payer", payer): (most.payer, lost.get(payer, 0)),
            ("app", own): (most.app, used.failed_by_app.get(own, 0)),
            ("chain",): (most.chain, used.failed),
        }
        if share.kind is PayerKind.UNBORN:
            wanted["opened", own] = (most.opened_app, used.opened_by_app.get(own, 0))
            wanted["opened",] = (most.opened_chain, used.opened)
        return [purses.setdefault(key, _Purse(*given)) for key, given in wanted.items()]

    async def _set_aside(self, empty: Sequence[Accepted], crowded: Sequence[Accepted]) -> None:
        now_us = self._app.clock.now_us()
        for items, pause_s in ((empty, _PAUSED_S), (crowded, _RETRY_S)):
            if items:
                due_us = now_us + pause_s * 1_000_000
                await self._app.store.write(
                    chain_txs.release([one.payment.id for one in items], due_us)
                )

    # ---- after it is final

    async def count(
        self,
        ends: Sequence[Ended],
        known: Mapping[str, Accepted],
        paid: Callable[[Accepted, ChainTx], bool],
    ) -> list[Ended]:
        """The ends with what they spent; `known` are unsettled payments, by id.

        `paid` tells whether a transaction paid a payment.
        """
        return [
            replace(one, end=replace(one.end, spent=await self._spent(one, known, paid)))
            for one in ends
        ]

    async def _spent(
        self,
        one: Ended,
        known: Mapping[str, Accepted],
        paid: Callable[[Accepted, ChainTx], bool],
    ) -> tuple[Spent, ...]:
        tx, mined = one.tx, one.mined
        if mined is None or not tx.item_ids:
            return ()
        if came_to_nothing(one):
            # no item can do that: each has gas of its own, and so nobody is to blame
            used, cost = _gas_used(tx, mined), mined.gas_cost or 0
            return (Spent("", "", "", SpentKind.FAILED, used, cost),)
        ended = [one for one in tx.item_ids if one not in known]
        others = await self._app.store.read(gas.paid_otherwise(ended, tx.hashes)) if ended else []
        failed = {payment_id: (payer, app) for payment_id, payer, app in others}
        opened: dict[str, tuple[str, str]] = {}
        shares = dict(zip(tx.item_ids, tx.shares, strict=False))
        for payment_id in tx.item_ids:
            if (item := known.get(payment_id)) is None:
                continue
            if not paid(item, tx):
                if await self._is_misjudged(item, tx, shares.get(payment_id)):
                    continue
                failed[payment_id] = item.option.payer, item.app
            elif payment_id in shares and shares[payment_id].kind is PayerKind.UNBORN:
                opened[payment_id] = item.option.payer, item.app
        most = _most(tx, shares, mined)
        whole = sum(share.gas for share in tx.shares)
        return (
            *(
                _told_of(mined, payment_id, payer, app, SpentKind.FAILED, most[payment_id])
                for payment_id, (payer, app) in failed.items()
            ),
            *(
                _told_of(
                    mined,
                    payment_id,
                    payer,
                    app,
                    SpentKind.OPENED,
                    _gas_used(tx, mined) * shares[payment_id].gas // whole,
                )
                for payment_id, (payer, app) in opened.items()
            ),
        )

    async def _is_misjudged(self, item: Accepted, tx: ChainTx, had: Share | None) -> bool:
        """Return whether a payment failed for want of gas that we should have given it."""
        gas = self._rail.gas
        if had is None or gas is None or not await gas.had_too_little_gas(item, had):
            return False
        text = "payment %s had too little gas in transaction %s: no budget is charged"
        _log.warning(text, item.payment.id, tx.hash)
        return True

    def retries(self, ends: Sequence[Ended], freed: Sequence[Accepted], now_us: int) -> list[Retry]:
        """When payments are due again whose transactions ended without them."""
        failed = {one.payment_id for end in ends for one in end.end.spent}
        parted = {one for end in ends if came_to_nothing(end) for one in end.tx.item_ids}
        found = []
        for item in freed:
            pause_s, counted = _RETRY_S, item
            if item.payment.id in failed:
                counted = replace(item, failures=item.failures + 1, alone=True)
                pause_s = _FAILED_S[min(counted.failures, len(_FAILED_S)) - 1]
            elif item.payment.id in parted:
                counted = replace(item, alone=True)
            due_us = now_us + pause_s * 1_000_000
            found.append(Retry(counted, due_us, item.payment.id in parted))
        return found

    async def committed(self, ends: Sequence[Ended], retries: Sequence[Retry]) -> None:
        """Tells what was lost, and what stops because of it."""
        lines = [(one.tx, spent) for one in ends for spent in one.end.spent]
        for tx, spent in lines:
            if not spent.payment_id:
                text = "transaction %s of %d payments was reverted as a whole: each is sent alone"
                _log.warning(text, tx.hash, len(tx.item_ids))
            elif spent.kind is SpentKind.FAILED:
                text = "payment %s was not paid by transaction %s, which lost %d %s to payer %s"
                unit = "lamports" if self._budgets.covers_keys else "gas"
                _log.warning(text, spent.payment_id, tx.hash, spent.gas, unit, spent.payer)
        for one in retries:
            if one.item.failures >= FAILURES_MAX:
                text = "payment %s is not sent any more: %d transactions did not pay it"
                _log.error(text, one.item.payment.id, one.item.failures)
        if lines:
            self._app.spent.drop(self._rail.chain_id)
            await self._read()

    # ---- how it looks

    async def _read(self) -> Usage:
        """What was spent in this hour; an exhausted budget is told once."""
        self._used = used = await gas_budgets.usage(self._app, self._rail.chain_id)
        self._told = {one for one in self._told if one[0] == used.since_us}
        for one in gas_budgets.exhausted(self._app, self._rail.chain_id, used):
            line = used.since_us, one.budget, one.whose
            if line not in self._told:
                self._told.add(line)
                _log.error("%s: %s", self._rail.chain_id, one.reason)
        return used

    def paused(self, unsettled: Iterable[Accepted]) -> int:
        """How many of the payments wait for a budget."""
        return sum(one.payment.id in self._paused for one in unsettled)

    def exhausted(self) -> list[str]:
        """What the operator is told of budgets that are used up, one sentence each."""
        used = self._used
        if used is None or used.since_us != gas_budgets.hour_of(self._app.clock.now_us()):
            return []
        found = gas_budgets.exhausted(self._app, self._rail.chain_id, used)
        return [one.reason for one in found]


def given_up(unsettled: Iterable[Accepted]) -> int:
    """How many of the payments are not sent any more."""
    return sum(one.failures >= FAILURES_MAX for one in unsettled)


def came_to_nothing(one: Ended) -> bool:
    """True if a transaction of several payments was reverted as a whole."""
    return one.mined is not None and not one.mined.success and len(one.tx.item_ids) > 1


@operation
def conclude(
    findings: Sequence[Finding],
    ends: Sequence[Ended],
    retries: Sequence[Retry],
    now_us: int,
    watch: Operation[None] | None,
) -> Op[list[Payment]]:
    """Ends payments and transactions; what ended without its payment is in line again with that.

    Nothing may come in between: a payment in no transaction and not in line would wait for good,
    and one whose failure was not counted would be sent without end.
    """
    changed = yield from chain_txs.conclude(findings, [one.end for one in ends], now_us, watch)
    # what did not work opened nothing
    yield from token_accounts.free(
        [one.tx.hash for one in ends if one.mined is None or not one.mined.success]
    )
    for due_us in sorted({one.at_us for one in retries}):
        yield from chain_txs.release(
            [one.item.payment.id for one in retries if one.at_us == due_us], due_us
        )
    yield from chain_txs.part([one.item.payment.id for one in retries if one.parted])
    return changed


def _most(tx: ChainTx, shares: Mapping[str, Share], mined: Mined) -> dict[str, int]:
    """What each item may have used: its share, but no more than all of them did."""
    used = _gas_used(tx, mined)
    if len(tx.item_ids) == 1:
        return {tx.item_ids[0]: used}
    return {one: min(shares[one].gas, used) if one in shares else used for one in tx.item_ids}


def _gas_used(tx: ChainTx, mined: Mined) -> int:
    """Return the gas that a transaction used; all that it might use where no node reports it."""
    return sum(share.gas for share in tx.shares) if mined.gas_used is None else mined.gas_used


def _told_of(  # noqa: PLR0917  (one of each, none alike)
    mined: Mined, payment_id: str, payer: str, app: str, kind: SpentKind, used: int
) -> Spent:
    whole = mined.gas_cost or 0
    cost = whole * used // mined.gas_used if mined.gas_used else whole
    return Spent(payment_id, payer, app, kind, used, cost)
