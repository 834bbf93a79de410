"""States of the form, the receipt, the landing page and error pages."""

from __future__ import annotations

from playwright.async_api import Page

from tests.screenshots.buyer_environment import NEEDS_DATA, BuyerStage, go_to, make_state
from tests.screenshots.picture import Reach
from tests.support.capture import CapturePos, open_pos, submit_form
from tests.support.checkout_states import reach_state


async def _open(stage: BuyerStage, page: Page) -> tuple[CapturePos, str]:
    """Open the form of a payment; return the payment, and the form's address."""
    pos = await open_pos(stage.desk, amount=NEEDS_DATA)
    path = stage.desk.rest.base + _get_path(await pos.url())
    await page.goto(path)
    return pos, path


def _get_path(url: str) -> str:
    return url[url.index("/collect/") :]


async def _open_form(stage: BuyerStage, page: Page) -> None:
    await _open(stage, page)


async def _make_errors(stage: BuyerStage, page: Page) -> None:
    await _open(stage, page)
    await page.get_by_label("Full name").fill("Ada")
    await page.locator("button.primary").click()
    await page.locator("#faults").wait_for()


async def _lose_form(stage: BuyerStage, page: Page) -> None:
    """Send a form that is filled, without a connection."""
    await _open(stage, page)
    await page.route("**/collect/*", lambda route: route.abort())
    await page.locator("button.primary").click()
    await page.locator("#trouble").wait_for()


async def _submit(stage: BuyerStage, page: Page) -> None:
    pos = await open_pos(stage.desk, amount=NEEDS_DATA)
    url = await pos.url()
    assert (await submit_form(stage.desk, url)).status == 200
    await page.goto(stage.desk.rest.base + _get_path(url))


async def _close(stage: BuyerStage, page: Page) -> None:
    pos, path = await _open(stage, page)
    await stage.desk.rest.simulate(pos.payment_id, "expired")
    await page.goto(path)


def _receipt(account: str = "") -> Reach:
    async def reach(stage: BuyerStage, page: Page) -> None:
        named = account or stage.paid.wallet.account
        await go_to(f"/{{paid}}/receipt?account={named}")(stage, page)

    return reach


async def _no_receipt(stage: BuyerStage, page: Page) -> None:
    path = await reach_state(stage.desk, "cancelled")
    await page.goto(f"{stage.desk.rest.base}{path}/receipt")


OTHER_STATES = (
    make_state("form_empty", _open_form),
    make_state("form_arabic", _open_form, language="ar"),
    make_state("form_errors", _make_errors),
    make_state("form_unsent", _lose_form),
    make_state("form_done", _submit),
    make_state("form_closed", _close),
    make_state("form_failed", go_to("/collect/?t=unknown")),
    make_state("receipt_asks", go_to("/{paid}/receipt")),
    make_state("receipt_wrong_account", _receipt("0x" + "11" * 20)),
    make_state("receipt_details", _receipt()),
    make_state("receipt_none", _no_receipt),
    make_state("landing", go_to("/")),
    make_state("error_missing", go_to("/nothing/here")),
    make_state("error_unreadable", go_to("/%ff")),
    make_state("error_collect", go_to("/collect/nothing")),
)
