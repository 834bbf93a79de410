"""Data about buyers, and the form that it is handed in with."""

from __future__ import annotations

import copy
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from florin.v1 import customer_pb2

from tests.support.api import Refused, RestApi
from tests.support.desk import ORDER, PAY_URL, Answer, Desk
from tests.support.installation import operator_of
from tests.support.until import until
from tests.support.wallet import Wallet

ASKED = {"enabled": True, "from_amount": {"USD": 1250}, "retention_days": 30}
DAY_S = 86_400

DATA = {
    "fullName": "Ada Marker-one",
    "dob": "1987-06-05",
    "pobCountry": "DE",
    "pobAddress": "Köln Marker-two",
    "tosConfirmed": True,
}
FORM = {**DATA, "tosConfirmed": "true", "porCountry": "", "porAddress": ""}


def items(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"id": name, "value": value} for name, value in data.items()]


def path_of(url: str) -> str:
    """A form's path with its query; it is on the payment host."""
    assert url.startswith(f"{PAY_URL}/collect/?")
    return url.removeprefix(PAY_URL)


def query_of(url: str) -> dict[str, str]:
    return {name: value for name, (value,) in parse_qs(urlsplit(url).query).items()}


async def hand_in(desk: Desk, url: str, data: Any = DATA, **headers: str) -> Answer:
    """What a program does with a form's address."""
    body = {"token": query_of(url)["t"], "data": data}
    return await desk.ask("POST", "/collect/", headers, body)


class Till:
    """A payment, a wallet, and what it may call through either protocol."""

    def __init__(self, desk: Desk, payment_id: str, wallet: Wallet, api: Any = None) -> None:
        self.desk, self.payment_id, self.wallet = desk, payment_id, wallet
        self.api = api or desk.rest

    async def answer(self, *more: Wallet) -> dict[str, Any]:
        accounts = [one.account for one in (self.wallet, *more)]
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
        """Signs, confirms and waits; nothing may be missing any more."""
        await self.confirm([self.wallet.execute(one) for one in await self.fetch()])
        return (await self.desk.final(self.payment_id))["status"]


def caller(desk: Desk, client: str = "stranger", **wallet: str) -> RestApi:
    """REST as another installation of the demo wallet, or as another wallet."""
    api = copy.copy(desk.rest)
    api.wallet = wallet or {"App-Id": desk.env["FLORIN_APP_ID"], "Client-Id": client}
    return api


async def new_till(desk: Desk, wallet: Wallet | None = None, api: Any = None, **order: Any) -> Till:
    wallet = wallet or Wallet()
    await desk.chain.fund(wallet.address)
    created = await desk.rest.create({**ORDER, **order})
    return Till(desk, created["paymentId"], wallet, api)


async def refusal(call: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        await call
    return caught.value


def stored(desk: Desk, till: Till) -> int:
    query = "SELECT count(*) FROM collected_data WHERE payment_id = ?"
    return desk.select(query, till.payment_id)[0][0]


async def emptied(desk: Desk, till: Till) -> None:
    """Returns once a worker has deleted what was told for a payment."""
    await until(lambda: stored(desk, till), 0)


async def export(desk: Desk, wallet: Wallet) -> customer_pb2.ExportCustomerResponse:
    async with operator_of(desk.service) as operator:
        request = customer_pb2.ExportCustomerRequest(account=wallet.account)
        return await operator.ask("ExportCustomer", request)
