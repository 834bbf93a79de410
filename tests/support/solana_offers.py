"""A payment on Solana from its creation to its end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.api import ApiCallError, RestApi
from tests.support.solana import (
    ASSETS,
    SolanaTestWallet,
)

PRICE = 12_500_000
ORDER = {"amount": {"unit": "iso4217/USD", "value": "1250"}}


class SolanaOffer:
    """A payment, one of its options, and the transaction that was issued for it."""

    def __init__(self, api: RestApi, wallet: SolanaTestWallet, token: int) -> None:
        self.api, self.wallet, self.token = api, wallet, token
        self.payment_id = ""
        self.option: dict[str, Any] = {}
        self.action: dict[str, Any] = {}

    async def fetch(self) -> dict[str, Any]:
        (build,) = self.option["actions"]
        data = build["data"]["data"]
        fetched = await self.api.fetch(self.payment_id, self.option["id"], data)
        (self.action,) = fetched["actions"]
        return self.action

    @property
    def output(self) -> str:
        return self.wallet.execute(self.action)

    async def confirm(self, output: Any = None) -> dict[str, Any]:
        output = self.output if output is None else output
        return await self.api.confirm(self.payment_id, self.option["id"], [output])

    async def status(self) -> dict[str, Any]:
        return await self.api.status(self.payment_id)

    async def final(self) -> dict[str, Any]:
        async with asyncio.timeout(20):
            return [state async for state in self.api.watch(self.payment_id)][-1]


async def make_offer(
    api: RestApi, wallet: SolanaTestWallet, token: int = 0, headers: Any = None, **order: Any
) -> SolanaOffer:
    offer = SolanaOffer(api, wallet, token)
    created = await api.call("POST", "/v1/payments", headers or api.merchant, {**ORDER, **order})
    offer.payment_id = created["paymentId"]
    options = (await api.options(offer.payment_id, [wallet.account]))["options"]
    (offer.option,) = [
        item for item in options if item["amount"]["unit"] == f"caip19/{ASSETS[token]}"
    ]
    await offer.fetch()
    return offer


async def get_refusal(call: Any) -> ApiCallError:
    with pytest.raises(ApiCallError) as caught:
        await call
    return caught.value
