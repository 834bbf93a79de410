"""Audit a chaos run: the checks of every simulation, and the ones about attackers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
from florin.v1 import ledger_pb2
from florin_sandbox.simulation.audit.addresses import sum_went_home
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
from tests.chaos.buyer_wallets import BuyerWallets
from tests.chaos.chaos_service import MERCHANT, SOLANA_MERCHANT, ChaosEnvironment
from tests.chaos.facts import Chain
from tests.chaos.front_runner import THIEF
from tests.chaos.order_assets import get_asset
from tests.chaos.payment_run import PaymentRun
from tests.chaos.plan import CONFIRMATIONS, BuyerBehavior
from tests.chaos.service_client import POLL_S, ServiceClient
from tests.support.installation import OperatorStub

# reads of the books and the chains until nothing is pending
_POLLS_MAX = 200
# what these buyers send pays nothing
_UNPAID = {
    BuyerBehavior.SHORT,
    BuyerBehavior.TARDY,
    BuyerBehavior.OTHER_ASSET,
    BuyerBehavior.GONE,
}
_GIFTS = {10**10, 10**12, 10**21}


def build_target(environment: ChaosEnvironment, service_client: ServiceClient) -> AuditTarget:
    """Return what to audit: everything, from the first block on."""
    return AuditTarget(
        store=environment.store,
        evm=service_client.evm.ask,
        solana=service_client.solana.ask,
        relayers=environment.relayers(),
        solana_relayer=environment.solana_relayer,
        treasuries=environment.treasuries(),
        merchant_accounts=(MERCHANT, SOLANA_MERCHANT),
        confirmations=CONFIRMATIONS,
    )


class Audit(Auditor):
    """The audit of one run; `bill` is its cost, `alarms` what the service may and must log."""

    def __init__(
        self,
        environment: ChaosEnvironment,
        service_client: ServiceClient,
        payment_runs: Sequence[PaymentRun],
        wallets: BuyerWallets,
    ) -> None:
        ids = (payment_run.payment_id for payment_run in payment_runs if payment_run.payment_id)
        super().__init__(
            build_target(environment, service_client),
            {text: service_client.statuses.get(text, ()) for text in ids},
        )
        self._environment = environment
        self._payment_runs = payment_runs
        self._wallets = wallets
        self.rows = self.facts.payments
        self.bill: dict[str, Any] = {}
        self.alarms: dict[str, list[str]] = {}

    async def check(self, since: int, before: dict[str, int], now_us: int) -> None:
        """Compare everything; `before` has the buyers' balances after block `since`."""
        self.expect("stored payments", len(self.rows), len(self.buyer_statuses))
        self.check_payments()
        promised = [
            payment_run
            for payment_run in self._payment_runs
            if payment_run.order.refunded
            and "account that paid is unknown" not in payment_run.refund
        ]
        self.check_refunds(
            {
                payment_run.payment_id
                for payment_run in promised
                if payment_run.status == "succeeded"
            }
        )
        self.check_books()
        ours = {self.target.treasuries[0].lower()}
        chain = Chain(
            relayers=frozenset(relayer.lower() for relayer in self.target.relayers),
            buyers=frozenset(key.partition(" ")[2] for key in before) - ours,
            since=since,
            addresses=self.addresses,
            coin_senders=frozenset({self._wallets.codes.coin_sender}),
        )
        await chain.read(self.target)
        self.check_events(chain)
        self.check_returned()
        blocked = {
            self._wallets.get_wallet(payment_run.order).address.lower()
            for payment_run in self._payment_runs
            if payment_run.order.behavior is BuyerBehavior.SUSPECT
        }
        await self.check_addresses(chain, blocked)
        self._check_buyers_at_addresses()
        self.check_journal(chain)
        await self.check_nonces()
        await self.check_evm_balances(chain)
        await self.check_solana()
        await self._check_buyers(chain, before)
        await self._check_wallets()
        bounds = Bounds(self._environment, self.facts, self._payment_runs, now_us)
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
            left += sum_went_home(chain, asset, payer)
            left -= chain.sent_to_addresses[asset, payer]
            if asset == ETHER:
                left += chain.coin_from_front_runner[payer] - chain.gas_since[payer]
            if asset == USD:
                left -= chain.saved[payer]
            self.expect(f"{payer}'s {asset}", await self.target.read_balance(payer, asset), left)

    def _check_buyers_at_addresses(self) -> None:
        """Check that buyers who sent too little, too late or something else paid nothing."""
        for payment_run in self._payment_runs:
            order = payment_run.order
            is_unpaid = order.behavior in _UNPAID or (
                order.behavior is BuyerBehavior.SUSPECT
                and not order.has_second_payer
                # a node that is read late does not show who sent coin
                and get_asset(order) != ETHER
            )
            if order.way.has_own_address and is_unpaid and payment_run.status == "succeeded":
                self.problems.append(f"{payment_run} succeeded")

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
            target = self._environment.read_facts("shop")["operator"]
            async with grpc.aio.insecure_channel(target) as channel:
                operator = OperatorStub(
                    channel, self._environment.home.get_or_create_secrets().operator_token
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
