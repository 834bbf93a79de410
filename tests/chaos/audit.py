"""The judge of a storm: that of all runs, and what is true of attackers besides."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
from florin.v1 import ledger_pb2
from florin_server.simulation.audit.ground import ETHER, EUR, EVM, MINTS, USD, Ground
from florin_server.simulation.audit.judge import Judge

from tests.chaos.bounds import Bounds
from tests.chaos.facts import Chain
from tests.chaos.plan import CONFIRMATIONS
from tests.chaos.stage import MERCHANT, SOLANA_MERCHANT, Stage
from tests.chaos.story import Story
from tests.chaos.stranger import THIEF
from tests.chaos.till import LOOK_S, Till
from tests.support.installation import Operator

# at the books and chains, until nothing is under way
_LOOKS = 200
_GIFTS = {10**10, 10**12, 10**21}


def ground_of(stage: Stage, till: Till) -> Ground:
    """What is judged: all of it, from the first block on."""
    return Ground(
        database=stage.home.database,
        evm=till.evm.ask,
        solana=till.solana.ask,
        relayers=stage.relayers(),
        solana_relayer=stage.solana_relayer,
        treasuries=stage.treasuries(),
        paid_to=(MERCHANT, SOLANA_MERCHANT),
        confirmations=CONFIRMATIONS,
    )


class Audit(Judge):
    """`bill` is what it cost, `alarms` what the service may say, and has to."""

    def __init__(self, stage: Stage, till: Till, stories: Sequence[Story]) -> None:
        ids = (one.payment_id for one in stories if one.payment_id)
        super().__init__(ground_of(stage, till), {one: till.told.get(one, ()) for one in ids})
        self._stage = stage
        self._stories = stories
        self.rows = self.facts.rows
        self.bill: dict[str, Any] = {}
        self.alarms: dict[str, list[str]] = {}

    async def judge(self, since: int, before: dict[str, int], now_us: int) -> None:
        """Compares everything; `before` is what buyers had after block `since`."""
        self.expect("stored payments", len(self.rows), len(self.told))
        self.payments()
        promised = [one for one in self._stories if one.order.refunded]
        self.refunded({one.payment_id for one in promised if one.status == "succeeded"})
        self.books()
        ours = {self.ground.treasuries[0].lower()}
        chain = Chain(
            relayers=frozenset(one.lower() for one in self.ground.relayers),
            buyers=frozenset(key.partition(" ")[2] for key in before) - ours,
            since=since,
        )
        await chain.read(self.ground)
        self.events(chain)
        self.returned()
        self.journal(chain)
        await self.nonces()
        await self.evm_balances(chain)
        await self.solana()
        await self._buyers(chain, before)
        await self._wallets()
        bounds = Bounds(self._stage, self.facts, self._stories, now_us)
        bounds.judge(chain, self.opened)
        self.bad += bounds.bad
        self.bill, self.alarms = bounds.told, bounds.alarms()

    async def _buyers(self, chain: Chain, before: dict[str, int]) -> None:
        """Buyers spent what they paid, and nobody else got anything."""
        for asset in (USD, EUR, ETHER):
            self.expect(f"the thief's {asset}", await self.ground.held(THIEF, asset), 0)
        for key, had in before.items():
            asset, _, payer = key.partition(" ")
            if not asset.startswith(EVM) and asset not in MINTS:
                continue
            left = had + self._change(asset, payer)
            if asset == ETHER:
                left += chain.given[payer] - chain.gas_since[payer]
            if asset == USD:
                left -= chain.saved[payer]
            self.expect(f"{payer}'s {asset}", await self.ground.held(payer, asset), left)

    def _change(self, asset: str, account: str) -> int:
        """By how much payments and refunds have changed what an account holds of an asset."""
        change = self.received(asset, account) - self.spent(asset, account)
        if account.lower() in {one.lower() for one in self.ground.treasuries}:
            return change - self.given_back(asset)
        return change + self.given_back(asset, account)

    async def _wallets(self) -> None:
        """Every wallet holds what is booked, and what the faucets gave it while Florin ran."""
        verdict = ledger_pb2.BalanceVerdict
        # books that had to wait for payments under way begin once the storm is over
        unfinished = {verdict.BALANCE_VERDICT_UNDER_WAY, verdict.BALANCE_VERDICT_NOT_BEGUN}
        for _ in range(_LOOKS):
            target = self._stage.told("shop")["operator"]
            async with grpc.aio.insecure_channel(target) as channel:
                operator = Operator(channel, self._stage.home.secrets().operator_token)
                found = await operator.ask("CheckLedger", ledger_pb2.CheckLedgerRequest())
            if not found.unread and not unfinished & {one.verdict for one in found.wallets}:
                break
            await asyncio.sleep(LOOK_S)
        self.bad += [*found.problems, *(f"not read: {one}" for one in found.unread)]
        for one in found.wallets:
            more = int(one.held) - int(one.booked)
            if more and not (more in _GIFTS and one.verdict == verdict.BALANCE_VERDICT_UNBOOKED):
                self.bad.append(f"the books and the chain disagree: {one}")
