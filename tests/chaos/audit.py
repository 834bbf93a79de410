"""Audit a chaos run: the checks of every simulation, and the ones about attackers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
from florin.v1 import ledger_pb2
from florin_sandbox.simulation.audit.auditor import Auditor
from florin_sandbox.simulation.audit.target import (
    ETHER,
    EUR,
    EVM,
    MINTS,
    USD,
    AuditTarget,
)

from tests.chaos.bounds import Bounds
from tests.chaos.chaos_service import MERCHANT, SOLANA_MERCHANT, Stage
from tests.chaos.facts import Chain
from tests.chaos.front_runner import THIEF
from tests.chaos.payment_run import Story
from tests.chaos.plan import CONFIRMATIONS
from tests.chaos.service_client import POLL_S, Till
from tests.support.installation import OperatorStub

# reads of the books and the chains until nothing is pending
_POLLS_MAX = 200
_GIFTS = {10**10, 10**12, 10**21}


def build_target(stage: Stage, till: Till) -> AuditTarget:
    """Return what to audit: everything, from the first block on."""
    return AuditTarget(
        database=stage.home.database_path,
        evm=till.evm.ask,
        solana=till.solana.ask,
        relayers=stage.relayers(),
        solana_relayer=stage.solana_relayer,
        treasuries=stage.treasuries(),
        merchant_accounts=(MERCHANT, SOLANA_MERCHANT),
        confirmations=CONFIRMATIONS,
    )


class Audit(Auditor):
    """The audit of one run; `bill` is its cost, `alarms` what the service may and must log."""

    def __init__(self, stage: Stage, till: Till, stories: Sequence[Story]) -> None:
        ids = (story.payment_id for story in stories if story.payment_id)
        super().__init__(
            build_target(stage, till), {text: till.statuses.get(text, ()) for text in ids}
        )
        self._stage = stage
        self._stories = stories
        self.rows = self.facts.payments
        self.bill: dict[str, Any] = {}
        self.alarms: dict[str, list[str]] = {}

    async def check(self, since: int, before: dict[str, int], now_us: int) -> None:
        """Compare everything; `before` has the buyers' balances after block `since`."""
        self.expect("stored payments", len(self.rows), len(self.buyer_statuses))
        self.check_payments()
        promised = [story for story in self._stories if story.order.refunded]
        self.check_refunds({story.payment_id for story in promised if story.status == "succeeded"})
        self.check_books()
        ours = {self.target.treasuries[0].lower()}
        chain = Chain(
            relayers=frozenset(relayer.lower() for relayer in self.target.relayers),
            buyers=frozenset(key.partition(" ")[2] for key in before) - ours,
            since=since,
        )
        await chain.read(self.target)
        self.check_events(chain)
        self.check_returned()
        self.check_journal(chain)
        await self.check_nonces()
        await self.check_evm_balances(chain)
        await self.check_solana()
        await self._check_buyers(chain, before)
        await self._check_wallets()
        bounds = Bounds(self._stage, self.facts, self._stories, now_us)
        bounds.check(chain, self.opened_balances)
        self.problems += bounds.problems
        self.bill, self.alarms = bounds.bill, bounds.list_alarms()

    async def _check_buyers(self, chain: Chain, before: dict[str, int]) -> None:
        """Check that buyers spent what they paid, and that no one else gained."""
        for asset in (USD, EUR, ETHER):
            self.expect(f"the thief's {asset}", await self.target.read_balance(THIEF, asset), 0)
        for key, balance_before in before.items():
            asset, _, payer = key.partition(" ")
            if not asset.startswith(EVM) and asset not in MINTS:
                continue
            left = balance_before + self._compute_change(asset, payer)
            if asset == ETHER:
                left += chain.coin_from_stranger[payer] - chain.gas_since[payer]
            if asset == USD:
                left -= chain.saved[payer]
            self.expect(f"{payer}'s {asset}", await self.target.read_balance(payer, asset), left)

    def _compute_change(self, asset: str, account: str) -> int:
        """Return how much payments and refunds changed an account's balance of an asset."""
        change = self.sum_received(asset, account) - self._sum_spent(asset, account)
        if account.lower() in {treasury.lower() for treasury in self.target.treasuries}:
            return change - self.sum_refunded(asset)
        return change + self.sum_refunded(asset, account)

    def _sum_spent(self, asset: str, payer: str) -> int:
        """Return the amount that a payer spent on payments and unmatched money."""
        return sum(
            row.value
            for row in (*self._paid_payments, *self._late_payments)
            if row.asset == asset and row.payer.rpartition(":")[2].lower() == payer.lower()
        )

    async def _check_wallets(self) -> None:
        """Check that each wallet has its booked balance, plus the faucets' gifts of the run."""
        verdict = ledger_pb2.BalanceVerdict
        # books that had to wait for pending payments start after the run
        unfinished = {verdict.BALANCE_VERDICT_UNDER_WAY, verdict.BALANCE_VERDICT_NOT_BEGUN}
        for _ in range(_POLLS_MAX):
            target = self._stage.read_facts("shop")["operator"]
            async with grpc.aio.insecure_channel(target) as channel:
                operator = OperatorStub(
                    channel, self._stage.home.get_or_create_secrets().operator_token
                )
                result = await operator.call("CheckLedger", ledger_pb2.CheckLedgerRequest())
            if not result.unread and not unfinished & {wallet.verdict for wallet in result.wallets}:
                break
            await asyncio.sleep(POLL_S)
        self.problems += [*result.problems, *(f"not read: {item}" for item in result.unread)]
        for wallet in result.wallets:
            more = int(wallet.held) - int(wallet.booked)
            if more and not (more in _GIFTS and wallet.verdict == verdict.BALANCE_VERDICT_UNBOOKED):
                self.problems.append(f"the books and the chain disagree: {wallet}")
