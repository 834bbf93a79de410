"""A settler on a real store and an embedded chain, which works only when a test lets it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eth_account.signers.local import LocalAccount
from florin_server.boot.app import app_of, core_of
from florin_server.config import Settings
from florin_server.domain.accounts.account import Partner
from florin_server.domain.payments.payment import Destination, Merchant, Payment
from florin_server.flows.app import App, Caller, Core, Links
from florin_server.flows.payments.confirm import confirm
from florin_server.flows.payments.create import NewPayment, create
from florin_server.flows.payments.options import options
from florin_server.rails.evm.sending.transactions import Signer
from florin_server.store.accounts import destinations, merchants
from florin_server.store.engine.opening import open_store
from florin_server.store.engine.query import operation
from florin_server.store.engine.store import Store
from florin_server.store.ledger import ledger
from florin_server.store.operator import executors
from florin_server.store.payments import payments
from florin_server.store.settlement import chain_txs
from florin_server.workers.settlement.settle import ChainSettler

from tests.support import postgres
from tests.support.chains import EvmChains
from tests.support.evm_lab import (
    CHAIN,
    MERCHANT,
    RELAYER,
    START_S,
    TOKEN,
    Lab,
    account_of,
    open_lab,
    signed,
)
from tests.support.turns import turned

SHOP = Merchant("mrch_shop", "prtn_shop", "Shop", "s@shop.example", None, "active", False, 0)
BUYER = Caller(live=False)
TURNS_MAX = 60


class Stepped(ChainSettler):
    """Rests after each turn until it is let go."""

    def __init__(self, app: Core, rail, owner: str, pauses: Container[str] = ()) -> None:
        super().__init__(app, rail, owner, pauses)
        self.may_turn = asyncio.Semaphore(0)
        self.turned = asyncio.Event()

    async def _rest(self) -> None:
        self.turned.set()
        await self.may_turn.acquire()

    async def rest(self) -> None:
        """Rests as that of a service does."""
        await super()._rest()


@dataclass
class Works:
    """Everything between a confirm and its end. `lab.node` stands between settler and chain."""

    folder: Path
    lab: Lab
    store: Store
    app: App
    settler: Stepped
    task: asyncio.Task[None]

    async def turn(self, times: int = 1) -> None:
        """Lets the settler go once around."""
        for _ in range(times):
            self.settler.turned.clear()
            self.settler.may_turn.release()
            await turned(self.settler.turned, self.task)

    async def mine(self, blocks: int = 1) -> None:
        """Seals blocks, each seen by the settler; under a profile those of its steps."""
        for part in blocks * self.lab.rhythm.parts:
            await self.lab.rhythm.seal(part)
            await self.turn()

    async def mine_until(self, look: Callable[[], Awaitable[bool]]) -> None:
        """Seals blocks until something is so."""
        for _ in range(TURNS_MAX):
            if await look():
                return
            await self.mine()
        raise AssertionError(f"not so after {TURNS_MAX} blocks: {self.settler.health()}")

    async def restart(self) -> None:
        """Another process takes over; what was not written down is forgotten."""
        await self.stop()
        await self.begin()

    async def begin(self) -> None:
        """Begins what was stopped anew."""
        self.store, self.app, self.settler, self.task = await _start(self.folder, self.lab)

    async def stop(self) -> None:
        """Closes the store also if the settler died, which it then tells of."""
        self.task.cancel()
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await self.task
        finally:
            await self.store.close()

    # payments

    async def accepted(self, wallet: LocalAccount, value: int = 150, ttl_s: int = 900) -> Payment:
        """A payment that its buyer has confirmed."""
        payment_id = await self.unpaid(value, ttl_s)
        (option,) = (await options(self.app, BUYER, payment_id, [account_of(wallet)])).options
        outputs = [[signed(wallet, option)]]
        accepted = await confirm(self.app, BUYER, payment_id, option.id, outputs)
        assert accepted.status == "processing"
        return accepted

    async def unpaid(self, value: int = 150, ttl_s: int = 900) -> str:
        """The id of a payment that waits for its buyer."""
        wanted = NewPayment(
            "iso4217/USD", str(value), expires_at=self.lab.clock.now_us() // 1_000_000 + ttl_s
        )
        made = await create(self.app, BUYER, SHOP, wanted, lambda _: b"")
        assert isinstance(made, Payment)
        return made.id

    async def now(self, payment: Payment) -> Payment:
        """How a payment stands."""
        found = await self.store.reader.payment(payment.id)
        assert found is not None
        return found

    async def status(self, payment: Payment) -> str:
        return str((await self.now(payment)).status)

    async def item(self, payment: Payment):
        """A payment as the settler sees it."""
        unsettled = await self.store.read(chain_txs.unsettled(CHAIN))
        return next(item for item in unsettled if item.payment.id == payment.id)

    async def transactions(self, sender: str = RELAYER.address):
        """What is signed and neither final nor replaced."""
        return await self.store.read(chain_txs.open_txs(CHAIN, sender))

    async def base_fee(self, wei: int) -> None:
        """What the next block takes for gas; later ones change it little by little."""
        await self.fault(kind="baseFee", wei=hex(wei))

    async def end(self, payment: Payment) -> Payment:
        """Seals blocks until the payment is final; checks that it was booked as it ended."""

        async def ended() -> bool:
            return (await self.now(payment)).status.is_final

        await self.mine_until(ended)
        found = await self.now(payment)
        await self.check(found)
        return found

    async def check(self, *ended: Payment) -> None:
        """The money moved exactly once for what succeeded and never for the rest."""
        assert await self.store.read(ledger.check()) == []
        for payment in ended:
            option = await self.store.read(payments.option(payment.id, payment.option_id or ""))
            assert option is not None
            events = await self.lab.rail.direct.paid([self.lab.rail.terms.reference(option)], 0)
            proofs = [event for event in events if self.lab.rail.terms.proves(option, event)]
            assert [event.tx_hash for event in proofs] == (
                [payment.tx_id] if payment.status == "succeeded" else []
            )
            versions = [e.version for e in await self.store.read(payments.events(payment.id))]
            assert versions == list(range(payment.version + 1))

    async def fault(self, **what: object) -> None:
        await self.lab.control.call("florin_fault", what)


@contextlib.asynccontextmanager
async def works(
    folder: Path,
    more: Sequence[Signer] = (),
    *,
    evm: EvmChains | None = None,
    **changes: Any,
) -> AsyncIterator[Works]:
    async with contextlib.AsyncExitStack() as stack:
        lab = await open_lab(more=more, evm=evm, **changes)
        stack.push_async_callback(lab.chain.close)
        stack.push_async_callback(lab.rail.close)
        running = Works(folder, lab, *await _start(folder, lab, first=True))
        stack.push_async_callback(running.stop)
        yield running


@operation
def without_destination():
    """The shop's money is kept by the treasury from now on."""
    assert (yield from destinations.delete(SHOP.id, "crypto_1"))


async def _start(
    folder: Path, lab: Lab, *, first: bool = False
) -> tuple[Store, App, Stepped, asyncio.Task[None]]:
    async with contextlib.AsyncExitStack() as stack:
        store = await open_store(postgres.place(folder))
        stack.push_async_callback(store.close)
        await postgres.let_leases_lapse(folder)
        if first:
            partner = Partner("prtn_shop", "Shop", "2026-02-18", "active", START_S * 1_000_000)
            await store.write(merchants.put_partner(partner))
            await store.write(merchants.put_merchant(SHOP))
            destination = Destination("crypto_1", SHOP.id, TOKEN, account_of(MERCHANT))
            await store.write(destinations.put_destination(destination))
        links = Links("https://pay.example", frozenset({"pay.example"}))
        chosen = Settings(home=folder, discovery_s=30)
        core = core_of(chosen, store, lab.clock, [lab.rail], links=links)
        # there is no book keeper here
        core.chains[CHAIN].books_begun = True
        pauses = await store.read(executors.pauses())
        settler = Stepped(core, lab.rail, os.urandom(4).hex(), pauses)
        app = app_of(core, [settler])
        task = asyncio.create_task(settler.run())
        await turned(settler.turned, task)
        # who stops the works closes it
        stack.pop_all()
    return store, app, settler, task


__all__ = ["CHAIN", "MERCHANT", "RELAYER", "TOKEN", "Works", "works"]
