"""Buyer data, and the form that collects it."""

from __future__ import annotations

import copy
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from florin.v1 import customer_pb2

from tests.support.api import ApiCallError, RestApi
from tests.support.installation import open_operator
from tests.support.service_harness import ORDER, PAY_URL, ServiceHarness, ServiceResponse
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

CAPTURE_SETTINGS = {"enabled": True, "from_amount": {"USD": 1250}, "retention_days": 30}
DAY_S = 86_400

DATA = {
    "fullName": "Ada Marker-one",
    "dob": "1987-06-05",
    "pobCountry": "DE",
    "pobAddress": "Köln Marker-two",
    "tosConfirmed": True,
}
FORM = {**DATA, "tosConfirmed": "true", "porCountry": "", "porAddress": ""}


def to_form_items(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"id": name, "value": value} for name, value in data.items()]


def get_path(url: str) -> str:
    """Return a form's path with its query; it is on the payment host."""
    assert url.startswith(f"{PAY_URL}/collect/?")
    return url.removeprefix(PAY_URL)


def get_query(url: str) -> dict[str, str]:
    return {name: value for name, (value,) in parse_qs(urlsplit(url).query).items()}


async def submit_form(
    desk: ServiceHarness, url: str, data: Any = DATA, **headers: str
) -> ServiceResponse:
    """Submit a form's address as a program does."""
    body = {"token": get_query(url)["t"], "data": data}
    return await desk.ask("POST", "/collect/", headers, body)


class CapturePos:
    """A payment, a wallet, and the calls that it can make over either protocol."""

    def __init__(
        self, desk: ServiceHarness, payment_id: str, wallet: EvmTestWallet, api: Any = None
    ) -> None:
        self.desk, self.payment_id, self.wallet = desk, payment_id, wallet
        self.api = api or desk.rest

    async def answer(self, *more: EvmTestWallet) -> dict[str, Any]:
        accounts = [wallet.account for wallet in (self.wallet, *more)]
        return await self.api.options(self.payment_id, accounts)

    async def option(self) -> dict[str, Any]:
        (option,) = (await self.answer())["options"]
        return option

    async def url(self) -> str:
        return (await self.option())["collectData"]["url"]

    async def fetch(self, data: str = "", collected: Any = None) -> list[dict[str, Any]]:
        option = await self.option()
        fetched = await self.api.fetch(self.payment_id, option["id"], data, collected)
        return fetched["actions"]

    async def confirm(self, outputs: list[str], collected: Any = None) -> dict[str, Any]:
        option = await self.option()
        return await self.api.confirm(self.payment_id, option["id"], outputs, collected)

    async def pay(self) -> str:
        """Sign, confirm and wait; all required data must be present."""
        await self.confirm([self.wallet.execute(item) for item in await self.fetch()])
        return (await self.desk.wait_final(self.payment_id))["status"]


def make_caller(desk: ServiceHarness, client: str = "stranger", **wallet: str) -> RestApi:
    """Return a REST client of another installation of the demo wallet, or of another wallet."""
    api = copy.copy(desk.rest)
    api.wallet = wallet or {"App-Id": desk.env["FLORIN_APP_ID"], "Client-Id": client}
    return api


async def open_pos(
    desk: ServiceHarness, wallet: EvmTestWallet | None = None, api: Any = None, **order: Any
) -> CapturePos:
    wallet = wallet or EvmTestWallet()
    await desk.chain.fund(wallet.address)
    created = await desk.rest.create({**ORDER, **order})
    return CapturePos(desk, created["paymentId"], wallet, api)


async def get_refusal(call: Any) -> ApiCallError:
    with pytest.raises(ApiCallError) as caught:
        await call
    return caught.value


def count_stored(desk: ServiceHarness, pos: CapturePos) -> int:
    query = "SELECT count(*) FROM collected_data WHERE payment_id = ?"
    return desk.select(query, pos.payment_id)[0][0]


async def wait_deleted(desk: ServiceHarness, pos: CapturePos) -> None:
    """Return once a worker has deleted the buyer data of a payment."""
    await wait_until(lambda: count_stored(desk, pos), 0)


async def export_customer(
    desk: ServiceHarness, wallet: EvmTestWallet
) -> customer_pb2.ExportCustomerResponse:
    async with open_operator(desk.service) as operator:
        request = customer_pb2.ExportCustomerRequest(account=wallet.account)
        return await operator.call("ExportCustomer", request)
