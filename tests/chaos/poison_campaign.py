"""What happens in a round of the poison-pill campaign, so that workers ask all that they can."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from florin_server.boot.workers import Workers
from florin_server.config.limits import FailedFeeSettings
from florin_server.domain.payments.payment import Status
from florin_server.domain.payouts.held_money import HeldState
from florin_server.domain.payouts.payout import PayoutStatus
from florin_server.domain.quarantine import ItemKind, ItemState
from florin_server.domain.screening.blocklist import ScreeningList, address_of
from florin_server.domain.sealed import Lost
from florin_server.flows.ledger import books
from florin_server.flows.payments.watch import watch_payout
from florin_server.flows.payouts import held_money as verdicts
from florin_server.flows.payouts import payouts as merchant_payouts
from florin_server.flows.quarantine import items as quarantine
from florin_server.store.accounts import destinations
from florin_server.store.payouts import held_money, payouts
from florin_server.store.screening import blocklists
from florin_server.store.settlement import chain_txs
from florin_server.store.webhooks import deliveries
from florin_server.workers.settlement import missed_blocks
from florin_server.workers.webhooks import deliver
from solders.keypair import Keypair

from tests.chaos.poison_chain import Troubles
from tests.chaos.poison_round import Deliveries, Round
from tests.support.answering import Request, answering, answers
from tests.support.books import SETTINGS
from tests.support.desk import Desk, Offer, opened
from tests.support.late_money import DOLLARS, submit
from tests.support.payout_shop import DOLLAR, GBP, PRICE, USD, filled
from tests.support.payout_shop import Shop as Till
from tests.support.poison import Injector
from tests.support.receiver import OK, Receiver
from tests.support.solana import ASSETS, AT_ONCE, SolanaNode, SolanaWallet
from tests.support.solana_accounts import CHAIN as SOLANA
from tests.support.solana_accounts import place, queue, there
from tests.support.solana_durable import free
from tests.support.solana_offers import Offer as SolanaOffer
from tests.support.solana_offers import offered
from tests.support.ticking_chain import TickingChain
from tests.support.until import until
from tests.support.wallet import Wallet
from tests.support.webhook_shop import Shop

# the time of a payment is over after that
_LATE_S = 905
_MINUTE_S = 61
_TURNS = 5
_PLENTY = 10_000
_SOLANA = AT_ONCE.model_copy(
    update={
        "durable_nonces": 2,
        "accounts_a_day": _PLENTY,
        "accounts_a_merchant_day": _PLENTY,
        "accounts_a_partner_day": _PLENTY,
    }
)
_HOOKS, _FLAKY, _LOST = "/hooks", "/flaky", "/lost"
# where no bank and no shop is
_NOWHERE = "0x" + "5c" * 20
_UNKNOWN_TX = "0x" + "ab" * 32


@dataclass
class Coin:
    """A payment in coin, and what its wallet sends for it."""

    payment_id: str
    option_id: str
    wallet: Wallet
    actions: list[dict[str, Any]]


@dataclass
class Sold:
    """A payment that succeeded, and who paid it."""

    payment_id: str
    account: str


@dataclass
class BackEnd:
    """A merchant's back end that refuses the next delivery to one of its paths when it is told."""

    refuses: bool = False

    async def __call__(self, request: Request, out: asyncio.StreamWriter) -> None:
        if self.refuses and request.line.split()[1] == _FLAKY:
            self.refuses = False
            await answers(503)(request, out)
        else:
            await OK(request, out)


@dataclass
class Campaign:
    """One service, and the rounds that it goes through."""

    desk: Desk
    shop: Shop
    node: SolanaNode
    injector: Injector
    stranger: Wallet
    back_end: BackEnd
    deliveries: Deliveries
    workers: Workers
    lost: set[str]  # endpoints whose secrets cannot be read
    sold: list[Sold] = field(default_factory=list)  # in the round before, to be refunded
    sold_on_solana: list[Sold] = field(default_factory=list)

    async def round(self, arm: Callable[[Round], None] | None = None) -> int:
        """Do one round; return how many items were set aside."""
        this = Round(self.desk)
        story = Story(self, this)
        await story.prepare()
        self.injector.watched = this.poisoned if arm is None else ()
        if arm is not None:
            arm(this)
        self.workers = Workers(self.desk.service.app, self.workers._staff)  # noqa: SLF001
        await story.tell()
        self.injector.disarm()
        found = await quarantine.list_items(self.desk.service.app, all_=False)
        await story.end()
        assert await self.workers.problems() == {}
        return len(found)

    async def check(self) -> None:
        """Prove the books, and that nothing waits."""
        found = await books.check(self.desk.service.app)
        assert list(found.problems) == []
        left = await quarantine.list_items(self.desk.service.app, all_=True)
        assert {one.state for one in left} <= {ItemState.RETRIED}


class Story:
    """One round: what is prepared while no worker works, and what comes then."""

    def __init__(self, campaign: Campaign, this: Round) -> None:
        self._campaign = campaign
        self._this = this
        self._desk, self._shop = campaign.desk, campaign.shop
        self._app = campaign.desk.service.app
        self._headers = campaign.shop.tenant.headers
        self._chain = Troubles(campaign.desk, campaign.node, this)
        self._signed: list[Offer] = []
        self._carried: list[Offer] = []
        self._coins: list[SolanaOffer] = []
        self._late: list[Coin] = []
        self._held: list[Coin] = []
        self._slow: list[Coin] = []  # whose wallets name another transaction than they send
        self._watchers: list[asyncio.Task[None]] = []
        self._poor = Wallet()  # has enough for one of its two payments
        self._endpoint = ""

    async def prepare(self) -> None:
        """Create the items of a round; whoever works stops, and starts again with `tell`."""
        this = self._this
        # takes a durable nonce and leaves it, so that it is advanced
        abandoned = await offered(self._desk.rest, SolanaWallet(), 0, self._headers)
        this.add_payment("abandoned on Solana", abandoned.payment_id, ends_late=True)
        kinds = (ItemKind.DURABLE_NONCE, ItemKind.TRANSACTION)
        this.add("durable nonces", [], self._are_nonces_free, kinds, ends_late=True)
        self._signed = [await self._offer() for _ in range(3)]
        self._carried = [await self._offer() for _ in range(2)]
        await self._chain.leave(self._poor, PRICE)
        shared = [await self._desk.offer(self._poor, tenant=self._shop.tenant) for _ in range(2)]
        self._coins = [
            await offered(self._desk.rest, SolanaWallet(), 0, self._headers) for _ in range(2)
        ]
        expiring = [await self._created(USD) for _ in range(2)]
        for n, payment_id in enumerate(expiring):
            this.add_payment(f"expiring {n}", payment_id, poison=n == 0, ends_late=True)
        self._late = [await self._coin() for _ in range(2)]
        self._held = [await self._coin() for _ in range(2)]
        self._slow = [await self._coin()]
        made = await self._shop.endpoint(_LOST)
        self._endpoint = made["endpoint"]["id"]
        self._campaign.lost.add(self._endpoint)
        for n, one in enumerate([*self._signed, *shared]):
            this.add_payment(f"signed {n}", one.payment_id, poison=n == 0)
        for n, coin in enumerate(self._coins):
            this.add_payment(f"on Solana {n}", coin.payment_id, poison=n == 0)
        await self._campaign.workers.end()
        await self._chain.stop()
        for late in self._late:
            # what is due now was claimed by a process that died
            path = f"/v1/payments/{late.payment_id}/cancel"
            await self._desk.rest.call("POST", path, self._headers, {})
        now_us = self._app.clock.now_us()
        await self._app.store.write(deliveries.claim(now_us, 1_000_000, [], 1))
        for one in shared:
            await self._desk.confirm(one)
        for slow in self._slow:
            await self._desk.rest.confirm(slow.payment_id, slow.option_id, [_UNKNOWN_TX])
            this.add_payment("slow", slow.payment_id, ItemKind.EVENT)
        blocked = [one.wallet.address for one in self._held]
        await self._block(*blocked, *(one.account for one in self._campaign.sold[-1:]))

    async def tell(self) -> None:
        """Do what happens while a fault is armed; return once all that can finish has."""
        this = self._this
        self._campaign.back_end.refuses = True
        self._watch(self._signed[0].payment_id)
        await self._ask_payouts()
        await queue(self._desk, self._shop.tenant, receiver := str(Keypair().pubkey()), ASSETS[0])
        this.add(
            "token account",
            [f"{SOLANA}:{receiver}"],
            lambda: there(self._campaign.node, place(receiver)),
            [ItemKind.TOKEN_ACCOUNT, ItemKind.TRANSACTION],
            poison=True,
        )
        self._app.icons.want(f"https://127.0.0.1/{receiver}.png", self._shop.tenant.partner.id)
        await asyncio.gather(
            *(self._desk.confirm(one) for one in self._signed), *(c.confirm() for c in self._coins)
        )
        fronted = self._signed[-1]
        await self._chain.fail(
            lambda: submit(self._desk, self._campaign.stranger, fronted.wallet, fronted)
        )
        await self._revert()
        await filled(self._desk, self._poor)
        await self._send()
        await this.finish()
        if this.leaves_poisoned:
            # nobody waits for what is poisoned, and it is to come to its fault
            for _ in range(_TURNS):
                await this.pass_time()
        self._desk.clock.advance(_LATE_S)
        this.late = True
        await self._block()
        await this.finish()
        await self._reorganize()

    async def end(self) -> None:
        """Have all finished that was set aside, and all told."""
        campaign = self._campaign
        await self._chain.recover()
        await self._this.finish(last=True)
        await until(self._is_settled, meanwhile=self._this.pass_time)
        paths = (_HOOKS, _FLAKY)
        told = [*self._signed, *self._coins, *self._late, *self._carried]

        async def untold() -> list[str]:
            has = campaign.deliveries.has
            return [o.payment_id for o in told for p in paths if not has(p, o.payment_id)]

        await until(untold, [], meanwhile=self._this.pass_time)
        await self._shop.call("DELETE", f"/{self._endpoint}")
        for one in self._watchers:
            one.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        campaign.sold = await self._sold(self._signed)
        campaign.sold_on_solana = await self._sold(self._coins[:1])

    # ---- parts of it

    async def _ask_payouts(self) -> None:
        """Ask for refunds on both chains, and for what a merchant is owed."""
        this, campaign = self._this, self._campaign
        for n, sold in enumerate([*campaign.sold_on_solana, *campaign.sold]):
            asked = await self._shop.refund(sold.payment_id)
            refund_id = asked["refundId"]
            # the receiver of the last one is blocked until the payments' time is over
            is_blocked = sold in campaign.sold[-1:]
            this.add_payout(f"refund {n}", refund_id, poison=n < 2, ends_late=is_blocked)
            if is_blocked:
                self._follow(refund_id)
        if campaign.sold:
            await self._pay_merchant("merchant payout")

    async def _pay_merchant(self, label: str) -> str:
        """Pay out a part of what the merchant is owed; return the payout."""
        till, merchant_id = Till(self._desk, self._shop.tenant), self._shop.tenant.merchant.id
        await till.wants(f"erc20:{DOLLAR}", _NOWHERE)
        owed = await merchant_payouts.create(self._app, merchant_id, DOLLARS, 1_000_000)
        # what is paid goes to the treasury again
        for one in await self._app.store.read(destinations.destinations(merchant_id)):
            await self._app.store.write(destinations.delete(merchant_id, one.id))
        self._this.add_payout(label, owed.id)
        return owed.id

    async def _send(self) -> None:
        """Have money come past Florin: in time, late, and from payers who are blocked."""
        this, stranger = self._this, self._campaign.stranger
        for n, one in enumerate(self._carried):
            await submit(self._desk, stranger, one.wallet, one)
            this.add_payment(f"carried {n}", one.payment_id, ItemKind.EVENT)
        for slow in self._slow:
            await slow.wallet.perform(self._desk.chain, slow.actions)
        for n, coin in enumerate(self._late):
            await coin.wallet.perform(self._desk.chain, coin.actions)
            this.add_return(f"late {n}", coin.payment_id, poison=n == 0)
        verdict = (HeldState.RELEASED, HeldState.RETURNED)
        for n, (coin, state) in enumerate(zip(self._held, verdict, strict=True)):
            await coin.wallet.perform(self._desk.chain, coin.actions)
            self._add_held(f"held {n}", coin.payment_id, state, poison=n == 0)

    def _add_held(self, label: str, payment_id: str, verdict: HeldState, *, poison: bool) -> None:
        """Wait for money that is held until the operator decides, which it does at once."""
        app = self._app

        async def is_done() -> bool:
            listed = await app.store.read(held_money.listed(1000, all_=True))
            found = [one for one in listed if one.payment_id == payment_id]
            if not found:
                # what was set aside until nobody is blocked any more is not held
                payment = await app.store.reader.payment(payment_id)
                return payment is not None and payment.status.is_final
            if found[0].state is HeldState.HELD:
                await verdicts.resolve(app, found[0].id, verdict, "-", even_if_blocked=True)
            if found[0].state is not verdict:
                return False
            back = await app.store.read(payouts.listed(1000, all_=True))
            return all(
                one.status is PayoutStatus.DONE for one in back if one.held_id == found[0].id
            )

        kinds = {ItemKind.EVENT, ItemKind.PAYOUT, ItemKind.TRANSACTION}
        self._this.add(label, [payment_id], is_done, kinds, poison=poison)

    async def _revert(self) -> None:
        """Have the transaction of a payment fail."""
        offer = await self._offer()
        self._this.add_payment("reverted", offer.payment_id)
        await self._chain.revert_next(lambda: self._desk.confirm(offer))

    async def _reorganize(self) -> None:
        """Undo a payment and a payout, which are done again; then let the chain be idle."""
        this = self._this
        offer = await self._offer()
        this.add_payment("undone", offer.payment_id)
        await self._desk.confirm(offer)
        # screening lists are looked at again
        self._desk.clock.advance(_MINUTE_S)
        payout_id = await self._pay_merchant("undone payout") if self._campaign.sold else ""
        await this.finish()
        payment = await self._app.store.reader.payment(offer.payment_id)
        payout = await self._app.store.read(payouts.get(payout_id))
        found = [one.tx_id for one in (payment, payout) if one is not None and one.tx_id]
        if found:
            await self._chain.undo(found)
        await this.attempt(self._is_settled)
        await self._chain.idle()

    async def _is_settled(self) -> bool:
        """Return whether nothing is on its way any more."""
        read = self._app.store.read
        for rail in self._app.rails.values():
            if await read(chain_txs.unsettled_ids(rail.chain_id)):
                return False
            keys = [*rail.senders, *([rail.payouts.sender] if rail.payouts else ())]
            for key in keys:
                if await read(chain_txs.open_txs(rail.chain_id, key)):
                    return False
        return True

    async def _are_nonces_free(self) -> bool:
        return len(free(self._desk)) == _SOLANA.durable_nonces

    async def _sold(self, offers: Sequence[Offer | SolanaOffer]) -> list[Sold]:
        """Return those that succeeded; what was set aside may have lapsed meanwhile."""
        found = [(one, await self._app.store.reader.payment(one.payment_id)) for one in offers]
        return [
            Sold(one.payment_id, one.wallet.address)
            for one, payment in found
            if payment is not None and payment.status is Status.SUCCEEDED
        ]

    async def _offer(self) -> Offer:
        return await self._desk.offer(Wallet(), tenant=self._shop.tenant)

    async def _created(self, amount: dict[str, str]) -> str:
        made = await self._desk.rest.call("POST", "/v1/payments", self._headers, {"amount": amount})
        return str(made["paymentId"])

    async def _coin(self) -> Coin:
        wallet, rest = Wallet(), self._desk.rest
        await self._desk.chain.fund(wallet.address)
        payment_id = await self._created(GBP)
        (option,) = (await rest.options(payment_id, [wallet.account]))["options"]
        data = option["actions"][0]["data"]["data"]
        actions = (await rest.fetch(payment_id, option["id"], data))["actions"]
        return Coin(payment_id, option["id"], wallet, actions)

    async def _block(self, *addresses: str) -> None:
        """Put a screening list of just these in force."""
        now_us = self._app.clock.now_us()
        listed = ScreeningList("sdn", "ab" * 32, None, now_us, len(addresses))
        found = [address_of(one) for one in addresses]
        await self._app.store.write(blocklists.replace(listed, [one for one in found if one]))
        await self._app.screening.changed()

    def _watch(self, payment_id: str) -> None:
        async def watch() -> None:
            async for _ in self._desk.rest.watch(payment_id):
                pass

        self._watchers.append(asyncio.create_task(watch()))

    def _follow(self, payout_id: str) -> None:
        async def follow() -> None:
            async for _ in watch_payout(self._app, payout_id):
                pass

        self._watchers.append(asyncio.create_task(follow()))


@asynccontextmanager
async def campaign(home: Path, monkeypatch: Any, injector: Injector) -> AsyncIterator[Campaign]:
    """Yield a campaign on a fresh service."""
    # all endpoints are of one host: more is due at once than it may have, and is given back
    webhooks = {
        "networks": ["127.0.0.0/8"],
        "timeout_s": 2,
        "endpoints_max": 100,
        "host_concurrency": 2,
    }
    settings = {**SETTINGS, "solana": _SOLANA, "webhooks": webhooks, "fetch_icons": True}
    # blocks that came while nobody worked are too many to be read one by one
    monkeypatch.setattr(missed_blocks, "_BLOCKS_MAX", 2)
    lost: set[str] = set()
    _lose_secrets(monkeypatch, lost)
    evm = TickingChain()
    async with evm.ticking(), opened(home, evm=evm, **settings) as desk, answering(OK) as server:
        await evm.stand_still()
        _crowd_fees(desk)
        shop = Shop(desk, await desk.tenant(), Receiver(server))
        server.say = back_end = BackEnd()
        for path in (_HOOKS, _FLAKY):
            await shop.endpoint(path)
        stranger = Wallet()
        await desk.chain.fund(stranger.address)
        node = SolanaNode(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
        workers = desk.service.workers
        running = Campaign(
            desk, shop, node, injector, stranger, back_end, Deliveries(server), workers, lost
        )
        try:
            yield running
        finally:
            await running.workers.end()


def _crowd_fees(desk: Desk) -> None:
    """Have the budget for lost fees of Solana cover one payment at a time."""
    plenty = 10**12
    fees = FailedFeeSettings.model_construct(payer=plenty, app=1, chain=plenty)
    desk.service.app.settings.__dict__["failed_fees"] = fees


def _lose_secrets(monkeypatch: Any, lost: set[str]) -> None:
    """Have the secrets of some endpoints be such as no key opens."""
    opened_keys = deliver.opened

    def opened_or_lost(core: Any, endpoint_id: str, kept: Any) -> Any:
        if endpoint_id in lost:
            raise Lost
        return opened_keys(core, endpoint_id, kept)

    monkeypatch.setattr(deliver, "opened", opened_or_lost)
