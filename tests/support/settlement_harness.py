"""A settler on a real store and an embedded chain, stepped by the test."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eth_account.signers.local import LocalAccount
from florin_server.accounts.store import destinations, merchants
from florin_server.app.app import build_app, build_core
from florin_server.app.core import App, Core
from florin_server.db.engine.query import operation
from florin_server.db.engine.store import Store
from florin_server.domain.accounts.account import Partner
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.payments.links import CheckoutLinks
from florin_server.domain.payments.payment import Destination, Merchant, Payment
from florin_server.money.ledger.store import ledger
from florin_server.money.open_store import open_store
from florin_server.money.payments.service.confirm import confirm
from florin_server.money.payments.service.create import NewPayment, create
from florin_server.money.payments.service.options import list_options
from florin_server.money.payments.store import payments
from florin_server.money.settlement.store import chain_txs, settlement_items
from florin_server.money.settlement.worker.settle import ChainSettler
from florin_server.operations.service.executors import pause
from florin_server.operations.store import executors
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.settings import Settings

from tests.support import postgres
from tests.support.chains import EvmChains
from tests.support.evm_harness import (
    CHAIN,
    MERCHANT,
    RELAYER,
    START_S,
    TOKEN,
    EvmChainHarness,
    open_lab,
    sign_option,
    to_account,
)
from tests.support.worker_turns import wait_turn

SHOP = Merchant("mrch_shop", "prtn_shop", "Shop", "s@shop.example", None, "active", False, 0)
BUYER = Caller(live=False)
TURNS_MAX = 60


class SteppedSettler(ChainSettler):
    """Waits after each turn until the test releases it."""

    def __init__(self, app: Core, rail, owner: str, pauses: Container[str] = ()) -> None:
        super().__init__(app, rail, owner, pauses)
        self.may_turn = asyncio.Semaphore(0)
        self.turn_done = asyncio.Event()

    async def _wait(self) -> None:
        self.turn_done.set()
        await self.may_turn.acquire()

    async def rest(self) -> None:
        """Wait as a service's worker does."""
        await super()._wait()


@dataclass
class SettlementHarness:
    """The path from a confirm to its end. `lab.node` is between settler and chain."""

    folder: Path
    lab: EvmChainHarness
    store: Store
    app: App
    settler: SteppedSettler
    task: asyncio.Task[None]

    async def turn(self, times: int = 1) -> None:
        """Run so many turns of the settler."""
        for _ in range(times):
            self.settler.turn_done.clear()
            self.settler.may_turn.release()
            await wait_turn(self.settler.turn_done, self.task)

    async def mine(self, blocks: int = 1) -> None:
        """Seal blocks, each seen by the settler; under a profile those of its steps."""
        for part in blocks * self.lab.rhythm.parts:
            await self.lab.rhythm.seal(part)
            await self.turn()

    async def mine_until(self, look: Callable[[], Awaitable[bool]]) -> None:
        """Seal blocks until a condition holds."""
        for _ in range(TURNS_MAX):
            if await look():
                return
            await self.mine()
        raise AssertionError(f"not so after {TURNS_MAX} blocks: {self.settler.health()}")

    async def restart(self) -> None:
        """Continue in another process; unwritten state is lost."""
        await self.stop()
        await self.begin()

    async def begin(self) -> None:
        """Start the stopped settler again."""
        self.store, self.app, self.settler, self.task = await _start(self.folder, self.lab)

    async def stop(self) -> None:
        """Close the store even if the settler died; then raise the settler's error."""
        self.task.cancel()
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await self.task
        finally:
            await self.store.close()

    # payments

    async def create_processing_payment(
        self,
        wallet: LocalAccount,
        value: int = 150,
        ttl_s: int = 900,
        *,
        paused: Sequence[str] = (),
    ) -> Payment:
        """Return a payment that its buyer has confirmed; executors are `paused` before that."""
        payment_id = await self.create_unpaid(value, ttl_s)
        (option,) = (await list_options(self.app, BUYER, payment_id, [to_account(wallet)])).options
        for executor_id in paused:
            await pause(self.app, executor_id)
        outputs = [[sign_option(wallet, option)]]
        accepted = await confirm(self.app, BUYER, payment_id, option.id, outputs)
        assert accepted.status == "processing"
        return accepted

    async def create_unpaid(self, value: int = 150, ttl_s: int = 900) -> str:
        """Return the id of a payment that waits for its buyer."""
        new_payment = NewPayment(
            "iso4217/USD", str(value), expires_at=self.lab.clock.now_us() // 1_000_000 + ttl_s
        )
        created = await create(self.app, BUYER, SHOP, new_payment, lambda _: b"")
        assert isinstance(created, Payment)
        return created.id

    async def get_payment(self, payment: Payment) -> Payment:
        """Return the current state of a payment."""
        found_payment = await self.store.payments.find(payment.id)
        assert found_payment is not None
        return found_payment

    async def status(self, payment: Payment) -> str:
        return str((await self.get_payment(payment)).status)

    async def get_item(self, payment: Payment):
        """Return a payment as the settler sees it."""
        unsettled = await self.store.read(settlement_items.list_unsettled(CHAIN))
        return next(item for item in unsettled if item.payment.id == payment.id)

    async def transactions(self, sender: str = RELAYER.address):
        """Return the transactions that are signed and neither final nor replaced."""
        return await self.store.read(chain_txs.list_open(CHAIN, sender))

    async def base_fee(self, wei: int) -> None:
        """Set the next block's base fee in wei; later blocks change it gradually."""
        await self.fault(kind="baseFee", wei=hex(wei))

    async def run_to_end(self, payment: Payment) -> Payment:
        """Seal blocks until the payment is final; check that it was booked as it ended."""

        async def ended() -> bool:
            return (await self.get_payment(payment)).status.is_final

        await self.mine_until(ended)
        found_payment = await self.get_payment(payment)
        await self.check(found_payment)
        return found_payment

    async def check(self, *ended: Payment) -> None:
        """Assert that money moved exactly once for what succeeded and never for the rest."""
        assert await self.store.read(ledger.check()) == []
        for payment in ended:
            option = await self.store.read(
                payments.find_option(payment.id, payment.option_id or "")
            )
            assert option is not None
            events = await self.lab.rail.direct_settlement.list_settlement_events(
                [self.lab.rail.terms.get_reference(option)], 0
            )
            proofs = [event for event in events if self.lab.rail.terms.is_proven(option, event)]
            assert [event.tx_hash for event in proofs] == (
                [payment.tx_id] if payment.status == "succeeded" else []
            )
            versions = [e.version for e in await self.store.read(payments.list_events(payment.id))]
            assert versions == list(range(payment.version + 1))

    async def fault(self, **what: object) -> None:
        await self.lab.control.call("florin_fault", what)


@contextlib.asynccontextmanager
async def open_settlement_harness(
    folder: Path,
    more: Sequence[EvmSigner] = (),
    *,
    evm: EvmChains | None = None,
    **changes: Any,
) -> AsyncIterator[SettlementHarness]:
    async with contextlib.AsyncExitStack() as stack:
        lab = await open_lab(more=more, evm=evm, **changes)
        stack.push_async_callback(lab.chain.close)
        stack.push_async_callback(lab.rail.close)
        running = SettlementHarness(folder, lab, *await _start(folder, lab, first=True))
        stack.push_async_callback(running.stop)
        yield running


@operation
def remove_destination():
    """Remove the merchant's destination: the treasury keeps its money from now on."""
    assert (yield from destinations.delete(SHOP.id, "crypto_1"))


async def _start(
    folder: Path, lab: EvmChainHarness, *, first: bool = False
) -> tuple[Store, App, SteppedSettler, asyncio.Task[None]]:
    async with contextlib.AsyncExitStack() as stack:
        store = await open_store(postgres.get_store_location(folder))
        stack.push_async_callback(store.close)
        await postgres.let_leases_lapse(folder)
        if first:
            partner = Partner("prtn_shop", "Shop", "2026-02-18", "active", START_S * 1_000_000)
            await store.write(merchants.put_partner(partner))
            await store.write(merchants.put_merchant(SHOP))
            destination = Destination("crypto_1", SHOP.id, TOKEN, to_account(MERCHANT))
            await store.write(destinations.put_destination(destination))
        links = CheckoutLinks("https://pay.example", frozenset({"pay.example"}))
        chosen = Settings(home=folder, discovery_s=30)
        core = build_core(chosen, store, lab.clock, [lab.rail], links=links)
        # there is no book keeper here
        core.chains[CHAIN].has_opening_balances = True
        pauses = await store.read(executors.list_pauses())
        settler = SteppedSettler(core, lab.rail, os.urandom(4).hex(), pauses)
        app = build_app(core, [settler])
        task = asyncio.create_task(settler.run())
        await wait_turn(settler.turn_done, task)
        # the code that stops the harness closes it
        stack.pop_all()
    return store, app, settler, task


__all__ = ["CHAIN", "MERCHANT", "RELAYER", "TOKEN", "SettlementHarness", "open_settlement_harness"]
