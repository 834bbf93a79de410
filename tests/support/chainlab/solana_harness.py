"""Settler and payout worker on a Solana cluster of a profile, stepped by the test."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.accounts.store import destinations, merchants
from florin_server.app.app import build_app, build_core
from florin_server.app.core import App
from florin_server.base.clock import TestClock
from florin_server.db.engine.store import Store
from florin_server.domain.accounts.account import Partner
from florin_server.domain.payments.links import CheckoutLinks
from florin_server.domain.payments.payment import Destination, Payment
from florin_server.domain.payouts.payout import Payout, PayoutKind
from florin_server.domain.settlement.chain_txs import LedgerPosting
from florin_server.money.ledger.store import ledger
from florin_server.money.open_store import open_store
from florin_server.money.payments.service.confirm import confirm
from florin_server.money.payments.service.create import NewPayment, create
from florin_server.money.payments.service.fetch import fetch
from florin_server.money.payments.service.options import list_options
from florin_server.money.payouts.store import payouts
from florin_server.rails.connection.jsonrpc import LocalTransport
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.settings import Settings
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from tests.support import payout_harness, postgres, settlement_harness
from tests.support.chainlab.profiles import SolanaProfile
from tests.support.evm_harness import START_S, TamperingTransport
from tests.support.settlement_harness import BUYER, SHOP
from tests.support.solana import ASSETS, SolanaTestWallet, get_transaction
from tests.support.solana_devnet import SolanaDevnetNode, open_node
from tests.support.solana_rail_harness import MERCHANT, RELAYER, make_chain_settings
from tests.support.worker_turns import wait_turn

TREASURY = SolanaSigner(b"\x54" * 32)
LAMPORTS = 10**11
TTL_S = 900


@dataclass
class SolanaHarness:
    """The path from a confirm, or a requested payout, to its end."""

    profile: SolanaProfile
    node: SolanaDevnetNode
    rail: SolanaRail
    store: Store
    app: App
    workers: tuple[settlement_harness.SteppedSettler, payout_harness.SteppedPayoutWorker]
    tasks: tuple[asyncio.Task[None], asyncio.Task[None]]

    async def turn(self) -> None:
        """Run one turn of both workers."""
        for worker, task in zip(self.workers, self.tasks, strict=True):
            worker.turn_done.clear()
            worker.may_turn.release()
            await wait_turn(worker.turn_done, task)

    async def pass_slots(self, slots: int = 1) -> None:
        """Let the time of slots pass, and run both workers after each."""
        for _ in range(slots):
            self.node.clock.advance(self.profile.slot_s)
            await self.turn()

    async def create_processing_payment(self, wallet: SolanaTestWallet) -> Payment:
        """Return a payment that its buyer has confirmed."""
        expires_at = self.node.clock.now_us() // 1_000_000 + TTL_S
        new_payment = NewPayment("iso4217/USD", "150", expires_at=expires_at)
        created = await create(self.app, BUYER, SHOP, new_payment, lambda _: b"")
        assert isinstance(created, Payment)
        options = (await list_options(self.app, BUYER, created.id, [wallet.account])).options
        option = next(each_option for each_option in options if each_option.asset == ASSETS[0])
        (action,) = await fetch(self.app, BUYER, created.id, option.id, "")
        result = {"method": action.method, "params": action.params_json}
        signed = wallet.sign(get_transaction({"type": "walletRpc", "data": result}))
        output = json.dumps(signed)
        return await confirm(self.app, BUYER, created.id, option.id, [[output]])

    async def get_payment(self, payment: Payment) -> Payment:
        """Return the current state of a payment."""
        found_payment = await self.store.payments.find(payment.id)
        assert found_payment is not None
        return found_payment

    async def ask_refund(self, wallet: SolanaTestWallet, value: int) -> Payout:
        """Request a refund that pays the wallet; return its payout."""
        return await self._ask("rfnd_1", PayoutKind.REFUND, "pay_1", wallet.account, value)

    async def ask_balance(self, value: int) -> Payout:
        """Request a payout of the merchant's balance; return it."""
        account = f"{self.rail.chain_id}:{MERCHANT}"
        return await self._ask("pout_1", PayoutKind.BALANCE, None, account, value)

    async def book_owed(self, value: int) -> None:
        """Book money that came in for the merchant."""
        came = LedgerPosting(
            f"wallet:{self.rail.treasury}", f"merchant:{SHOP.id}", ASSETS[0], value
        )
        await self.store.write(ledger.post("settle:1", "settle", None, None, (came,), 0))

    async def _ask(
        self, id_: str, kind: PayoutKind, payment_id: str | None, account: str, value: int
    ) -> Payout:
        payout = Payout(
            id=id_,
            kind=kind,
            merchant_id=SHOP.id,
            payment_id=payment_id,
            live=False,
            chain_id=self.rail.chain_id,
            asset=ASSETS[0],
            value=value,
            account=account,
            created_at_us=self.node.clock.now_us(),
        )
        await self.store.write(payout_harness.create_payout(payout))
        return payout

    async def payout(self, payout: Payout) -> Payout:
        """Return the current state of a payout."""
        found_payout = await self.store.read(payouts.find(payout.id))
        assert found_payout is not None
        return found_payout

    async def check_books(self) -> None:
        """Assert that the books balance."""
        assert await self.store.read(ledger.check()) == []
        assert await self.store.read(payouts.check()) == []


@contextlib.asynccontextmanager
async def open_solana_harness(folder: Path, profile: SolanaProfile) -> AsyncIterator[SolanaHarness]:
    """Open a cluster with a relayer and a treasury that can pay, and workers on it."""
    clock = TestClock(START_S * 1_000_000)
    async with contextlib.AsyncExitStack() as stack:
        node = await stack.enter_async_context(
            open_node(
                clock=clock,
                slot_s=profile.slot_s,
                confirmed_slots=profile.confirmed_slots,
                finalized_slots=profile.finalized_slots,
            )
        )
        keys = [Keypair.from_seed(seed) for seed in (b"\x52" * 32, b"\x54" * 32)]
        await node.fund(*keys, lamports=LAMPORTS)
        clock.advance((profile.finalized_slots + 2) * profile.slot_s)
        rail = SolanaRail(
            make_chain_settings(treasury=TREASURY.address),
            RELAYER,
            TamperingTransport(LocalTransport(node.chain.handle)),
            TREASURY,
            now=lambda: clock.steady_us() / 1_000_000,
        )
        stack.push_async_callback(rail.close)
        await rail.start()
        store = await open_store(postgres.get_store_location(folder))
        stack.push_async_callback(store.close)
        await _write_merchant(store)
        links = CheckoutLinks("https://pay.example", frozenset({"pay.example"}))
        core = build_core(Settings(home=folder, discovery_s=30), store, clock, [rail], links=links)
        # there is no book keeper here
        core.chains[rail.chain_id].has_opening_balances = True
        settler = settlement_harness.SteppedSettler(core, rail, os.urandom(4).hex())
        payer = payout_harness.SteppedPayoutWorker(core, rail, os.urandom(4).hex())
        app = build_app(core, [settler], payouts=[payer])
        tasks = asyncio.create_task(settler.run()), asyncio.create_task(payer.run())
        stack.push_async_callback(_stop_tasks, tasks)
        await wait_turn(settler.turn_done, tasks[0])
        await wait_turn(payer.turn_done, tasks[1])
        yield SolanaHarness(profile, node, rail, store, app, (settler, payer), tasks)


async def get_token_balance(works: SolanaHarness, address: str) -> int:
    """Return the balance of an account in the first token."""
    return await works.node.tokens(Pubkey.from_string(address))


async def _write_merchant(store: Store) -> None:
    partner = Partner("prtn_shop", "Shop", "2026-02-18", "active", START_S * 1_000_000)
    await store.write(merchants.put_partner(partner))
    await store.write(merchants.put_merchant(SHOP))
    account = f"{SOLANA_DEVNET.chain_id}:{MERCHANT}"
    place = Destination("crypto_1", SHOP.id, ASSETS[0], account)
    await store.write(destinations.put_destination(place))


async def _stop_tasks(tasks: tuple[asyncio.Task[None], ...]) -> None:
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
