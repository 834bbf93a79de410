"""The services behind the states of both consoles' pages, and their sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Page

from tests.screenshots.consoles import Office, get_operator_base, open_office, sign_in
from tests.screenshots.page_state import PageState
from tests.screenshots.picture import Reach
from tests.support.books import wait_exact
from tests.support.service_harness import PartnerTenant, ServiceHarness, open_service
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

_ENDPOINT = {"url": "https://shop.example/hooks", "description": "Orders"}
_CONFIRMATIONS = {"seen": 1, "needed": 3}


@dataclass
class ConsoleStage:
    """A service with some history, a merchant without any, and the sessions of its consoles.

    The newcomer has a live key. `recent` is a service without history, where the payment
    `confirming` waits for blocks.
    """

    office: Office
    newcomer: PartnerTenant
    reader: str
    live: str
    endpoint_id: str
    recent: ServiceHarness
    shop: PartnerTenant
    confirming: str
    # the console's address and the cookies, by the secret of the session
    sessions: dict[str, tuple[str, Any]] = field(default_factory=dict)

    async def open(self, page: Page, base: str, secret: str, path: str) -> None:
        """Open a page of a console; sign in if this was not done yet."""
        if secret not in self.sessions:
            origin = await sign_in(page, base, secret)
            self.sessions[secret] = origin, await page.context.cookies()
        origin, cookies = self.sessions[secret]
        await page.context.add_cookies(cookies)
        await page.goto(origin + path)

    def fill(self, path: str) -> str:
        """Return a path with the ids of the service with history."""
        office = self.office
        return path.format(
            merchant=office.tenant.merchant.id,
            partner=office.tenant.partner.id,
            paid=office.paid,
            refundable=office.refundable,
            waiting=office.waiting,
            endpoint=self.endpoint_id,
        )


@asynccontextmanager
async def console_stage(home: Path) -> AsyncIterator[ConsoleStage]:
    chosen = {"pay_url": "", "console": True, "metrics_port": 0}
    async with (
        open_office(home / "office") as office,
        open_service(home / "recent", confirmations=_CONFIRMATIONS["needed"], **chosen) as recent,
    ):
        tenant = office.tenant
        created = await office.desk.ask("POST", "/v1/webhook-endpoints", tenant.headers, _ENDPOINT)
        # the first checkout page registers a wallet, which a list of the operator has
        assert (await office.desk.ask("GET", f"/{office.held}")).status == 200
        _, reader = await office.desk.key(tenant.partner.id, scopes=("read",))
        newcomer = await office.desk.tenant()
        # lists are sorted by texts: two partners of one name would have no order
        await newcomer.change_partner(name="Newcomer")
        _, live = await office.desk.key(newcomer.partner.id, live=True)
        # lists of keys have their last use, whichever states were shown before
        for key in (reader, live, newcomer.secret):
            assert (await office.desk.ask("GET", "/v1/merchants", {"Api-Key": key})).status == 200
        await wait_exact(office.desk)
        shop = await recent.tenant()
        yield ConsoleStage(
            office,
            newcomer,
            reader,
            live,
            created.body["endpoint"]["id"],
            recent,
            shop,
            await _confirm_payment(recent, shop),
        )


async def _confirm_payment(desk: ServiceHarness, tenant: PartnerTenant) -> str:
    """Pay, and return the payment's id once its block has been read."""
    offer = await desk.offer(EvmTestWallet(key=b"\6" * 32), tenant=tenant)
    await desk.confirm(offer)

    async def count() -> dict[str, int] | None:
        counts: dict[str, int] | None = (
            await desk.ask("GET", f"/{offer.payment_id}/state")
        ).body.get("confirmations")
        return counts

    await wait_until(count, _CONFIRMATIONS)
    return offer.payment_id


def go_as_merchant(path: str) -> Reach:
    """Return steps to a page of the merchant with history."""

    async def reach(stage: ConsoleStage, page: Page) -> None:
        office = stage.office
        await stage.open(page, office.desk.rest.base, office.tenant.secret, stage.fill(path))

    return reach


def go_as_newcomer(path: str) -> Reach:
    """Return steps to a page of the merchant without history."""

    async def reach(stage: ConsoleStage, page: Page) -> None:
        await stage.open(page, stage.office.desk.rest.base, stage.newcomer.secret, path)

    return reach


def go_as_operator(path: str) -> Reach:
    """Return steps to a page of the operator of the service with history."""

    async def reach(stage: ConsoleStage, page: Page) -> None:
        token = stage.office.desk.service.secrets.operator_token
        await stage.open(page, stage.office.operators, token, stage.fill(path))

    return reach


async def list_no_held_money(stage: ConsoleStage, page: Page) -> None:
    """Open the list of the operator whose service holds no money."""
    token = stage.recent.service.secrets.operator_token
    await stage.open(page, get_operator_base(stage.recent), token, "/console/held")


async def show_confirming_payment(stage: ConsoleStage, page: Page) -> None:
    """Open the payment that waits for blocks."""
    tenant = stage.shop
    path = f"/console/merchants/{tenant.merchant.id}/payments/{stage.confirming}"
    await stage.open(page, stage.recent.rest.base, tenant.secret, path)


def make_console_state(name: str, reach: Reach, **context: Any) -> PageState:
    """Return a state of a page on this stage."""
    return PageState(name, console_stage, reach, **context)
