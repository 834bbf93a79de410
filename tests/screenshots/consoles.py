"""Pictures of both consoles, after a few days of a tea house."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from florin.v1 import system_pb2
from playwright.async_api import Page
from yarl import URL

from tests.screenshots.picture import DESKTOP, Picture, Reach
from tests.support.books import SETTINGS
from tests.support.console import ConsoleUser
from tests.support.installation import open_operator
from tests.support.operator import ask
from tests.support.payout_merchant import EUR, GBP, USD, PayoutMerchant
from tests.support.sanctions_import import import_list
from tests.support.service import NO_SOLANA
from tests.support.service_harness import CREATE, PartnerTenant, ServiceHarness, open_service
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

# outcomes of payments, each almost a day after the one before
_DAYS = ("succeeded", "failed", "succeeded", "expired", "succeeded", "cancelled", "succeeded")
_STEP_S = 20 * 3600
_OLD_SESSION_S = 15 * 60


@dataclass(frozen=True)
class Office:
    """A service with some history, and its payments.

    `paid` was refunded, `refundable` was not, `held` came from a blocked payer, and `waiting` is
    open. `old_session` signed in more than ten minutes ago.
    """

    desk: ServiceHarness
    tenant: PartnerTenant
    paid: str
    refundable: str
    held: str
    waiting: str
    old_session: ConsoleUser

    @property
    def operators(self) -> str:
        """Return the address of the operator console."""
        return get_operator_base(self.desk)


def get_operator_base(desk: ServiceHarness) -> str:
    """Return the address of a service's operator console."""
    return desk.service.metrics_url.removesuffix("/console").removesuffix("/metrics")


@asynccontextmanager
async def open_office(home: Path) -> AsyncIterator[Office]:
    chosen = {**SETTINGS, "solana": NO_SOLANA, "pay_url": "", "console": True, "metrics_port": 0}
    async with open_service(home, **chosen) as desk:
        yield await _past(desk)


async def _past(desk: ServiceHarness) -> Office:
    # in lists it comes after the existing ones
    desk.clock.advance(60)
    tenant = await desk.tenant()
    shop = PayoutMerchant(desk, tenant)
    for number, outcome in enumerate(_DAYS):
        desk.clock.advance(_STEP_S)
        amount = {**(USD, EUR)[number % 2], "value": str(950 + 325 * number)}
        body = {"amount": amount, "referenceId": f"order-{1001 + number}"}
        created = await desk.rest.call("POST", CREATE, tenant.headers, body)
        desk.clock.advance(2 + number)
        path = f"/v1/sandbox/payments/{created['paymentId']}/simulate"
        await desk.rest.call("POST", path, tenant.headers, {"outcome": outcome})
    desk.clock.advance(_STEP_S)
    paid = await shop.create_paid_payment(EvmTestWallet(key=b"\2" * 32), USD)
    await shop.refund(paid)
    desk.clock.advance(60)
    refundable = await shop.create_paid_payment(EvmTestWallet(key=b"\4" * 32), USD)
    desk.clock.advance(_STEP_S - _OLD_SESSION_S)
    old_session = ConsoleUser(desk.session, desk.rest.base)
    assert (await old_session.sign_in(tenant.secret)).status == 303
    desk.clock.advance(_OLD_SESSION_S)
    held = await _blocked(desk, shop)
    desk.clock.advance(60)
    body = {"amount": USD, "referenceId": "order-1"}
    waiting = await desk.rest.call("POST", CREATE, tenant.headers, body)
    # pages say how long ago that was, and take a few seconds
    desk.clock.advance(90)
    return Office(desk, tenant, paid, refundable, held, waiting["paymentId"], old_session)


async def _blocked(desk: ServiceHarness, shop: PayoutMerchant) -> str:
    """Pay from an account that a screening list names before its money arrives; return the id."""
    wallet = EvmTestWallet(key=b"\3" * 32)
    created = await desk.rest.call("POST", CREATE, shop.tenant.headers, {"amount": GBP})
    (option,) = (await desk.rest.options(created["paymentId"], [wallet.account]))["options"]
    data = option["actions"][0]["data"]["data"]
    actions = (await desk.rest.fetch(created["paymentId"], option["id"], data))["actions"]
    async with open_operator(desk.service) as operator:
        await import_list(operator, wallet.address)
    await wallet.perform(desk.chain, actions)
    await wait_until(lambda: desk.select("SELECT count(*) FROM held_money")[0][0])
    # an alarm begins when its condition is first read
    await ask(desk, "GetSystemStatus", system_pb2.GetSystemStatusRequest())
    payment_id: str = created["paymentId"]
    return payment_id


async def sign_in(page: Page, base: str, secret: str) -> str:
    """Sign in, and return the console's address for the session."""
    await page.goto(f"{base}/console")
    await page.get_by_label("Sign in with").fill(secret)
    await page.get_by_role("button", name="Sign in").click()
    await page.locator("main.work").wait_for()
    return str(URL(page.url).origin())


def _merchants(path: str) -> Reach:
    async def reach(office: Office, page: Page) -> None:
        base, tenant = office.desk.rest.base, office.tenant
        own = await sign_in(page, base, tenant.secret)
        await page.goto(own + path.format(merchant=tenant.merchant.id, paid=office.paid))

    return reach


def _operators(path: str) -> Reach:
    async def reach(office: Office, page: Page) -> None:
        token = office.desk.service.secrets.operator_token
        own = await sign_in(page, office.operators, token)
        partner = office.tenant.partner.id
        await page.goto(own + path.format(partner=partner, paid=office.paid))

    return reach


async def _ask_refund(office: Office, page: Page) -> None:
    """Enter a refund, and show the question before it."""
    path = f"/console/merchants/{{merchant}}/payments/{office.refundable}"
    await _merchants(path)(office, page)
    await page.get_by_role("button", name="Refund", exact=True).click()
    await page.get_by_label("Amount in").fill("5")
    await page.get_by_label("Reason").fill("One of two cups was returned")
    await page.get_by_role("button", name="Continue").click()
    await page.get_by_role("heading", name="Refund 5").wait_for()


def _console(name: str, reach: Reach) -> Picture:
    return Picture(name, open_office, reach, width=DESKTOP)


PICTURES = (
    _console("console_overview", _merchants("/console")),
    _console("console_payment", _merchants("/console/merchants/{merchant}/payments/{paid}")),
    _console("console_refund", _ask_refund),
    Picture("console_phone", open_office, _merchants("/console/payments"), scheme="dark"),
    _console("operator_status", _operators("/console")),
)
