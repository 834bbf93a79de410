"""States of both consoles' pages, with and without content."""

from __future__ import annotations

from playwright.async_api import Page
from yarl import URL

from tests.screenshots.console_environment import (
    ConsoleStage,
    go_as_merchant,
    go_as_newcomer,
    go_as_operator,
    list_no_held_money,
    show_confirming_payment,
)
from tests.screenshots.console_environment import make_console_state as _state
from tests.screenshots.consoles import sign_in
from tests.screenshots.picture import Reach


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
    await go_as_merchant("/console/payments")(stage, page)
    await page.locator("[popovertarget=filter], .chip.add").first.click()


async def _open_refund(stage: ConsoleStage, page: Page) -> None:
    await go_as_merchant("/console/merchants/{merchant}/payments/{refundable}")(stage, page)
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
    path = stage.fill("/console/merchants/{merchant}/payments/{refundable}")
    await stage.open(page, office.desk.rest.base, stage.reader, path)
    await page.locator("[popovertarget=refund]").first.click()
    await page.locator("#refund #amount").fill("5")
    await page.locator("#refund .primary").click()
    await page.locator(".danger.primary").click()
    await page.get_by_role("alert").wait_for()


async def _fail_to_create(stage: ConsoleStage, page: Page) -> None:
    await go_as_merchant("/console/payments/new")(stage, page)
    await page.locator("#amount").fill("no amount")
    await page.locator(".question .primary").click()
    await page.get_by_role("alert").wait_for()


async def _open_menu(stage: ConsoleStage, page: Page) -> None:
    await go_as_merchant("/console")(stage, page)
    await page.locator("[popovertarget=menu]").first.click()


async def _open_held_checkout(stage: ConsoleStage, page: Page) -> None:
    await page.goto(f"{stage.office.desk.rest.base}/{stage.office.held}")


async def _list_sessions(stage: ConsoleStage, page: Page) -> None:
    """Sign in with a test key, and then with a live one."""
    office = stage.office
    origin = await sign_in(page, office.desk.rest.base, office.tenant.secret)
    await page.goto(f"{origin}/console/sessions")
    await page.locator("#secret").fill(stage.live)
    await page.locator("#secret").press("Enter")
    await page.get_by_role("heading", name="Overview").wait_for()
    await page.goto(f"{URL(page.url).origin()}/console/sessions")


async def _ask_key_again(stage: ConsoleStage, page: Page) -> None:
    """Ask for a refund in a session that is a quarter of an hour old."""
    old, port = stage.office.old_session, URL(stage.office.desk.rest.base).port
    origin = f"http://{old.host}:{port}"
    name, _, value = old.cookie.partition("=")
    await page.context.add_cookies([{"name": name, "value": value, "url": origin}])
    path = stage.fill("/console/merchants/{merchant}/payments/{refundable}")
    await page.goto(origin + path)
    await page.locator("[popovertarget=refund]").first.click()
    await page.locator("#refund #amount").fill("5")
    await page.locator("#refund .primary").click()
    await page.get_by_role("heading", name="Sign in again").wait_for()


async def _save_view(stage: ConsoleStage, page: Page) -> None:
    """Save a view of the newcomer's live payments, which no other state shows."""
    path = "/console/payments?status=failed&status=expired&reference=order"
    await stage.open(page, stage.office.desk.rest.base, stage.live, path)
    await page.locator("[popovertarget=saved-views]").click()
    await page.locator("#view-name").fill("Lost orders")
    await page.locator("#view-name").press("Enter")
    await page.locator("[popovertarget=saved-views] .num").wait_for()
    await page.locator("[popovertarget=saved-views]").click()


CONSOLE_STATES = (
    # a buyer's page; the console has the payment that is held
    _state("checkout_held", _open_held_checkout),
    _state("merchant_sign_in", _sign_in_page),
    _state("merchant_sign_in_wrong", _sign_in_wrongly),
    _state("merchant_overview", go_as_merchant("/console")),
    _state("merchant_overview_empty", go_as_newcomer("/console")),
    _state("merchant_menu", _open_menu, is_phone=True),
    _state("merchant_payments", go_as_merchant("/console/payments")),
    _state("merchant_payments_empty", go_as_newcomer("/console/payments")),
    _state("merchant_payments_no_match", go_as_merchant("/console/payments?reference=none")),
    _state("merchant_payments_filter", _open_filters),
    _state("merchant_payments_views", _save_view),
    _state(
        "merchant_payment_waiting",
        go_as_merchant("/console/merchants/{merchant}/payments/{waiting}"),
    ),
    _state(
        "merchant_payment_refunded", go_as_merchant("/console/merchants/{merchant}/payments/{paid}")
    ),
    _state("merchant_payment_processing", show_confirming_payment),
    _state("merchant_refund", _open_refund),
    _state("merchant_refund_question", _ask_refund("5")),
    _state("merchant_refund_too_much", _ask_too_much),
    _state("merchant_refund_not_allowed", _refuse_refund),
    _state("merchant_sign_in_again", _ask_key_again),
    _state("merchant_new_payment", go_as_merchant("/console/payments/new")),
    _state("merchant_new_payment_error", _fail_to_create),
    _state("merchant_merchants", go_as_merchant("/console/merchants")),
    _state("merchant_merchant", go_as_merchant("/console/merchants/{merchant}")),
    _state("merchant_branding", go_as_merchant("/console/merchants/{merchant}/branding")),
    _state("merchant_balances", go_as_merchant("/console/balances")),
    _state("merchant_balances_empty", go_as_newcomer("/console/balances")),
    _state("merchant_statement", go_as_merchant("/console/statement?month=2027-01")),
    _state("merchant_webhooks", go_as_merchant("/console/webhooks")),
    _state("merchant_webhooks_empty", go_as_newcomer("/console/webhooks")),
    _state("merchant_webhook", go_as_merchant("/console/webhooks/{endpoint}")),
    _state("merchant_keys", go_as_merchant("/console/keys")),
    # entries of the minutes before, as states sign in meanwhile
    _state("merchant_audit", go_as_merchant("/console/audit?to=2027-01-22T20:05")),
    _state("merchant_sessions", _list_sessions),
    _state("merchant_search", go_as_merchant("/console/search?q=12.50")),
    _state("merchant_search_none", go_as_merchant("/console/search?q=nothing")),
    _state("merchant_missing", go_as_merchant("/console/merchants/mrch_none")),
    _state("operator_sign_in", _operator_sign_in_page),
    _state("operator_status", go_as_operator("/console")),
    _state("operator_payments", go_as_operator("/console/payments?partner={partner}")),
    _state("operator_payment", go_as_operator("/console/payments/{paid}")),
    _state("operator_payouts", go_as_operator("/console/payouts?all=1")),
    _state("operator_payouts_empty", go_as_operator("/console/payouts")),
    _state("operator_held", go_as_operator("/console/held")),
    _state("operator_held_empty", list_no_held_money),
    _state("operator_books", go_as_operator("/console/books?check=1")),
    _state("operator_accounts", go_as_operator("/console/accounts")),
    _state("operator_quarantine_empty", go_as_operator("/console/quarantine")),
    _state("operator_webhooks", go_as_operator("/console/webhooks")),
    _state("operator_missing", go_as_operator("/console/payments/pay_none")),
)
