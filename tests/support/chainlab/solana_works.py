"""Settler and payout worker on a Solana cluster of a profile, which work when a test lets them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from florin_server.boot.app import app_of, core_of
from florin_server.clock import TestClock
from florin_server.config import Settings
from florin_server.devnet.solana import SOLNET
from florin_server.domain.accounts.account import Partner
from florin_server.domain.payments.payment import Destination, Payment
from florin_server.domain.payouts.payout import Payout, PayoutKind
from florin_server.domain.settlement.chain_txs import Posting
from florin_server.flows.app import App, Links
from florin_server.flows.payments.confirm import confirm
from florin_server.flows.payments.create import NewPayment, create
from florin_server.flows.payments.fetch import fetch
from florin_server.flows.payments.options import options
from florin_server.rails.connection.jsonrpc import LocalTransport
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.store.accounts import destinations, merchants
from florin_server.store.engine.opening import open_store
from florin_server.store.engine.store import Store
from florin_server.store.ledger import ledger
from florin_server.store.payouts import payouts
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from tests.support import payout_lab, postgres, settler_lab
from tests.support.chainlab.profiles import SolanaProfile
from tests.support.evm_lab import START_S, Meddler
from tests.support.settler_lab import BUYER, SHOP
from tests.support.solana import ASSETS, SolanaWallet, transaction_of
from tests.support.solana_kit import Node, opened
from tests.support.solana_lab import MERCHANT, RELAYER, settings
from tests.support.turns import turned

TREASURY = SolanaSigner(b"\x54" * 32)
LAMPORTS = 10**11
TTL_S = 900


@dataclass
class SolanaWorks:
    """Everything between a confirm, or a payout that is asked for, and its end."""

    profile: SolanaProfile
    node: Node
    rail: SolanaRail
    store: Store
    app: App
    workers: tuple[settler_lab.Stepped, payout_lab.Stepped]
    tasks: tuple[asyncio.Task[None], asyncio.Task[None]]

    async def turn(self) -> None:
        """Let both workers go once around."""
        for worker, task in zip(self.workers, self.tasks, strict=True):
            worker.turned.clear()
            worker.may_turn.release()
            await turned(worker.turned, task)

    async def pass_slots(self, slots: int = 1) -> None:
        """Let the time of slots pass, and both workers look after each."""
        for _ in range(slots):
            self.node.clock.advance(self.profile.slot_s)
            await self.turn()

    async def accepted(self, wallet: SolanaWallet) -> Payment:
        """Return a payment that its buyer has confirmed."""
        expires_at = self.node.clock.now_us() // 1_000_000 + TTL_S
        wanted = NewPayment("iso4217/USD", "150", expires_at=expires_at)
        made = await create(self.app, BUYER, SHOP, wanted, lambda _: b"")
        assert isinstance(made, Payment)
        found = (await options(self.app, BUYER, made.id, [wallet.account])).options
        option = next(one for one in found if one.asset == ASSETS[0])
        (action,) = await fetch(self.app, BUYER, made.id, option.id, "")
        told = {"method": action.method, "params": action.params_json}
        signed = wallet.sign(transaction_of({"type": "walletRpc", "data": told}))
        output = json.dumps(signed)
        return await confirm(self.app, BUYER, made.id, option.id, [[output]])

    async def now(self, payment: Payment) -> Payment:
        """Return how a payment stands."""
        found = await self.store.reader.payment(payment.id)
        assert found is not None
        return found

    async def ask_refund(self, wallet: SolanaWallet, value: int) -> Payout:
        """Return a refund that was asked for; it pays the wallet."""
        return await self._ask("rfnd_1", PayoutKind.REFUND, "pay_1", wallet.account, value)

    async def ask_balance(self, value: int) -> Payout:
        """Return a payout to the merchant that was asked for."""
        account = f"{self.rail.chain_id}:{MERCHANT}"
        return await self._ask("pout_1", PayoutKind.BALANCE, None, account, value)

    async def owe(self, value: int) -> None:
        """Book money that came in for the merchant."""
        came = Posting(f"wallet:{self.rail.treasury}", f"merchant:{SHOP.id}", ASSETS[0], value)
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
        await self.store.write(payout_lab.ask_payout(payout))
        return payout

    async def payout(self, payout: Payout) -> Payout:
        """Return how a payout stands."""
        found = await self.store.read(payouts.get(payout.id))
        assert found is not None
        return found

    async def check_books(self) -> None:
        """Assert that the books are whole."""
        assert await self.store.read(ledger.check()) == []
        assert await self.store.read(payouts.check()) == []


@contextlib.asynccontextmanager
async def solana_works(folder: Path, profile: SolanaProfile) -> AsyncIterator[SolanaWorks]:
    """Open a cluster with a relayer and a treasury that can pay, and workers on it."""
    clock = TestClock(START_S * 1_000_000)
    async with contextlib.AsyncExitStack() as stack:
        node = await stack.enter_async_context(
            opened(
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
            settings(treasury=TREASURY.address),
            RELAYER,
            Meddler(LocalTransport(node.chain.handle)),
            TREASURY,
            now=lambda: clock.steady_us() / 1_000_000,
        )
        stack.push_async_callback(rail.close)
        await rail.start()
        store = await open_store(postgres.place(folder))
        stack.push_async_callback(store.close)
        await _write_shop(store)
        links = Links("https://pay.example", frozenset({"pay.example"}))
        core = core_of(Settings(home=folder, discovery_s=30), store, clock, [rail], links=links)
        # there is no book keeper here
        core.chains[rail.chain_id].books_begun = True
        settler = settler_lab.Stepped(core, rail, os.urandom(4).hex())
        payer = payout_lab.Stepped(core, rail, os.urandom(4).hex())
        app = app_of(core, [settler], payouts=[payer])
        tasks = asyncio.create_task(settler.run()), asyncio.create_task(payer.run())
        stack.push_async_callback(_end, tasks)
        await turned(settler.turned, tasks[0])
        await turned(payer.turned, tasks[1])
        yield SolanaWorks(profile, node, rail, store, app, (settler, payer), tasks)


async def tokens_of(works: SolanaWorks, address: str) -> int:
    """Return what an account holds of the first token."""
    return await works.node.tokens(Pubkey.from_string(address))


async def _write_shop(store: Store) -> None:
    partner = Partner("prtn_shop", "Shop", "2026-02-18", "active", START_S * 1_000_000)
    await store.write(merchants.put_partner(partner))
    await store.write(merchants.put_merchant(SHOP))
    account = f"{SOLNET.chain_id}:{MERCHANT}"
    place = Destination("crypto_1", SHOP.id, ASSETS[0], account)
    await store.write(destinations.put_destination(place))


async def _end(tasks: tuple[asyncio.Task[None], ...]) -> None:
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
