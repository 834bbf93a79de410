"""Set up a round of the poison-pill campaign, so that workers make all their calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

from florin_server.accounts.store import destinations
from florin_server.app.workers import BackgroundTasks
from florin_server.domain.payouts.held_money import HeldMoneyState
from florin_server.domain.payouts.payout import PayoutStatus
from florin_server.domain.quarantine import QuarantinedItemKind, QuarantinedItemState
from florin_server.features.event_sink.service.nats_broker import NatsBroker
from florin_server.features.event_sink.store import queue
from florin_server.features.monitoring.service import quarantine
from florin_server.features.webhooks.store import claims
from florin_server.money.ledger.service import books
from florin_server.money.payments.service.recover_address import recover_address
from florin_server.money.payments.service.watch import watch_payout
from florin_server.money.payouts.service import held_money as verdicts
from florin_server.money.payouts.service import payouts as merchant_payouts
from florin_server.money.payouts.store import held_money, payouts
from florin_server.money.settlement.store import chain_txs, settlement_items
from florin_server.money.settlement.worker import missed_blocks
from florin_server.settings import X402Settings
from florin_server.settings.event_sink import EventSinkSettings
from solders.keypair import Keypair

from tests.chaos.poison_chain import ChainFaults, crowd_fees
from tests.chaos.poison_purchases import (
    CoinPayment,
    Sale,
    X402Purchase,
    block_addresses,
    list_sales,
    open_solana_shop,
    overpay,
)
from tests.chaos.poison_receivers import FLAKY, BackEnd, Deliveries, MemoryBroker, lose_secrets
from tests.chaos.poison_round import Round
from tests.support.addresses import CHAIN as EVM
from tests.support.addresses import COIN, AddressPurchase, open_purchases, pay_purchases
from tests.support.books import SETTINGS
from tests.support.http_stub import serve_stub
from tests.support.late_money import DOLLARS, submit_authorization
from tests.support.payout_merchant import (
    DOLLAR,
    GBP,
    PRICE,
    USD,
    PayoutMerchant,
    wait_faucet_booked,
)
from tests.support.poison import FaultInjector
from tests.support.receiver import OK, WebhookReceiver
from tests.support.service_harness import PartnerTenant, PaymentOffer, ServiceHarness, open_service
from tests.support.solana import ASSETS, INSTANT_SOLANA, SolanaNodeClient, SolanaTestWallet
from tests.support.solana_accounts import CHAIN as SOLANA
from tests.support.solana_accounts import get_token_account, has_account, queue_accounts
from tests.support.solana_durable import list_free_nonces
from tests.support.solana_offers import SolanaOffer, make_offer
from tests.support.ticking_chain import TickingEmbeddedChains
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet
from tests.support.webhook_merchant import WebhookMerchant

_LATE_S = 905  # payments have expired after that
_MINUTE_S = 61
_CHECKED_S = 6  # a check of a transfer by x402 is older than it may be
_TURNS = 5
_PLENTY = 10_000
_SOLANA = INSTANT_SOLANA.model_copy(
    update={
        "durable_nonces": 2,
        "accounts_a_day": _PLENTY,
        "accounts_a_merchant_day": _PLENTY,
        "accounts_a_partner_day": _PLENTY,
    }
)
_HOOKS, _LOST = "/hooks", "/lost"
_NOWHERE = "0x" + "5c" * 20  # an account without an owner
_SENT_WAYS = ((USD, DOLLARS), (USD, DOLLARS), (GBP, COIN))
_OVERPAID = 2  # how many of these
_UNKNOWN_TX = "0x" + "ab" * 32


@dataclass
class Campaign:
    """One service, and its rounds."""

    desk: ServiceHarness
    shop: WebhookMerchant
    node: SolanaNodeClient
    injector: FaultInjector
    stranger: EvmTestWallet
    back_end: BackEnd
    deliveries: Deliveries
    workers: BackgroundTasks
    lost: set[str]  # endpoints whose secrets cannot be read
    broker: MemoryBroker
    solana_shop: PartnerTenant  # has an account on Solana, as transfers by x402 require there
    sold: list[Sale] = field(default_factory=list)  # in the previous round, to be refunded
    sold_on_solana: list[Sale] = field(default_factory=list)

    async def round(self, arm: Callable[[Round], None] | None = None) -> int:
        """Run one round; return how many items were quarantined."""
        current = Round(self.desk)
        payment_run = PaymentRun(self, current)
        await payment_run.prepare()
        self.injector.watched = current.poisoned if arm is None else ()
        if arm is not None:
            arm(current)
        self.workers = BackgroundTasks(self.desk.service.app, self.workers._worker_set)  # noqa: SLF001
        await payment_run.run()
        self.injector.disarm()
        items = await quarantine.list_items(self.desk.service.app, include_closed=False)
        await payment_run.end()
        assert await self.workers.find_problems() == {}
        return len(items)

    async def check(self) -> None:
        """Check the books, and that nothing waits."""
        check = await books.check(self.desk.service.app)
        assert list(check.problems) == []
        left = await quarantine.list_items(self.desk.service.app, include_closed=True)
        assert {item.state for item in left} <= {QuarantinedItemState.RETRIED}
        assert self.broker.list_unordered() == []


class PaymentRun:
    """One round: the preparation while no worker runs, and the events after that."""

    def __init__(self, campaign: Campaign, current: Round) -> None:
        self._campaign = campaign
        self._current = current
        self._desk, self._shop = campaign.desk, campaign.shop
        self._app = campaign.desk.service.app
        self._headers = campaign.shop.tenant.headers
        self._chain = ChainFaults(campaign.desk, campaign.node, current)
        self._signed: list[PaymentOffer] = []
        self._carried: list[PaymentOffer] = []
        self._coins: list[SolanaOffer] = []
        self._late: list[CoinPayment] = []
        self._held: list[CoinPayment] = []
        self._slow: list[CoinPayment] = []  # their wallets name another transaction than they send
        self._sent: list[AddressPurchase] = []
        self._by_program: list[X402Purchase] = []
        self._by_program_on_solana: list[X402Purchase] = []
        self._watchers: list[asyncio.Task[None]] = []
        self._poor = EvmTestWallet()  # has enough for one of its two payments
        self._endpoint = ""

    async def prepare(self) -> None:
        """Create the items of a round; workers stop now, and start again with `run`."""
        current = self._current
        # it takes a durable nonce and leaves it, so that the nonce must be advanced
        abandoned = await make_offer(self._desk.rest, SolanaTestWallet(), 0, self._headers)
        current.add_payment("abandoned on Solana", abandoned.payment_id, ends_late=True)
        kinds = (QuarantinedItemKind.DURABLE_NONCE, QuarantinedItemKind.TRANSACTION)
        current.add("durable nonces", [], self._are_nonces_free, kinds, ends_late=True)
        self._signed = [await self._make_offer() for _ in range(3)]
        self._carried = [await self._make_offer() for _ in range(2)]
        await self._chain.leave_balance(self._poor, PRICE)
        shared = [await self._desk.offer(self._poor, tenant=self._shop.tenant) for _ in range(2)]
        self._coins = [
            await make_offer(self._desk.rest, SolanaTestWallet(), 0, self._headers)
            for _ in range(2)
        ]
        expiring = [await self._create_payment(USD) for _ in range(2)]
        for n, payment_id in enumerate(expiring):
            current.add_payment(f"expiring {n}", payment_id, poison=n == 0, ends_late=True)
        self._late = [await self._create_coin_payment() for _ in range(2)]
        self._held = [await self._create_coin_payment() for _ in range(2)]
        self._slow = [await self._create_coin_payment()]
        self._sent = await open_purchases(self._desk, self._create_payment, _SENT_WAYS)
        create, tenant = self._create_payment, self._campaign.solana_shop
        for _ in range(2):
            self._by_program.append(await X402Purchase.create(self._desk, await create(USD)))
            self._by_program_on_solana.append(
                await X402Purchase.create_on_solana(
                    self._desk, self._campaign.node, await create(USD, tenant)
                )
            )
        created = await self._shop.endpoint(_LOST)
        self._endpoint = created["endpoint"]["id"]
        self._campaign.lost.add(self._endpoint)
        for n, offer in enumerate([*self._signed, *shared]):
            current.add_payment(f"signed {n}", offer.payment_id, poison=n == 0)
        for n, coin in enumerate(self._coins):
            current.add_payment(f"on Solana {n}", coin.payment_id, poison=n == 0)
        await self._campaign.workers.stop()
        await self._chain.stop_mining()
        for late in self._late:
            # a dead process claimed the deliveries that are due now
            path = f"/v1/payments/{late.payment_id}/cancel"
            await self._desk.rest.call("POST", path, self._headers, {})
        purchases = (*self._by_program, *self._by_program_on_solana)
        await asyncio.gather(*(purchase.submit() for purchase in purchases))
        # a transfer that waited is checked again before it is sent
        self._desk.clock.advance(_CHECKED_S)
        now_us = self._app.clock.now_us()
        await self._app.store.write(claims.claim(now_us, 1_000_000, [], 1))
        for offer in shared:
            await self._desk.confirm(offer)
        for slow in self._slow:
            await self._desk.rest.confirm(slow.payment_id, slow.option_id, [_UNKNOWN_TX])
            current.add_payment("slow", slow.payment_id, QuarantinedItemKind.EVENT)
        blocked = [coin.wallet.address for coin in self._held]
        await block_addresses(
            self._app, *blocked, *(sold.account for sold in self._campaign.sold[-1:])
        )

    async def run(self) -> None:
        """Act while a fault is armed; return once everything that can finish has finished."""
        current = self._current
        self._campaign.back_end.refuses = self._campaign.broker.refuses = True
        self._watch_payment(self._signed[0].payment_id)
        await self._request_payouts()
        await queue_accounts(
            self._desk, self._shop.tenant, receiver := str(Keypair().pubkey()), ASSETS[0]
        )
        current.add(
            "token account",
            [f"{SOLANA}:{receiver}"],
            lambda: has_account(self._campaign.node, get_token_account(receiver)),
            [QuarantinedItemKind.TOKEN_ACCOUNT, QuarantinedItemKind.TRANSACTION],
            poison=True,
        )
        self._app.icons.request(f"https://127.0.0.1/{receiver}.png", self._shop.tenant.partner.id)
        await asyncio.gather(
            *(self._desk.confirm(offer) for offer in self._signed),
            *(c.confirm() for c in self._coins),
        )
        for purchases in (self._by_program, self._by_program_on_solana):
            for n, purchase in enumerate(purchases):
                item = current.add_payment("by x402", purchase.payment_id, poison=n == 0)
                self._watchers.append(asyncio.create_task(purchase.pay(item.is_done)))
        fronted = self._signed[-1]
        await self._chain.raise_fees(
            lambda: submit_authorization(
                self._desk, self._campaign.stranger, fronted.wallet, fronted
            )
        )
        await self._revert_payment()
        await wait_faucet_booked(self._desk, self._poor)
        await self._send_directly()
        await current.finish()
        if current.leaves_poisoned:
            # nothing waits for the poisoned items, but they must reach their fault
            for _ in range(_TURNS):
                await current.pass_time()
        self._desk.clock.advance(_LATE_S)
        current.late = True
        await block_addresses(self._app)
        for n, purchase in enumerate(self._sent[:_OVERPAID]):
            # what was sent to an address besides its price
            await recover_address(self._app, purchase.payment_id, EVM, DOLLARS)
            current.add_return(f"overpaid {n}", purchase.payment_id, poison=n == 0)
        await current.finish()
        await self._reorganize()

    async def end(self) -> None:
        """Finish all quarantined items and all deliveries."""
        campaign = self._campaign
        await self._chain.recover()
        await self._current.finish(last=True)
        await wait_until(self._is_settled, meanwhile=self._current.pass_time)
        paths = (_HOOKS, FLAKY)
        ids = [
            *(offer.payment_id for offer in (*self._signed, *self._carried)),
            *(coin.payment_id for coin in (*self._coins, *self._late)),
            *(purchase.payment_id for purchase in self._by_program),
        ]

        async def list_undelivered() -> list[str]:
            has = campaign.deliveries.has
            return [name for name in ids for path in paths if not has(path, name)]

        async def count_unpublished() -> int:
            return (await self._app.store.scan(queue.get_stats())).waiting_count

        await wait_until(list_undelivered, [], meanwhile=self._current.pass_time)
        await wait_until(count_unpublished, 0, meanwhile=self._current.pass_time)
        assert set(ids) <= campaign.broker.places.keys()
        await self._shop.call("DELETE", f"/{self._endpoint}")
        for task in self._watchers:
            task.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        campaign.sold = await list_sales(self._app, self._signed)
        campaign.sold_on_solana = await list_sales(self._app, self._coins[:1])

    # ---- parts of it

    async def _request_payouts(self) -> None:
        """Request refunds on both chains, and the payout of a merchant's balance."""
        current, campaign = self._current, self._campaign
        for n, sold in enumerate([*campaign.sold_on_solana, *campaign.sold]):
            request = await self._shop.refund(sold.payment_id)
            refund_id = request["refundId"]
            # the last receiver is blocked until the payments have expired
            is_blocked = sold in campaign.sold[-1:]
            current.add_payout(f"refund {n}", refund_id, poison=n < 2, ends_late=is_blocked)
            if is_blocked:
                self._watch_payout(refund_id)
        if campaign.sold:
            await self._pay_merchant("merchant payout")

    async def _pay_merchant(self, label: str) -> str:
        """Pay out part of a merchant's balance; return the payout."""
        payout_merchant, merchant_id = (
            PayoutMerchant(self._desk, self._shop.tenant),
            self._shop.tenant.merchant.id,
        )
        await payout_merchant.set_destination(f"erc20:{DOLLAR}", _NOWHERE)
        owed = await merchant_payouts.create(self._app, merchant_id, DOLLARS, 1_000_000)
        # later payments go to the treasury again
        for destination in await self._app.store.read(destinations.list_destinations(merchant_id)):
            await self._app.store.write(destinations.delete(merchant_id, destination.id))
        self._current.add_payout(label, owed.id)
        return owed.id

    async def _send_directly(self) -> None:
        """Send money that bypasses Florin: in time, late, and from blocked payers."""
        current, stranger = self._current, self._campaign.stranger
        for n, offer in enumerate(self._carried):
            await submit_authorization(self._desk, stranger, offer.wallet, offer)
            current.add_payment(f"carried {n}", offer.payment_id, QuarantinedItemKind.EVENT)
        for n, payment_id in enumerate(await pay_purchases(self._desk, self._sent)):
            current.add_payment(f"at an address {n}", payment_id, poison=n == 0)
        await overpay(self._desk, self._sent[:_OVERPAID])
        for slow in self._slow:
            await slow.wallet.perform(self._desk.chain, slow.actions)
        for n, coin in enumerate(self._late):
            await coin.wallet.perform(self._desk.chain, coin.actions)
            current.add_return(f"late {n}", coin.payment_id, poison=n == 0)
        verdict = (HeldMoneyState.RELEASED, HeldMoneyState.RETURNED)
        for n, (coin, state) in enumerate(zip(self._held, verdict, strict=True)):
            await coin.wallet.perform(self._desk.chain, coin.actions)
            self._add_held(f"held {n}", coin.payment_id, state, poison=n == 0)

    def _add_held(
        self, label: str, payment_id: str, verdict: HeldMoneyState, *, poison: bool
    ) -> None:
        """Wait for money that is held for the operator, which decides at once."""
        app = self._app

        async def is_done() -> bool:
            listed = await app.store.read(held_money.list_held_money(1000, include_closed=True))
            results = [item for item in listed if item.payment_id == payment_id]
            if not results:
                # an item that is quarantined until its payer is unblocked is not held
                payment = await app.store.payments.find(payment_id)
                return payment is not None and payment.status.is_final
            if results[0].state is HeldMoneyState.HELD:
                await verdicts.resolve(app, results[0].id, verdict, "-", even_if_blocked=True)
            if results[0].state is not verdict:
                return False
            back = await app.store.read(payouts.list_payouts(1000, include_closed=True))
            return all(
                payout.status is PayoutStatus.DONE
                for payout in back
                if payout.held_id == results[0].id
            )

        kinds = {
            QuarantinedItemKind.EVENT,
            QuarantinedItemKind.PAYOUT,
            QuarantinedItemKind.TRANSACTION,
        }
        self._current.add(label, [payment_id], is_done, kinds, poison=poison)

    async def _revert_payment(self) -> None:
        """Make a payment's transaction fail."""
        offer = await self._make_offer()
        self._current.add_payment("reverted", offer.payment_id)
        await self._chain.revert_next(lambda: self._desk.confirm(offer))

    async def _reorganize(self) -> None:
        """Undo a payment and a payout, which are repeated; then let the chain be idle."""
        current = self._current
        offer = await self._make_offer()
        current.add_payment("undone", offer.payment_id)
        await self._desk.confirm(offer)
        # screening lists are read again
        self._desk.clock.advance(_MINUTE_S)
        payout_id = await self._pay_merchant("undone payout") if self._campaign.sold else ""
        await current.finish()
        payment = await self._app.store.payments.find(offer.payment_id)
        payout = await self._app.store.read(payouts.find(payout_id))
        results = [item.tx_id for item in (payment, payout) if item is not None and item.tx_id]
        if results:
            await self._chain.undo(results)
        await current.attempt(self._is_settled)
        await self._chain.idle()

    async def _is_settled(self) -> bool:
        """Return whether nothing is pending."""
        read = self._app.store.read
        for rail in self._app.rails.values():
            if await read(settlement_items.list_unsettled_ids(rail.chain_id)):
                return False
            keys = [*rail.senders, *([rail.payouts.sender] if rail.payouts else ())]
            for key in keys:
                if await read(chain_txs.list_open(rail.chain_id, key)):
                    return False
        return True

    async def _are_nonces_free(self) -> bool:
        return len(list_free_nonces(self._desk)) == _SOLANA.durable_nonces

    async def _make_offer(self) -> PaymentOffer:
        return await self._desk.offer(EvmTestWallet(), tenant=self._shop.tenant)

    async def _create_payment(
        self, amount: dict[str, str], tenant: PartnerTenant | None = None
    ) -> str:
        headers = self._headers if tenant is None else tenant.headers
        created = await self._desk.rest.call("POST", "/v1/payments", headers, {"amount": amount})
        return str(created["paymentId"])

    async def _create_coin_payment(self) -> CoinPayment:
        return await CoinPayment.create(self._desk, await self._create_payment(GBP))

    def _watch_payment(self, payment_id: str) -> None:
        async def watch() -> None:
            async for _ in self._desk.rest.watch(payment_id):
                pass

        self._watchers.append(asyncio.create_task(watch()))

    def _watch_payout(self, payout_id: str) -> None:
        async def follow() -> None:
            async for _ in watch_payout(self._app, payout_id):
                pass

        self._watchers.append(asyncio.create_task(follow()))


@asynccontextmanager
async def campaign(
    home: Path, monkeypatch: Any, injector: FaultInjector
) -> AsyncIterator[Campaign]:
    """Yield a campaign on a fresh service."""
    # all endpoints share a host: more is due at once than its limit, so some claims are returned
    webhooks = {
        "networks": ["127.0.0.0/8"],
        "timeout_s": 2,
        "endpoints_max": 100,
        "host_concurrency": 2,
    }
    settings = {
        **SETTINGS,
        "solana": _SOLANA,
        "webhooks": webhooks,
        "fetch_icons": True,
        "owed_fees": True,
        "event_sink": EventSinkSettings(url="nats://127.0.0.1"),
        "x402": X402Settings(wait_s=0.5),
    }
    # the blocks missed while no worker ran are too many to be read one by one
    monkeypatch.setattr(missed_blocks, "_BLOCKS_MAX", 2)
    broker = MemoryBroker()
    monkeypatch.setattr(NatsBroker, "connect", AsyncMock(return_value=broker))
    lost: set[str] = set()
    lose_secrets(monkeypatch, lost)
    evm = TickingEmbeddedChains()
    async with (
        evm.ticking(),
        open_service(home, evm=evm, **settings) as desk,
        serve_stub(OK) as server,
    ):
        await evm.stand_still()
        crowd_fees(desk)
        shop = WebhookMerchant(desk, await desk.tenant(), WebhookReceiver(server))
        server.handler = back_end = BackEnd()
        for path in (_HOOKS, FLAKY):
            await shop.endpoint(path)
        stranger = EvmTestWallet()
        await desk.chain.fund(stranger.address)
        node = SolanaNodeClient(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
        workers = desk.service.workers
        running = Campaign(
            *(desk, shop, node, injector, stranger, back_end, Deliveries(server), workers),
            *(lost, broker, await open_solana_shop(desk, node)),
        )
        try:
            yield running
        finally:
            await running.workers.stop()
