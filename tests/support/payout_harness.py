"""A payout worker on a real store and an embedded chain, stepped by the test."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from florin_server.app.app import build_app, build_core
from florin_server.app.core import App, Core
from florin_server.db.engine.query import operation
from florin_server.db.engine.store import Store
from florin_server.domain.conditions import ConditionName
from florin_server.domain.payments.payment import Refund, RefundStatus
from florin_server.domain.payouts.payout import Payout, PayoutKind, PayoutStatus
from florin_server.domain.settlement.chain_txs import ChainTx, LedgerPosting
from florin_server.money.ledger.store import ledger
from florin_server.money.open_store import open_store
from florin_server.money.payouts.store import payouts
from florin_server.money.payouts.worker.pay_out import PayoutWorker
from florin_server.money.refunds import store as refunds
from florin_server.money.settlement.store import chain_txs
from florin_server.operations.service import executors
from florin_server.rails.evm.sending.payouts import TRANSFER_TOPIC
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.settings import Settings

from tests.support import postgres
from tests.support.chains import EvmChains
from tests.support.evm_harness import CHAIN, TOKEN, EvmChainHarness, open_lab, to_account
from tests.support.worker_turns import wait_turn

TREASURY_KEY = b"\x74" * 32
TREASURY = EvmSigner(TREASURY_KEY)
SHOP = "mrch_shop"
BUYER = "0x" + "b0" * 20
FLOAT = 1_000_000
TURNS_MAX = 60

_numbers = itertools.count(1)


class SteppedPayoutWorker(PayoutWorker):
    """Waits after each turn until the test releases it."""

    def __init__(self, app: Core, rail, owner: str) -> None:
        super().__init__(app, rail, rail.payouts, owner)
        self.may_turn = asyncio.Semaphore(0)
        self.turn_done = asyncio.Event()

    async def _wait(self) -> None:
        self.turn_done.set()
        await self.may_turn.acquire()

    async def rest(self) -> None:
        """Wait as a service's worker does."""
        await super()._wait()


@dataclass
class PayoutHarness:
    """The path from a requested payout to its end.

    `lab.node` is between worker and chain.
    """

    folder: Path
    lab: EvmChainHarness
    settings: dict[str, Any]
    store: Store = field(init=False)
    app: App = field(init=False)
    worker: SteppedPayoutWorker = field(init=False)
    task: asyncio.Task[None] = field(init=False)

    async def start(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            self.store = await open_store(postgres.get_store_location(self.folder))
            stack.push_async_callback(self.store.close)
            await postgres.let_leases_lapse(self.folder)
            chosen = Settings(home=self.folder, **self.settings)
            core = build_core(chosen, self.store, self.lab.clock, [self.lab.rail])
            # there is no book keeper here
            core.chains[CHAIN].has_opening_balances = True
            self.worker = SteppedPayoutWorker(core, self.lab.rail, os.urandom(4).hex())
            self.app = build_app(core, payouts=[self.worker])
            self.task = asyncio.create_task(self.worker.run())
            await wait_turn(self.worker.turn_done, self.task)
            # the code that stops the harness closes it
            stack.pop_all()

    async def stop(self) -> None:
        """Close the store even if the worker died; then raise the worker's error."""
        self.task.cancel()
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await self.task
        finally:
            await self.store.close()

    async def restart(self) -> None:
        """Continue in another process; unwritten state is lost."""
        await self.stop()
        await self.start()

    async def remember(self) -> None:
        """Keep a copy of the store, as a standby that lags has it."""
        await self.stop()
        postgres.keep_copy(self.folder)
        await self.start()

    async def forget(self) -> None:
        """Continue with the copy: the store lost later changes, and the chain did not."""
        await self.stop()
        postgres.restore_copy(self.folder)
        await self.start()

    async def turn(self, times: int = 1) -> None:
        """Run so many turns of the worker."""
        for _ in range(times):
            self.worker.turn_done.clear()
            self.worker.may_turn.release()
            await wait_turn(self.worker.turn_done, self.task)

    async def mine(self, blocks: int = 1) -> None:
        """Seal blocks, each seen by the worker; under a profile those of its steps."""
        for part in blocks * self.lab.rhythm.parts:
            await self.lab.rhythm.seal(part)
            await self.turn()

    async def mine_until(self, look: Callable[[], Awaitable[bool]]) -> None:
        """Seal blocks until a condition holds."""
        for _ in range(TURNS_MAX):
            if await look():
                return
            await self.mine()
        raise AssertionError(f"not so after {TURNS_MAX} blocks: {self.worker.health()}")

    # payouts

    async def create_payout(self, value: int = 150, **changes: Any) -> Payout:
        """Request a refund, or another payout."""
        number = next(_numbers)
        created = {
            "id": f"rfnd_{number:017}",
            "kind": PayoutKind.REFUND,
            "merchant_id": SHOP,
            "payment_id": f"pay_{number}",
            "live": False,
            "chain_id": CHAIN,
            "asset": TOKEN,
            "value": value,
            "account": to_account(BUYER),
            "created_at_us": self.lab.clock.now_us(),
        }
        payout = Payout(**{**created, **changes})
        await self.store.write(create_payout(payout))
        return payout

    async def book_owed(self, value: int, asset: str = TOKEN, merchant: str = SHOP) -> None:
        """Book money that came in for a merchant."""
        came = LedgerPosting(
            f"wallet:{self.lab.rail.treasury}", f"merchant:{merchant}", asset, value
        )
        key = f"settle:{next(_numbers)}"
        await self.store.write(ledger.post(key, "settle", None, None, (came,), 0))

    async def get_payout(self, payout: Payout) -> Payout:
        """Return the current state of a payout."""
        found_payout = await self.store.read(payouts.find(payout.id))
        assert found_payout is not None
        return found_payout

    async def refund(self, payout: Payout) -> Refund:
        """Return the refund that a payout pays."""
        refund = await self.store.read(refunds.find_refund(payout.id))
        assert refund is not None
        return refund

    async def transactions(self) -> list[ChainTx]:
        """Return the transactions that are signed and neither final nor replaced."""
        return await self.store.read(chain_txs.list_open(CHAIN, TREASURY.address))

    async def wait_done(self, payout: Payout) -> Payout:
        """Seal blocks until the payout is done; check the books."""
        for _ in range(TURNS_MAX):
            found_payout = await self.get_payout(payout)
            if found_payout.status is PayoutStatus.DONE:
                await self.check_books()
                return found_payout
            await self.mine()
        raise AssertionError(f"{await self.get_payout(payout)} is not done: {self.worker.health()}")

    async def check_books(self) -> None:
        assert await self.store.read(ledger.check()) == []
        assert await self.store.read(payouts.check()) == []

    async def transfers(self, to: str = BUYER) -> list[int]:
        """Return what the treasury has sent to an address, read from the chain."""
        topics = [
            TRANSFER_TOPIC,
            *("0x" + text[2:].rjust(64, "0") for text in (TREASURY.address, to)),
        ]
        expected = {"fromBlock": "0x0", "toBlock": "latest", "topics": topics}
        logs = await self.lab.control.call("eth_getLogs", expected)
        return [int(log["data"], 16) for log in logs]

    def get_lag_reason(self) -> str:
        """Return why the store is known to lack data; empty if it is complete."""
        name = ConditionName.STORE_BEHIND
        (result,) = [
            condition.reason
            for condition in self.worker.health().conditions
            if condition.name is name
        ]
        return result

    async def resume(self) -> None:
        """Resume the treasury's key, as the operator does."""
        await executors.resume(self.app, self.worker.key.account)

    async def fault(self, **what: object) -> None:
        await self.lab.control.call("florin_fault", what)


@operation
def create_payout(payout: Payout):
    """Within a write, request a payout, and the refund that it pays."""
    if payout.kind is PayoutKind.REFUND:
        unit = f"caip19/{payout.asset}"
        refund = Refund(
            payout.id,
            payout.payment_id or "",
            unit,
            payout.value,
            payout.account,
            RefundStatus.PENDING,
            None,
            payout.created_at_us,
        )
        yield from refunds.create(refund)
    yield from payouts.add(payout)


@contextlib.asynccontextmanager
async def open_payout_harness(
    folder: Path,
    *,
    evm: EvmChains | None = None,
    chain: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[PayoutHarness]:
    async with contextlib.AsyncExitStack() as stack:
        lab = await open_lab(evm=evm, treasury=TREASURY, **(chain or {}))
        stack.push_async_callback(lab.chain.close)
        stack.push_async_callback(lab.rail.close)
        await lab.give_gas(TREASURY.address, 1)
        await lab.send_tokens(TREASURY.address, FLOAT)
        running = PayoutHarness(folder, lab, settings)
        await running.start()
        stack.push_async_callback(running.stop)
        yield running


__all__ = [
    "BUYER",
    "FLOAT",
    "SHOP",
    "TREASURY",
    "TREASURY_KEY",
    "PayoutHarness",
    "open_payout_harness",
]
