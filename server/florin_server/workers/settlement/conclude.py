"""Ends payments and transactions of one chain, by what blocks or a look at the chain prove."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager

from florin_server.domain.payments.payment import FailureCode, Payment, Status
from florin_server.domain.quarantine import ItemKind, describe_error
from florin_server.domain.settlement.chain_txs import Accepted, Finding, Watched
from florin_server.flows.app import Core
from florin_server.flows.ledger import postings
from florin_server.flows.quarantine.quarantine import is_unexpected
from florin_server.rails.protocol import Rail, submits
from florin_server.rails.types import Paid
from florin_server.store.settlement import chain_txs
from florin_server.workers.settlement import gas_spending, held_money
from florin_server.workers.settlement.blocked_payers import BlockedPayers
from florin_server.workers.settlement.gas_spending import Spending
from florin_server.workers.settlement.observations import Observations
from florin_server.workers.settlement.open_payments import OpenPayments
from florin_server.workers.settlement.reorg_watch import ReorgWatch, ended_in
from florin_server.workers.settlement.senders import Senders
from florin_server.workers.settlement.tx_sender import Ended
from florin_server.workers.settlement.unproven import Unproven

_log = logging.getLogger(__name__)


class Concluder:
    """Commits what is proven, all that follows from it at once."""

    def __init__(  # noqa: PLR0917  (one of each, none alike)
        self,
        app: Core,
        rail: Rail,
        open_payments: OpenPayments,
        senders: Senders,
        spending: Spending,
        blocked: BlockedPayers,
        reorg_watch: ReorgWatch,
        observations: Observations,
    ) -> None:
        self._app = app
        self._rail = rail
        self._open = open_payments
        self._senders = senders
        self._spending = spending
        self._blocked = blocked
        self._reorg_watch = reorg_watch
        self._observations = observations
        self.unproven = Unproven(rail.direct, open_payments.find_events, open_payments.seen)

    async def conclude(self) -> None:
        """Ends what final events pay, and the transactions that are final."""
        findings = []
        for item in list(self._open.items):
            async with self._isolating(item.payment.id, "conclude"):
                if (event := await self._open.proof(item)) is not None:
                    success = self._success(item, event)
                    findings.append(
                        await held_money.screened(self._app, self._rail, item, event, success)
                    )
        await self.finish(findings, await self._senders.final())

    def _isolating(self, payment_id: str, step: str) -> AbstractAsyncContextManager[None]:
        chain_id = self._rail.chain_id
        return self._app.quarantine.isolating(ItemKind.PAYMENT, chain_id, payment_id, step)

    async def bury(self, items: Sequence[Accepted]) -> None:
        """Ends payments that never can be settled; the chain may not answer."""
        findings = []
        for item in items:
            async with self._isolating(item.payment.id, "end as unpayable"):
                if (finding := await self._unpayable(item)) is not None:
                    findings.append(finding)
        await self.finish(findings, [])

    async def finish(self, findings: Sequence[Finding], ends: Sequence[Ended]) -> None:
        """Commits what is proven, tells watchers, and frees payments whose transaction failed.

        If that fails unexpectedly each is committed alone, and what fails alone is set aside.
        """
        if not findings and not ends:
            return
        try:
            await self._finish(findings, ends)
        except Exception as error:
            if not is_unexpected(error):
                raise
            _log.warning("ends are committed one by one: %s", describe_error(error))
            await self._finish_each(findings, ends)

    async def _finish_each(self, findings: Sequence[Finding], ends: Sequence[Ended]) -> None:
        for finding in findings:
            async with self._isolating(finding.payment_id, "commit the end"):
                await self._finish([finding], [])
        for one in ends:
            async with self._app.quarantine.isolating(
                ItemKind.TRANSACTION, self._rail.chain_id, one.tx.id, "commit the end"
            ):
                await self._finish([], [one])

    async def _finish(self, findings: Sequence[Finding], ends: Sequence[Ended]) -> None:
        now_us = self._app.clock.now_us()
        watched = self._reorg_watch.new(ended_in(findings, ends))
        commit = self._reorg_watch.commit(watched)
        done = {finding.payment_id for finding in findings}
        if left := self._freed(ends, done):
            # what they paid may have become final after it was looked for
            await self._open.find_events(left)
        ends = await self._spending.count(ends, self._open.by_id, self._open.paid_by)
        retries = self._spending.retries(ends, self._freed(ends, done), now_us)
        changed = await self._app.store.write(
            gas_spending.conclude(findings, ends, retries, now_us, commit)
        )
        self._reorg_watch.committed(watched)
        for one in retries:
            self._open.keep(one.item)
        await self._spending.committed(ends, retries)
        held_money.tell(findings, changed)
        for payment in changed:
            self._measure(payment, now_us)
            await self._app.changed(payment)
        self._blocked.forget(done)
        self.unproven.forget(done)
        self._open.over(done)
        self._senders.over(ends)
        await self.bury([one.item for one in retries])

    def _measure(self, payment: Payment, now_us: int) -> None:
        item = self._open.by_id.get(payment.id)
        if item is not None and payment.status.is_final:
            seconds = max(0, now_us - item.confirmation.at_us) / 1_000_000
            chain_id, began_us = self._rail.chain_id, item.confirmation.at_us
            self._app.meters.settled(chain_id, payment.status, seconds)
            self._observations.add_settled(item, payment, seconds)
            self._app.traces.step(payment.id, "settle", began_us, now_us, chain=chain_id)

    def _success(self, item: Accepted, event: Paid) -> Finding:
        option, split = item.option, self._rail.terms.split(item.option)
        return Finding(
            payment_id=item.payment.id,
            status=Status.SUCCEEDED,
            tx_id=event.tx_hash,
            settled_value=option.value - split.fee if split.settled else None,
            postings=postings.settled(self._rail, item.payment.merchant_id, option),
            at=Watched(event.tx_hash, event.block_number, event.block_hash),
            position=event.position,
        )

    def _freed(self, ends: Sequence[Ended], done: Collection[str]) -> list[Accepted]:
        """Payments of transactions that ended without their event: they need another one."""
        left = {i for one in ends for i in one.tx.item_ids}.difference(done)
        return [i for i in self._open.items if i.payment.id in left and not self._open.seen(i)]

    async def _unpayable(self, item: Accepted) -> Finding | None:
        """The proof that a payment's authorization can never be used again, if there is one."""
        item = item.since_offered(self._rail.reorg_depth)
        if await self.unproven.holds(item):
            return None
        issued = await self._app.store.read(chain_txs.issued([item.payment.id]))
        reason = await self._rail.observer.unpayable_reason(item, issued)
        if reason is None:
            return None
        await self._open.find_events([item])
        if self._open.seen(item):
            return None
        if item.payment.status is Status.SUCCEEDED:
            text = "payment %s, which a reorganisation undid, can never be paid again: %s"
            _log.error(text, item.payment.id, reason)
        else:
            _log.warning("payment %s failed: %s", item.payment.id, reason)
        code = FailureCode.DECLINED_USER if await self._was_held(item) else None
        return Finding(item.payment.id, Status.FAILED, failure_code=code, failure_detail=reason)

    async def _was_held(self, item: Accepted) -> bool:
        """True if it was ours to send a payment, and it was not sent because of its payer."""
        ours = submits(self._rail, item.option)
        return (
            ours and not self._senders.holds(item.payment.id) and await self._blocked.blocks(item)
        )
