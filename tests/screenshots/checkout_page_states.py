"""States of the checkout page that need no wallet in the browser."""

from __future__ import annotations

from typing import Any

from playwright.async_api import Page, Route

from tests.screenshots.buyer_environment import BuyerStage, go_to, make_state
from tests.screenshots.picture import Reach
from tests.support.checkout_states import STATES as PAYMENT_STATES
from tests.support.checkout_states import URLS, reach_state
from tests.support.deposit_claims import hold_claimable_money


def _show(state: str, **order: Any) -> Reach:
    async def reach(stage: BuyerStage, page: Page) -> None:
        await page.goto(stage.desk.rest.base + await reach_state(stage.desk, state, **order))

    return reach


async def _close_ways(stage: BuyerStage, page: Page) -> None:
    await _show("requires_action")(stage, page)
    await page.locator("#code summary").click()


async def _show_full_order(stage: BuyerStage, page: Page) -> None:
    await page.goto(stage.desk.rest.base + await stage.create_full_order())


async def _show_last_minute(stage: BuyerStage, page: Page) -> None:
    await _show("requires_action", expiresAt=stage.desk.now + 50)(stage, page)
    await page.locator("#note:not(:empty)").wait_for()


async def _choose_what_to_send(stage: BuyerStage, page: Page) -> None:
    await _show("requires_action")(stage, page)
    await page.locator("#send > summary").click()


async def _open_address(stage: BuyerStage, page: Page) -> None:
    await _choose_what_to_send(stage, page)
    await page.locator("#send form button").first.click()
    await page.locator("#send-address").wait_for()


async def _refuse_address(stage: BuyerStage, page: Page) -> None:
    """Press a button whose asset is no longer accepted."""
    await _choose_what_to_send(stage, page)
    button = page.locator("#send form button").first
    await button.evaluate("button => { button.value += '00'; }")
    await button.click()
    await page.get_by_role("alert").wait_for()


async def _offer_claim(stage: BuyerStage, page: Page) -> None:
    """Show a payment at whose address an exchange left money."""
    path = await stage.create()
    await hold_claimable_money(stage.desk, path[1:], 3_000_000)
    await stage.desk.rest.cancel(path[1:])
    await page.goto(stage.desk.rest.base + path)
    await page.locator("#claims").wait_for()


async def _refuse_claim(stage: BuyerStage, page: Page) -> None:
    await _offer_claim(stage, page)
    await page.locator("#claims [name=account]").fill("0x12")
    await page.locator("#claims [name=message]").fill("Order 1001, withdrawal 8842115")
    await page.locator("#claims button").click()
    await page.get_by_role("alert").wait_for()


async def _make_claim(stage: BuyerStage, page: Page) -> None:
    await _offer_claim(stage, page)
    await page.locator("#claims [name=account]").fill("0x" + "c1" * 20)
    await page.locator("#claims button").click()
    await page.locator("#claims .notice").wait_for()


def _confirm(seen: int, *, is_delayed: bool) -> Reach:
    """Return steps to a page whose service reports confirmations."""

    async def reach(stage: BuyerStage, page: Page) -> None:
        state = {
            "status": "processing",
            "isFinal": False,
            "expiresAt": stage.desk.now + 900,
            "pollInMs": 60_000,
            "isDelayed": is_delayed,
            "confirmations": {"seen": seen, "needed": 12},
        }

        async def answer(route: Route) -> None:
            await route.fulfill(json=state)

        await page.route("**/state", answer)
        await page.route("**/events", lambda route: route.fulfill(status=429, body=""))
        await _show("processing")(stage, page)
        await page.locator("#meter").wait_for()

    return reach


async def _count_down(stage: BuyerStage, page: Page) -> None:
    """Show the countdown, which never ends; a clock that stands still would stop axe too."""
    await page.add_init_script(
        "((every) => { window.setInterval = (run, ms) => ms === 1000 ? 0 : every(run, ms); })"
        "(window.setInterval)"
    )
    await _show("succeeded", checkout=URLS)(stage, page)
    await page.locator("#stay").wait_for()


async def _stay(stage: BuyerStage, page: Page) -> None:
    await _count_down(stage, page)
    await page.locator("#stay").click()


async def _open_details(stage: BuyerStage, page: Page) -> None:
    await go_to("/{paid}")(stage, page)
    await page.locator(".fold summary").click()


async def _refund_partly(stage: BuyerStage, page: Page) -> None:
    path = await reach_state(stage.desk, "succeeded")
    body = {"paymentId": path[1:], "amount": {"unit": "iso4217/USD", "value": "500"}}
    await stage.desk.rest.call("POST", "/v1/refunds", stage.desk.rest.merchant, body)
    await page.goto(stage.desk.rest.base + path)


async def _lose_connection(stage: BuyerStage, page: Page) -> None:
    await _show("requires_action")(stage, page)
    await page.context.set_offline(True)
    await page.locator("#note:not(:empty)").wait_for()


async def _open_test_tools(stage: BuyerStage, page: Page) -> None:
    await _show("requires_action")(stage, page)
    await page.locator(".drawer summary").click()


async def _refuse_test_action(stage: BuyerStage, page: Page) -> None:
    """Press a button of a page that is out of date."""
    path = await reach_state(stage.desk, "requires_action")
    await page.route("**/events", lambda route: route.fulfill(status=429, body=""))
    await page.route("**/state", lambda route: route.abort())
    await page.goto(stage.desk.rest.base + path)
    await page.locator(".drawer summary").click()
    await stage.desk.rest.simulate(path[1:], "stall")
    await page.locator("[name=outcome][value=cancelled]").click()
    await page.get_by_role("alert").wait_for()


CHECKOUT_STATES = (
    *(
        make_state(f"checkout_{state}", _show(state))
        for state in PAYMENT_STATES
        # processing: with its confirmations, below
        if state != "processing"
    ),
    make_state("checkout_ways_closed", _close_ways),
    make_state("checkout_send", _choose_what_to_send),
    make_state("checkout_send_address", _open_address),
    make_state("checkout_send_refused", _refuse_address),
    make_state("checkout_claim", _offer_claim),
    make_state("checkout_claim_refused", _refuse_claim),
    make_state("checkout_claim_open", _make_claim),
    make_state("checkout_phone", _show("requires_action"), is_phone=True),
    make_state("checkout_without_scripts", _show("requires_action"), has_scripts=False),
    make_state("checkout_arabic", _show("requires_action"), language="ar"),
    make_state("checkout_japanese", _show("requires_action"), language="ja"),
    make_state("checkout_full_order", _show_full_order),
    make_state("checkout_last_minute", _show_last_minute),
    make_state("checkout_confirming", _confirm(5, is_delayed=False)),
    make_state("checkout_delayed", _confirm(0, is_delayed=True)),
    make_state("checkout_countdown", _count_down, has_own_page=True),
    make_state("checkout_countdown_stopped", _stay, has_own_page=True),
    make_state("checkout_paid_details", _open_details),
    make_state("checkout_refunded_partly", _refund_partly),
    make_state("checkout_failed_with_way_back", _show("expired", checkout=URLS)),
    make_state("checkout_offline", _lose_connection, has_own_page=True),
    make_state("checkout_test_tools", _open_test_tools),
    make_state("checkout_test_tools_refused", _refuse_test_action),
)
