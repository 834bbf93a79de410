"""States of both consoles' pages, with and without content."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Page

from tests.screenshots.consoles import Office, open_office, sign_in
from tests.screenshots.page_state import PageState
from tests.screenshots.picture import Reach
from tests.support.service_harness import PartnerTenant

_ENDPOINT = {"url": "https://shop.example/hooks", "description": "Orders"}


@dataclass
class ConsoleStage:
    """A service with some history, a merchant without any, and the sessions of its consoles."""

    office: Office
    newcomer: PartnerTenant
    reader: str
    endpoint_id: str
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


@asynccontextmanager
async def console_stage(home: Path) -> AsyncIterator[ConsoleStage]:
    async with open_office(home) as office:
        tenant = office.tenant
        created = await office.desk.ask("POST", "/v1/webhook-endpoints", tenant.headers, _ENDPOINT)
        # the first checkout page registers a wallet, which a list of the operator has
        assert (await office.desk.ask("GET", f"/{office.held}")).status == 200
        _, reader = await office.desk.key(tenant.partner.id, scopes=("read",))
        # a list of keys has their last use
        assert (await office.desk.ask("GET", "/v1/merchants", {"Api-Key": reader})).status == 200
        newcomer = await office.desk.tenant()
        # lists are sorted by texts: two partners of one name would have no order
        await newcomer.change_partner(name="Newcomer")
        yield ConsoleStage(office, newcomer, reader, created.body["endpoint"]["id"])


def _fill(stage: ConsoleStage, path: str) -> str:
    office = stage.office
    return path.format(
        merchant=office.tenant.merchant.id,
        partner=office.tenant.partner.id,
        paid=office.paid,
        refundable=office.refundable,
        waiting=office.waiting,
        endpoint=stage.endpoint_id,
    )


def _merchant(path: str) -> Reach:
    """Return steps to a page of the merchant with history."""

    async def reach(stage: ConsoleStage, page: Page) -> None:
        office = stage.office
        path_there = _fill(stage, path)
        await stage.open(page, office.desk.rest.base, office.tenant.secret, path_there)

    return reach


def _newcomer(path: str) -> Reach:
    async def reach(stage: ConsoleStage, page: Page) -> None:
        await stage.open(page, stage.office.desk.rest.base, stage.newcomer.secret, path)

    return reach


def _operator(path: str) -> Reach:
    async def reach(stage: ConsoleStage, page: Page) -> None:
        token = stage.office.desk.service.secrets.operator_token
        await stage.open(page, stage.office.operators, token, _fill(stage, path))

    return reach


async def _sign_in_page(stage: ConsoleStage, page: Page) -> None:
    await page.goto(f"{stage.office.desk.rest.base}/console")


async def _sign_in_wrongly(stage: ConsoleStage, page: Page) -> None:
    await _sign_in_page(stage, page)
    await page.locator("#secret").fill(stage.office.desk.unstored_key())
    await page.locator("#secret").press("Enter")
    await page.get_by_role("alert").wait_for()


async def _operator_sign_in_page(stage: ConsoleStage, page: Page) -> None:
    await page.goto(f"{stage.office.operators}/console")


async def _open_filters(stage: ConsoleStage, page: Page) -> None:
    await _merchant("/console/payments")(stage, page)
    await page.locator("[popovertarget=filter], .chip.add").first.click()


async def _open_refund(stage: ConsoleStage, page: Page) -> None:
    await _merchant("/console/merchants/{merchant}/payments/{refundable}")(stage, page)
    await page.locator("[popovertarget=refund]").first.click()
    await page.locator("#refund #amount").wait_for()


def _ask_refund(amount: str) -> Reach:
    async def reach(stage: ConsoleStage, page: Page) -> None:
        await _open_refund(stage, page)
        await page.locator("#refund #amount").fill(amount)
        await page.locator("#refund .primary").click()
        await page.locator("#refund").wait_for(state="detached")

    return reach


async def _ask_too_much(stage: ConsoleStage, page: Page) -> None:
    await _ask_refund("500")(stage, page)
    await page.get_by_role("alert").wait_for()


async def _refuse_refund(stage: ConsoleStage, page: Page) -> None:
    """Sign in with a key that may only read, and confirm a refund."""
    office = stage.office
    path = _fill(stage, "/console/merchants/{merchant}/payments/{refundable}")
    await stage.open(page, office.desk.rest.base, stage.reader, path)
    await page.locator("[popovertarget=refund]").first.click()
    await page.locator("#refund #amount").fill("5")
    await page.locator("#refund .primary").click()
    await page.locator(".danger.primary").click()
    await page.get_by_role("alert").wait_for()


async def _fail_to_create(stage: ConsoleStage, page: Page) -> None:
    await _merchant("/console/payments/new")(stage, page)
    await page.locator("#amount").fill("no amount")
    await page.locator(".question .primary").click()
    await page.get_by_role("alert").wait_for()


async def _open_menu(stage: ConsoleStage, page: Page) -> None:
    await _merchant("/console")(stage, page)
    await page.locator("[popovertarget=menu]").first.click()


async def _open_held_checkout(stage: ConsoleStage, page: Page) -> None:
    await page.goto(f"{stage.office.desk.rest.base}/{stage.office.held}")


def _state(name: str, reach: Reach, **context: Any) -> PageState:
    return PageState(name, console_stage, reach, **context)


CONSOLE_STATES = (
    # a buyer's page; the console has the payment that is held
    _state("checkout_held", _open_held_checkout),
    _state("merchant_sign_in", _sign_in_page),
    _state("merchant_sign_in_wrong", _sign_in_wrongly),
    _state("merchant_overview", _merchant("/console")),
    _state("merchant_overview_empty", _newcomer("/console")),
    _state("merchant_menu", _open_menu, is_phone=True),
    _state("merchant_payments", _merchant("/console/payments")),
    _state("merchant_payments_empty", _newcomer("/console/payments")),
    _state("merchant_payments_no_match", _merchant("/console/payments?reference=none")),
    _state("merchant_payments_filter", _open_filters),
    _state(
        "merchant_payment_waiting", _merchant("/console/merchants/{merchant}/payments/{waiting}")
    ),
    _state("merchant_payment_refunded", _merchant("/console/merchants/{merchant}/payments/{paid}")),
    _state("merchant_refund", _open_refund),
    _state("merchant_refund_question", _ask_refund("5")),
    _state("merchant_refund_too_much", _ask_too_much),
    _state("merchant_refund_not_allowed", _refuse_refund),
    _state("merchant_new_payment", _merchant("/console/payments/new")),
    _state("merchant_new_payment_error", _fail_to_create),
    _state("merchant_merchants", _merchant("/console/merchants")),
    _state("merchant_merchant", _merchant("/console/merchants/{merchant}")),
    _state("merchant_balances", _merchant("/console/balances")),
    _state("merchant_balances_empty", _newcomer("/console/balances")),
    _state("merchant_webhooks", _merchant("/console/webhooks")),
    _state("merchant_webhooks_empty", _newcomer("/console/webhooks")),
    _state("merchant_webhook", _merchant("/console/webhooks/{endpoint}")),
    _state("merchant_keys", _merchant("/console/keys")),
    _state("merchant_search", _merchant("/console/search?q=12.50")),
    _state("merchant_search_none", _merchant("/console/search?q=nothing")),
    _state("merchant_missing", _merchant("/console/merchants/mrch_none")),
    _state("operator_sign_in", _operator_sign_in_page),
    _state("operator_payments", _operator("/console/payments?partner={partner}")),
    _state("operator_payment", _operator("/console/payments/{paid}")),
    _state("operator_payouts", _operator("/console/payouts?all=1")),
    _state("operator_payouts_empty", _operator("/console/payouts")),
    _state("operator_held", _operator("/console/held")),
    _state("operator_quarantine_empty", _operator("/console/quarantine")),
    _state("operator_webhooks", _operator("/console/webhooks")),
    _state("operator_missing", _operator("/console/payments/pay_none")),
)
