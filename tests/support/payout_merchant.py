"""A merchant that is paid, refunded and paid out on an EVM chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from florin_sandbox.devnet.evm import DEVNET
from florin_server.accounts.store import destinations
from florin_server.domain.payments.payment import Destination
from florin_server.money.ledger.store import ledger
from florin_server.money.payouts.store import payouts

from tests.support.service_harness import PartnerTenant, ServiceHarness
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

CHAIN = f"eip155:{DEVNET.chain_id}"
DOLLAR, EURO = DEVNET.token.address, DEVNET.euro.address
ETHER = f"{CHAIN}/slip44:60"
USD = {"unit": "iso4217/USD", "value": "1250"}
EUR = {"unit": "iso4217/EUR", "value": "1250"}
GBP = {"unit": "iso4217/GBP", "value": "1250"}
PRICE = 12_500_000  # 12.50 in a token of six decimals
FEE = 7 + PRICE // 100
WEI = 5 * 10**15  # 12.50 at 2500.00


@dataclass
class PayoutMerchant:
    service: ServiceHarness
    tenant: PartnerTenant

    async def set_destination(self, asset: str, address: str) -> None:
        """Set the merchant's own destination for an asset."""
        place = Destination(
            f"crypto_{self.service.service.app.randbytes(8).hex()}",
            self.tenant.merchant.id,
            f"{CHAIN}/{asset}",
            f"{CHAIN}:{address}",
        )
        await self.service.service.app.store.write(destinations.put_destination(place))

    async def create_paid_payment(self, wallet: EvmTestWallet, amount: dict[str, str]) -> str:
        """Return the id of a payment that succeeded."""
        desk, body = self.service, {"amount": amount}
        created = await desk.rest.call("POST", "/v1/payments", self.tenant.headers, body)
        payment_id: str = created["paymentId"]
        (option,) = (await desk.rest.options(payment_id, [wallet.account]))["options"]
        actions = option["actions"]
        if actions[0]["type"] == "build":
            data = actions[0]["data"]["data"]
            actions = (await desk.rest.fetch(payment_id, option["id"], data))["actions"]
        await desk.rest.confirm(payment_id, option["id"], await wallet.perform(desk.chain, actions))
        assert (await desk.wait_final(payment_id))["status"] == "succeeded"
        return payment_id

    async def ask(self, payment_id: str) -> dict[str, Any]:
        body = {"paymentId": payment_id}
        return await self.service.rest.call("POST", "/v1/refunds", self.tenant.headers, body)

    async def refund(self, payment_id: str) -> dict[str, Any]:
        """Refund a payment; return the refund once it is paid out."""
        answer = await self.ask(payment_id)
        assert answer["status"] == "pending"
        refund = await self.service.wait_refunded(payment_id, self.tenant.headers)
        assert (refund["refundId"], refund["status"]) == (answer["refundId"], "succeeded")
        return refund

    async def get_detail(self, payment_id: str) -> dict[str, Any]:
        path = f"/v1/payments/{payment_id}"
        return (await self.service.rest.call("GET", path, self.tenant.headers))["refund"]

    async def get_owed(self, asset: str) -> int:
        account = f"merchant:{self.tenant.merchant.id}"
        return -await self.service.service.app.store.read(
            ledger.get_balance(account, f"{CHAIN}/{asset}")
        )

    async def wait_problem(self, payout_id: str) -> str:
        """Return why a payout waits, once it was tried."""
        result: str = await wait_until(lambda: self._problem(payout_id))
        return result

    async def _problem(self, payout_id: str) -> str:
        payout = await self.service.service.app.store.read(payouts.find(payout_id))
        assert payout is not None
        return payout.problem or ""


async def wait_faucet_booked(desk: ServiceHarness, wallet: EvmTestWallet) -> None:
    """Return once the faucet's gifts are booked, so that they are not mistaken for a refund."""
    tokens = [token.address for token in DEVNET.tokens]
    await desk.chain.ask("florin_faucet", {"accounts": [wallet.address], "tokens": tokens})
