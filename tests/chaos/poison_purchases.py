"""Purchases in a round of the poison-pill campaign, and their buyers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from florin_server.app.core import App
from florin_server.compliance.screening import store as blocklists
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.domain.screening.blocklist import ScreeningList, find_address
from solders.keypair import Keypair

from tests.support import x402_solana_payments
from tests.support.addresses import AddressPurchase, PlainSender
from tests.support.merchant_tenant import set_destinations
from tests.support.service_harness import (
    PartnerTenant,
    PaymentOffer,
    ServiceHarness,
    ServiceResponse,
)
from tests.support.solana import ASSETS, SolanaNodeClient, SolanaTestWallet
from tests.support.solana_accounts import CHAIN as SOLANA
from tests.support.solana_offers import SolanaOffer
from tests.support.solana_pay import fund
from tests.support.wallet import EvmTestWallet
from tests.support.x402 import X402Buyer, read_offer, request

_OK, _PENDING = 200, 202
# between a refusal and the next signature
_PAUSE_S = 1.0
# worth its return
_MORE = 3_000_000


@dataclass
class CoinPayment:
    """A payment in coin, and its wallet's actions."""

    payment_id: str
    option_id: str
    wallet: EvmTestWallet
    actions: list[dict[str, Any]]

    @classmethod
    async def create(cls, desk: ServiceHarness, payment_id: str) -> CoinPayment:
        """Create a buyer with coin."""
        wallet, rest = EvmTestWallet(), desk.rest
        await desk.chain.fund(wallet.address)
        (option,) = (await rest.options(payment_id, [wallet.account]))["options"]
        data = option["actions"][0]["data"]["data"]
        actions = (await rest.fetch(payment_id, option["id"], data))["actions"]
        return cls(payment_id, option["id"], wallet, actions)


@dataclass
class Sale:
    """A succeeded payment and its payer."""

    payment_id: str
    account: str


@dataclass
class X402Purchase:
    """A payment by x402, whose program repeats its request until it is answered.

    After a refusal the program signs again, as nothing of the payment moved.
    """

    desk: ServiceHarness
    payment_id: str
    sign: Callable[[], Awaitable[Any]]
    signed: Any = None

    @classmethod
    async def create(cls, desk: ServiceHarness, payment_id: str) -> X402Purchase:
        """Create a buyer on the EVM chain."""
        buyer = X402Buyer()
        await desk.chain.fund(buyer.address)
        offer = await read_offer(desk, payment_id)

        async def sign() -> Any:
            return buyer.sign(offer, desk.now)

        return cls(desk, payment_id, sign)

    @classmethod
    async def create_on_solana(
        cls, desk: ServiceHarness, node: SolanaNodeClient, payment_id: str
    ) -> X402Purchase:
        """Create a buyer on Solana."""
        wallet = SolanaTestWallet()
        await fund(node, wallet)
        (offer, *_) = await x402_solana_payments.list_offers(desk, payment_id)
        sign = partial(x402_solana_payments.sign, node, wallet, offer)
        return cls(desk, payment_id, sign)

    async def submit(self) -> None:
        """Submit a signature while no worker runs."""
        self.signed = await self.sign()
        assert (await self._request()).status == _PENDING

    async def pay(self, is_over: Callable[[], Awaitable[bool]]) -> None:
        """Return once the payment is paid, or `is_over`."""
        while not await is_over():
            answer = await self._request()
            if answer.status == _OK:
                return
            if answer.status != _PENDING:
                await self.desk.clock.sleep(_PAUSE_S)
                self.signed = await self.sign()

    async def _request(self) -> ServiceResponse:
        return await request(self.desk, self.payment_id, self.signed)


async def open_solana_shop(desk: ServiceHarness, node: SolanaNodeClient) -> PartnerTenant:
    """Create a merchant with an account on Solana."""
    tenant, account = await desk.tenant(), str(Keypair().pubkey())
    await node.ask("florin_faucet", {"accounts": [account]})
    await set_destinations(tenant, {ASSETS[0]: f"{SOLANA}:{account}"})
    return tenant


async def overpay(desk: ServiceHarness, purchases: Sequence[AddressPurchase]) -> None:
    """Send more than the price to addresses, from an account of its own."""
    sender = await PlainSender(desk.chain).fund()
    for purchase in purchases:
        await sender.send_token(purchase.address["address"], _MORE)


async def block_addresses(app: App, *addresses: str) -> None:
    """Enforce a screening list of exactly these addresses."""
    now_us = app.clock.now_us()
    listed = ScreeningList("sdn", "ab" * 32, None, now_us, len(addresses))
    results = [find_address(address) for address in addresses]
    await app.store.write(blocklists.replace(listed, [item for item in results if item]))
    await app.screening.publish_change()


async def list_sales(app: App, offers: Sequence[PaymentOffer | SolanaOffer]) -> list[Sale]:
    """Return the succeeded payments; quarantined ones can have lapsed meanwhile."""
    results = [(offer, await app.store.payments.find(offer.payment_id)) for offer in offers]
    return [
        Sale(item.payment_id, item.wallet.address)
        for item, payment in results
        if payment is not None and payment.status is PaymentStatus.SUCCEEDED
    ]
