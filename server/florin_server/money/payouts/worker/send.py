"""Sends the payouts of one chain that are due, or leaves them for later with the reason."""

from __future__ import annotations

import logging
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Protocol

from florin_server.accounts.service.own_accounts import find_reserved_role
from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.compliance.screening.service.check import check_lists, is_blocked
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.errors import ApiError
from florin_server.domain.payouts.held_money import HeldMoneyState
from florin_server.domain.payouts.payout import Payout
from florin_server.domain.quarantine import QuarantinedItemKind
from florin_server.money.payouts.service import account_opening
from florin_server.money.payouts.service.credit import find_credit
from florin_server.money.payouts.store import balances, held_money, payouts
from florin_server.money.payouts.store.balances import CreditLimits, InsufficientBalance
from florin_server.money.settlement.store.token_accounts import AccountNotOpenable
from florin_server.money.settlement.worker.transaction_queue import TransactionQueue
from florin_server.operations.context import QuarantineContext
from florin_server.operations.store import executors
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail
from florin_server.rails.roles import TreasuryPayouts
from florin_server.rails.types import (
    RailUnavailable,
    ReceiverUnavailable,
    SignedTransaction,
    TreasuryTransfer,
)
from florin_server.settings.context import SettingsContext


class _Context(
    ChainContext,
    EventContext,
    QuarantineContext,
    ScreeningContext,
    SettingsContext,
    StorageContext,
    Protocol,
):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

_BATCH = 50
# a payout that was not sent is retried after a quarter of its age, within these bounds
_RETRY_MIN_US, _RETRY_MAX_US = 5_000_000, 60_000_000


class PayoutSender:
    """Claims payouts, each together with the transaction that makes it.

    `database_id` is the database that the store was on at the latest check; `has_waiting` says
    whether any payout was left at the end of the latest turn.
    """

    def __init__(
        self, app: _Context, rail: Rail, treasury: TreasuryPayouts, queue: TransactionQueue
    ) -> None:
        self._app = app
        self._rail = rail
        self._treasury = treasury
        self._queue = queue
        self.database_id = ""
        self.has_waiting = False

    async def submit(self) -> None:
        """Send the payouts that are due, the oldest first, as far as the key has room."""
        while self._queue.has_room and self._app.chains[self._rail.chain_id].has_opening_balances:
            now_us = self._app.clock.now_us()
            found_payouts = await self._app.store.read(
                payouts.list_due(self._rail.chain_id, _BATCH, now_us)
            )
            if not (
                due_payouts := [
                    payout for payout in found_payouts if not self._is_quarantined(payout.id)
                ]
            ):
                break
            for payout in due_payouts:
                if self._queue.has_room:
                    async with self._isolate(payout.id, "send"):
                        await self._try_send(payout)
        left = await self._app.store.read(payouts.count_problems())
        self.has_waiting = any(chain == self._rail.chain_id for chain, _, _ in left)

    def _isolate(self, payout_id: str, step: str) -> AbstractAsyncContextManager[None]:
        return self._app.quarantine.isolate(
            QuarantinedItemKind.PAYOUT, self._rail.chain_id, payout_id, step
        )

    def _is_quarantined(self, payout_id: str) -> bool:
        return self._app.quarantine.contains(
            QuarantinedItemKind.PAYOUT, self._rail.chain_id, payout_id
        )

    async def _try_send(self, payout: Payout) -> None:
        """Send a payout, or leave it for later with the reason."""
        try:
            problem = await self._find_obstacle(payout)
            if problem is None:
                await self._send(payout)
        except (InsufficientBalance, AccountNotOpenable, ReceiverUnavailable) as error:
            problem = str(error)
        except RailUnavailable as error:
            # other payouts take their turn before it, once the chain answers
            await self._defer(payout, str(error) or type(error).__name__)
            raise
        if problem is not None:
            await self._defer(payout, problem)

    async def _defer(self, payout: Payout, problem: str) -> None:
        if problem != payout.problem:
            _log.warning("payout %s waits: %s", payout.id, problem)
        await self._app.store.write(
            payouts.defer(payout.id, problem, self._get_retry_time_us(payout))
        )
        self._app.notifier.publish(Topic.PAYOUT, payout.id)

    def _get_retry_time_us(self, payout: Payout) -> int:
        now_us = self._app.clock.now_us()
        return now_us + min(max((now_us - payout.created_at_us) // 4, _RETRY_MIN_US), _RETRY_MAX_US)

    async def _find_obstacle(self, payout: Payout) -> str | None:
        """Return why a payout cannot be sent now; None if it can."""
        if self._treasury.problem:
            return self._treasury.problem
        try:
            await check_lists(self._app, live=payout.live)
        except ApiError:
            return "the screening lists are missing or too old"
        if role := find_reserved_role(self._app.rails.values(), payout.account):
            return f"its destination is {role}"
        read = self._app.store.read
        returned_money = await read(held_money.find(payout.held_id)) if payout.held_id else None
        if returned_money is not None and returned_money.state is HeldMoneyState.UNDONE:
            return "a reorganization removed the money that it returns"
        # the operator who decided to return it may have known that its payer is blocked
        may_be_blocked = returned_money is not None and returned_money.even_if_blocked
        if not may_be_blocked and await is_blocked(self._app, payout.account):
            return "its destination is blocked"
        if (
            missing := await read(balances.find_shortfall(payout, self._find_credit(payout)))
        ) is not None:
            return str(missing)
        pending_transfers = [
            to_transfer(submitted_payout)
            for submitted_payout in await read(payouts.list_submitted(self._rail.chain_id))
            if self._queue.has_item(submitted_payout.id)
        ]
        return await self._treasury.check_transfer(
            await self._get_transfer(payout), pending_transfers
        )

    async def _get_transfer(self, payout: Payout) -> TreasuryTransfer:
        """Return the transfer, with whether its receiving account can be opened for it."""
        receiving_account = AssetAccount(payout.asset, payout.account)
        may_open = await account_opening.list_openable(
            self._app, self._rail, payout.merchant_id, [receiving_account]
        )
        return replace(to_transfer(payout), may_open_account=receiving_account in may_open)

    def _find_credit(self, payout: Payout) -> CreditLimits | None:
        return find_credit(self._app, payout.asset, live=payout.live)

    async def _send(self, payout: Payout) -> None:
        signed: list[SignedTransaction] = []
        transfer = await self._get_transfer(payout)
        now_us = self._app.clock.now_us()

        async def sign(nonce: int) -> SignedTransaction:
            signed.append(await self._treasury.sign(nonce, transfer))
            return signed[0]

        @operation
        def claim() -> Op[None]:
            # an operation runs at its commit, which is after the signing
            (signed_transaction,) = signed
            yield from executors.require_running(self._queue.key.account)
            if self._app.store.identity != self.database_id:
                raise executors.ExecutorPaused("the database changed since the last check")
            yield from payouts.claim(
                payout,
                signed_transaction.hash,
                signed_transaction.lapses_at,
                self._find_credit(payout),
                now_us,
            )
            opened = (
                [AssetAccount(payout.asset, payout.account)]
                if signed_transaction.opens_account
                else []
            )
            yield from account_opening.claim(
                self._app, self._rail, payout.merchant_id, payout.id, opened
            )

        await self._queue.send([payout.id], sign, claim)
        self._app.notifier.publish(Topic.PAYOUT, payout.id)


def to_transfer(payout: Payout) -> TreasuryTransfer:
    """Return the transfer of a payout."""
    return TreasuryTransfer(payout.id, payout.asset, payout.account, payout.value)
