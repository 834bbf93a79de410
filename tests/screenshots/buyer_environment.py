"""The service behind the states of buyers' pages, and payments on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Page

from tests.screenshots.page_state import PageState
from tests.screenshots.picture import Reach
from tests.support.capture import CAPTURE_SETTINGS
from tests.support.payout_merchant import ETHER
from tests.support.service_harness import (
    CREATE,
    ORDER,
    PartnerTenant,
    PaymentOffer,
    ServiceHarness,
    open_service,
)
from tests.support.wallet import EvmTestWallet

SITE_NAME = "pay.shop.example"
# payments of this amount need data about the buyer, others do not
NEEDS_DATA = {"unit": "iso4217/USD", "value": "2000"}
_CAPTURE = {**CAPTURE_SETTINGS, "from_amount": dict.fromkeys(("USD", "EUR", "GBP"), 2000)}
_LINES = [
    {"name": "Darjeeling, first flush", "quantity": 2, "amount": "1000"},
    {"name": "Delivery", "quantity": 1, "amount": "250"},
]
_SUPPORT = {"supportEmail": "help@tea.example", "supportUrl": "https://tea.example/help"}


@dataclass
class BuyerStage:
    """A service, a payment that was paid by a transaction, and a merchant with all that it can set.

    Wallets of tests wait for the events in `unanswered`, which are set when the stage is closed.
    """

    desk: ServiceHarness
    paid: PaymentOffer
    tea_house: PartnerTenant
    unanswered: list[asyncio.Event] = field(default_factory=list)

    async def create(self, **order: Any) -> str:
        """Return the path of a new payment."""
        return f"/{(await self.desk.rest.create({**ORDER, **order}))['paymentId']}"

    async def create_full_order(self) -> str:
        """Return the path of a payment with a description, lines and a contact for questions."""
        order = {**ORDER, "description": "Tea for two", "lines": _LINES}
        created = await self.desk.rest.call("POST", CREATE, self.tea_house.headers, order)
        return f"/{created['paymentId']}"


@asynccontextmanager
async def buyer_stage(home: Path) -> AsyncIterator[BuyerStage]:
    """Yield a service with its pages, forms and consoles."""
    settings = {
        "pay_url": "",
        "site_name": SITE_NAME,
        "console": True,
        "metrics_port": 0,
        "capture": _CAPTURE,
        "rates": {ETHER: {"GBP": "2500.00"}},
    }
    async with open_service(home, **settings) as desk:
        paid = await desk.offer(EvmTestWallet(key=b"\5" * 32))
        await desk.confirm(paid)
        assert (await desk.wait_final(paid.payment_id))["status"] == "succeeded"
        tea_house = await desk.tenant()
        path = f"/v1/merchants/{tea_house.merchant.id}"
        assert (await desk.ask("PATCH", path, tea_house.headers, _SUPPORT)).status == 200
        stage = BuyerStage(desk, paid, tea_house)
        try:
            yield stage
        finally:
            for event in stage.unanswered:
                event.set()


def go_to(path: str) -> Reach:
    """Return steps that open an address; `{paid}` in it is the paid payment."""

    async def reach(stage: BuyerStage, page: Page) -> None:
        await page.goto(stage.desk.rest.base + path.format(paid=stage.paid.payment_id))

    return reach


def make_state(name: str, reach: Reach, **context: Any) -> PageState:
    """Return a state of a page on this stage."""
    return PageState(name, buyer_stage, reach, **context)
