"""A payout worker on a real store and an embedded chain, which works only when a test lets it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from florin_server.boot.app import app_of, core_of
from florin_server.config import Settings
from florin_server.domain.conditions import ConditionName
from florin_server.domain.payments.payment import Refund, RefundStatus
from florin_server.domain.payouts.payout import Payout, PayoutKind, PayoutStatus
from florin_server.domain.settlement.chain_txs import ChainTx, Posting
from florin_server.flows.app import App, Core
from florin_server.flows.operator import executors
from florin_server.rails.evm.sending.payouts import TRANSFERRED
from florin_server.rails.evm.sending.transactions import Signer
from florin_server.store.engine.opening import open_store
from florin_server.store.engine.query import operation
from florin_server.store.engine.store import Store
from florin_server.store.ledger import ledger
from florin_server.store.payouts import payouts, refunds
from florin_server.store.settlement import chain_txs
from florin_server.workers.payouts.pay_out import PayoutWorker

from tests.support import postgres
from tests.support.chains import EvmChains
from tests.support.evm_lab import CHAIN, TOKEN, Lab, account_of, open_lab
from tests.support.turns import turned

TREASURY_KEY = b"\x74" * 32
TREASURY = Signer(TREASURY_KEY)
SHOP = "mrch_shop"
BUYER = "0x" + "b0" * 20
FLOAT = 1_000_000
TURNS_MAX = 60

_numbers = itertools.count(1)


class Stepped(PayoutWorker):
    """Rests after each turn until it is let go."""

    def __init__(self, app: Core, rail, owner: str) -> None:
        super().__init__(app, rail, rail.payouts, owner)
        self.may_turn = asyncio.Semaphore(0)
        self.turned = asyncio.Event()

    async def _rest(self) -> None:
        self.turned.set()
        await self.may_turn.acquire()

    async def rest(self) -> None:
        """Rests as that of a service does."""
        await super()._rest()


@dataclass
class Office:
    """Everything between a payout that is asked for and its end.

    `lab.node` stands between worker and chain.
    """

    folder: Path
    lab: Lab
    settings: dict[str, Any]
    store: Store = field(init=False)
    app: App = field(init=False)
    worker: Stepped = field(init=False)
    task: asyncio.Task[None] = field(init=False)

    async def start(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            self.store = await open_store(postgres.place(self.folder))
            stack.push_async_callback(self.store.close)
            await postgres.let_leases_lapse(self.folder)
            chosen = Settings(home=self.folder, **self.settings)
            core = core_of(chosen, self.store, self.lab.clock, [self.lab.rail])
            # there is no book keeper here
            core.chains[CHAIN].books_begun = True
            self.worker = Stepped(core, self.lab.rail, os.urandom(4).hex())
            self.app = app_of(core, payouts=[self.worker])
            self.task = asyncio.create_task(self.worker.run())
            await turned(self.worker.turned, self.task)
            # who stops the office closes it
            stack.pop_all()

    async def stop(self) -> None:
        """Closes the store also if the worker died, which it then tells of."""
        self.task.cancel()
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await self.task
        finally:
            await self.store.close()

    async def restart(self) -> None:
        """Another process takes over; what was not written down is forgotten."""
        await self.stop()
        await self.start()

    async def remember(self) -> None:
        """Keeps a copy of the store, as a standby that lags has it."""
        await self.stop()
        postgres.keep(self.folder)
        await self.start()

    async def forget(self) -> None:
        """Goes on with the copy: the store lost what came since, and the chain did not."""
        await self.stop()
        postgres.put_back(self.folder)
        await self.start()

    async def turn(self, times: int = 1) -> None:
        """Lets the worker go once around."""
        for _ in range(times):
            self.worker.turned.clear()
            self.worker.may_turn.release()
            await turned(self.worker.turned, self.task)

    async def mine(self, blocks: int = 1) -> None:
        """Seals blocks, each seen by the worker; under a profile those of its steps."""
        for part in blocks * self.lab.rhythm.parts:
            await self.lab.rhythm.seal(part)
            await self.turn()

    async def mine_until(self, look: Callable[[], Awaitable[bool]]) -> None:
        """Seals blocks until something is so."""
        for _ in range(TURNS_MAX):
            if await look():
                return
            await self.mine()
        raise AssertionError(f"not so after {TURNS_MAX} blocks: {self.worker.health()}")

    # payouts

    async def asked(self, value: int = 150, **changes: Any) -> Payout:
        """A refund that was asked for, or another payout."""
        number = next(_numbers)
        made = {
            "id": f"rfnd_{number:017}",
            "kind": PayoutKind.REFUND,
            "merchant_id": SHOP,
            "payment_id": f"pay_{number}",
            "live": False,
            "chain_id": CHAIN,
            "asset": TOKEN,
            "value": value,
            "account": account_of(BUYER),
            "created_at_us": self.lab.clock.now_us(),
        }
        payout = Payout(**{**made, **changes})
        await self.store.write(ask_payout(payout))
        return payout

    async def owe(self, value: int, asset: str = TOKEN, merchant: str = SHOP) -> None:
        """Money came in for a merchant."""
        came = Posting(f"wallet:{self.lab.rail.treasury}", f"merchant:{merchant}", asset, value)
        key = f"settle:{next(_numbers)}"
        await self.store.write(ledger.post(key, "settle", None, None, (came,), 0))

    async def now(self, payout: Payout) -> Payout:
        """How a payout stands."""
        found = await self.store.read(payouts.get(payout.id))
        assert found is not None
        return found

    async def refund(self, payout: Payout) -> Refund:
        """The refund that a payout pays."""
        found = await self.store.read(refunds.find_refund(payout.id))
        assert found is not None
        return found

    async def transactions(self) -> list[ChainTx]:
        """What is signed and neither final nor replaced."""
        return await self.store.read(chain_txs.open_txs(CHAIN, TREASURY.address))

    async def done(self, payout: Payout) -> Payout:
        """Seals blocks until the payout is done; checks the books."""
        for _ in range(TURNS_MAX):
            found = await self.now(payout)
            if found.status is PayoutStatus.DONE:
                await self.books()
                return found
            await self.mine()
        raise AssertionError(f"{await self.now(payout)} is not done: {self.worker.health()}")

    async def books(self) -> None:
        assert await self.store.read(ledger.check()) == []
        assert await self.store.read(payouts.check()) == []

    async def transfers(self, to: str = BUYER) -> list[int]:
        """What the treasury has sent to an address, as the chain tells it."""
        topics = [TRANSFERRED, *("0x" + one[2:].rjust(64, "0") for one in (TREASURY.address, to))]
        wanted = {"fromBlock": "0x0", "toBlock": "latest", "topics": topics}
        logs = await self.lab.control.call("eth_getLogs", wanted)
        return [int(log["data"], 16) for log in logs]

    def behind(self) -> str:
        """Why the store is known to lack something; empty if it is not."""
        name = ConditionName.STORE_BEHIND
        (found,) = [one.reason for one in self.worker.health().conditions if one.name is name]
        return found

    async def resume(self) -> None:
        """The operator lets the treasury's key send again."""
        await executors.resume(self.app, self.worker.sender.account)

    async def fault(self, **what: object) -> None:
        await self.lab.control.call("florin_fault", what)


@operation
def ask_payout(payout: Payout):
    """Part of a write: asks for a payout, and for the refund that it pays."""
    if payout.kind is PayoutKind.REFUND:
        unit = f"caip19/{payout.asset}"
        asked = Refund(
            payout.id,
            payout.payment_id or "",
            unit,
            payout.value,
            payout.account,
            RefundStatus.PENDING,
            None,
            payout.created_at_us,
        )
        yield from refunds.create(asked)
    yield from payouts.add(payout)


@contextlib.asynccontextmanager
async def office(
    folder: Path,
    *,
    evm: EvmChains | None = None,
    chain: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[Office]:
    async with contextlib.AsyncExitStack() as stack:
        lab = await open_lab(evm=evm, treasury=TREASURY, **(chain or {}))
        stack.push_async_callback(lab.chain.close)
        stack.push_async_callback(lab.rail.close)
        await lab.give_gas(TREASURY.address, 1)
        await lab.send_tokens(TREASURY.address, FLOAT)
        running = Office(folder, lab, settings)
        await running.start()
        stack.push_async_callback(running.stop)
        yield running


__all__ = ["BUYER", "FLOAT", "SHOP", "TREASURY", "TREASURY_KEY", "Office", "office"]
