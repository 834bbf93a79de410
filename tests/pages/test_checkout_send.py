"""The checkout page's third way: sending to an address, without a wallet and without a script."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.support.addresses import DOLLAR, ORDER, PRICE, PlainSender, wait_for_status
from tests.support.browser import list_violations, open_visitor
from tests.support.page_texts import get_headers
from tests.support.service_harness import ServiceHarness, open_service
from tests.support.until import advance, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("send") / "home") as service:
        yield service


async def wait_for_missing(service: ServiceHarness, payment_id: str, value: int) -> None:
    """Wait until Florin misses an amount at the payment's address, while time passes."""

    async def pass_time() -> None:
        await advance(service.clock, 1.5)
        await service.chain.mine()

    async def read() -> str:
        (address,) = (await service.rest.detail(payment_id))["addresses"]
        return str(address["missing"])

    await wait_until(read, str(value), meanwhile=pass_time)


async def test_a_phone_scans_sends_too_little_and_the_rest(service, browser):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    async with open_visitor(browser, **PHONE) as visitor:
        page = await visitor.open(f"{service.rest.base}/{payment_id}")
        await page.locator("#send > summary").click()
        await page.locator(f'#send button[value="{DOLLAR}"]').click()
        await expect(page.locator("#send-amount")).to_have_text("12.50 tUSD")
        await expect(page.locator("#arrived")).to_contain_text("Waiting for your transfer")
        await expect(page.locator("#send .qr svg")).to_be_visible()
        assert await list_violations(page) == []
        address = (await page.locator("#send-address").text_content() or "").strip()
        sender = await PlainSender(service.chain).fund()
        await sender.send_token(address, PRICE - 500_000)
        await wait_for_missing(service, payment_id, 500_000)
        await expect(page.locator("#arrived")).to_contain_text("Send 0.50")
        await expect(page.locator("#send-amount")).to_have_text("0.50 tUSD")
        await sender.send_token(address, 500_000)
        await wait_for_status(service, payment_id, "succeeded")
        await expect(page.get_by_role("heading", name="Paid", exact=True)).to_be_visible()


async def open_by_form(service, payment_id: str, asset: str, **headers: str):
    """Return the answer to the page's form, without following redirects."""
    url = f"{service.rest.base}/{payment_id}/addresses?lang=de"
    sent = {**FORM, "Origin": service.rest.base, **headers}
    form = urlencode({"asset": asset})
    async with service.session.post(url, data=form, headers=sent, allow_redirects=False) as answer:
        return answer.status, get_headers(answer), await answer.text()


async def test_form_opens_an_address_without_a_script(service):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    status, headers, _ = await open_by_form(service, payment_id, DOLLAR)
    assert status == 303
    path = headers["location"].partition("#")[0]
    assert path == f"/{payment_id}?lang=de&{urlencode({'asset': DOLLAR})}"
    text = (await service.ask("GET", path)).text
    (address,) = (await service.rest.detail(payment_id))["addresses"]
    assert f'data-copy="{address["address"]}"' in text
    # the same asset has the same address
    assert (await open_by_form(service, payment_id, DOLLAR))[0] == 303
    assert len((await service.rest.detail(payment_id))["addresses"]) == 1
    # another page does not know the choice, and shows the address anyway
    assert address["address"] in (await service.ask("GET", f"/{payment_id}")).text


async def test_what_has_no_address_is_reported_on_the_page(service):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    status, _, text = await open_by_form(service, payment_id, f"{DOLLAR}00")
    assert status == 200
    assert "Dafür gibt es derzeit keine" in text
    assert "addresses" not in await service.rest.detail(payment_id)


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.example"}, {"Content-Type": "text/plain"}]
)
async def test_form_of_another_site_opens_no_address(service, headers):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    status, _, _ = await open_by_form(service, payment_id, DOLLAR, **headers)
    assert status == 403
    assert "addresses" not in await service.rest.detail(payment_id)


async def test_ended_payment_shows_no_address(service):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    await open_by_form(service, payment_id, DOLLAR)
    await service.rest.cancel(payment_id)
    assert (await open_by_form(service, payment_id, DOLLAR))[0] == 200
    assert 'id="send' not in (await service.ask("GET", f"/{payment_id}")).text
