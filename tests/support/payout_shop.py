"""A shop that is paid, refunded and paid out on an EVM chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from florin_server.devnet.evm import DEVNET
from florin_server.domain.payments.payment import Destination
from florin_server.store.accounts import destinations
from florin_server.store.ledger import ledger
from florin_server.store.payouts import payouts

from tests.support.desk import Desk, Tenant
from tests.support.until import until
from tests.support.wallet import Wallet

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
class Shop:
    desk: Desk
    tenant: Tenant

    async def wants(self, asset: str, address: str) -> None:
        """Has its own destination for an asset from now on."""
        place = Destination(
            f"crypto_{self.desk.service.app.randbytes(8).hex()}",
            self.tenant.merchant.id,
            f"{CHAIN}/{asset}",
            f"{CHAIN}:{address}",
        )
        await self.desk.service.app.store.write(destinations.put_destination(place))

    async def sold(self, wallet: Wallet, amount: dict[str, str]) -> str:
        """A payment that succeeded."""
        desk, body = self.desk, {"amount": amount}
        made = await desk.rest.call("POST", "/v1/payments", self.tenant.headers, body)
        payment_id: str = made["paymentId"]
        (option,) = (await desk.rest.options(payment_id, [wallet.account]))["options"]
        actions = option["actions"]
        if actions[0]["type"] == "build":
            data = actions[0]["data"]["data"]
            actions = (await desk.rest.fetch(payment_id, option["id"], data))["actions"]
        await desk.rest.confirm(payment_id, option["id"], await wallet.perform(desk.chain, actions))
        assert (await desk.final(payment_id))["status"] == "succeeded"
        return payment_id

    async def ask(self, payment_id: str) -> dict[str, Any]:
        body = {"paymentId": payment_id}
        return await self.desk.rest.call("POST", "/v1/refunds", self.tenant.headers, body)

    async def refund(self, payment_id: str) -> dict[str, Any]:
        """The refund of a payment, paid out."""
        answer = await self.ask(payment_id)
        assert answer["status"] == "pending"
        refund = await self.desk.refunded(payment_id, self.tenant.headers)
        assert (refund["refundId"], refund["status"]) == (answer["refundId"], "succeeded")
        return refund

    async def told(self, payment_id: str) -> dict[str, Any]:
        path = f"/v1/payments/{payment_id}"
        return (await self.desk.rest.call("GET", path, self.tenant.headers))["refund"]

    async def owed(self, asset: str) -> int:
        account = f"merchant:{self.tenant.merchant.id}"
        return -await self.desk.service.app.store.read(ledger.balance(account, f"{CHAIN}/{asset}"))

    async def problem(self, payout_id: str) -> str:
        """Why a payout waits, once it was tried."""
        found: str = await until(lambda: self._problem(payout_id))
        return found

    async def _problem(self, payout_id: str) -> str:
        found = await self.desk.service.app.store.read(payouts.get(payout_id))
        assert found is not None
        return found.problem or ""


async def filled(desk: Desk, wallet: Wallet) -> None:
    """What the faucet gives is not mistaken for a refund."""
    tokens = [token.address for token in DEVNET.tokens]
    await desk.chain.ask("florin_faucet", {"accounts": [wallet.address], "tokens": tokens})
