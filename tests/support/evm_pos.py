"""A payment on an EVM chain from its creation to its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.api import ApiCallError
from tests.support.service_harness import PartnerTenant, ServiceHarness
from tests.support.wallet import EvmTestWallet

PRICE = 12_500_000  # 12.50 in a token of six decimals
USD = {"unit": "iso4217/USD", "value": "1250"}
EUR = {"unit": "iso4217/EUR", "value": "1250"}


@dataclass
class EvmPos:
    """Payments of one merchant, whose money goes to an address of its own."""

    desk: ServiceHarness
    tenant: PartnerTenant
    wallet: EvmTestWallet = field(default_factory=EvmTestWallet)

    async def offer(self, amount: dict[str, str]) -> tuple[str, dict[str, Any]]:
        """Create a payment; return its id and the wallet's one option for it."""
        created = await self.desk.rest.call(
            "POST", "/v1/payments", self.tenant.headers, {"amount": amount}
        )
        accounts = [self.wallet.account]
        (option,) = (await self.desk.rest.options(created["paymentId"], accounts))["options"]
        return created["paymentId"], option

    async def fetch(self, payment_id: str, option: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the actions that the option's one build is resolved to."""
        (build,) = option["actions"]
        assert build["type"] == "build"
        data = build["data"]["data"]
        return (await self.desk.rest.fetch(payment_id, option["id"], data))["actions"]

    async def perform(self, option: dict[str, Any]) -> list[str]:
        return await self.wallet.perform(self.desk.chain, option["actions"])

    async def confirm(self, payment_id: str, option: dict[str, Any], outputs: Any) -> Any:
        return await self.desk.rest.confirm(payment_id, option["id"], outputs)

    async def refusal(self, payment_id: str, option: dict[str, Any], outputs: Any) -> Any:
        with pytest.raises(ApiCallError) as caught:
            await self.confirm(payment_id, option, outputs)
        status = await self.desk.rest.status(payment_id)
        return caught.value.http, caught.value.details["reason"], status["status"]
