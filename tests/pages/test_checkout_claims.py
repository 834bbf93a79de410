"""The checkout page of an ended payment: claiming held money, without a script."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import pytest_asyncio

from tests.support.addresses import CHAIN, DOLLAR, ORDER
from tests.support.browser import list_violations, open_visitor
from tests.support.deposit_claims import hold_claimable_money
from tests.support.page_texts import get_headers
from tests.support.service_harness import open_service

pytestmark = pytest.mark.asyncio(loop_scope="module")

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
ADDRESS = "0x" + "d1" * 20
TEXT = "5.00 tUSD came from an exchange or a contract."


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("claims") / "home") as service:
        yield service


@pytest_asyncio.fixture(loop_scope="module")
async def payment_id(service):
    """Return a cancelled payment at whose address money is held."""
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    await hold_claimable_money(service, payment_id, 5_000_000)
    await service.rest.cancel(payment_id)
    return payment_id


async def post_form(service, payment_id, account=ADDRESS, asset=DOLLAR, *, query="", **more):
    """Return the answer to the page's form, without following redirects."""
    headers = {**FORM, "Origin": service.rest.base, **more.pop("headers", {})}
    form = urlencode({"asset": asset, "account": account, **more})
    url = f"{service.rest.base}/{payment_id}/claims{query}"
    async with service.session.post(url, data=form, headers=headers, allow_redirects=False) as it:
        return it.status, get_headers(it), await it.text()


async def get_page(service, payment_id, **query):
    text = (await service.ask("GET", f"/{payment_id}?{urlencode(query)}")).text
    return re.sub("</?bdi>", "", text).replace("\u00a0", " ")


async def list_claims(service, payment_id):
    path = f"/v1/payments/{payment_id}/deposit-claims"
    return (await service.rest.call("GET", path, service.rest.merchant))["claims"]


async def decide(service, payment_id, claim_id, verb):
    path = f"/v1/payments/{payment_id}/deposit-claims/{claim_id}/{verb}"
    await service.rest.call("POST", path, service.rest.merchant)


async def test_form_claims_for_an_address_and_shows_its_state(service, payment_id):
    assert TEXT in await get_page(service, payment_id)
    status, headers, _ = await post_form(
        service, payment_id, message="Order 17 <b>", query="?lang=en"
    )
    assert status == 303
    location = urlsplit(headers["location"])
    (claim,) = await list_claims(service, payment_id)
    assert (location.path, location.fragment) == (f"/{payment_id}", "claims")
    assert parse_qs(location.query) == {"lang": ["en"], "claim": [claim["claimId"]]}
    assert claim["account"].lower() == f"{CHAIN}:{ADDRESS}"
    assert claim["message"] == "Order 17 <b>"
    shown = await get_page(service, payment_id, claim=claim["claimId"])
    assert "Your claim for 5.00 tUSD waits for" in shown
    assert "<form" not in shown.partition('id="claims"')[2].partition("</section>")[0]
    # another visitor reads nothing of it, and can claim too
    other = await get_page(service, payment_id)
    assert "Your claim" not in other
    assert ADDRESS not in other
    assert TEXT in other
    await decide(service, payment_id, claim["claimId"], "reject")
    shown = await get_page(service, payment_id, claim=claim["claimId"])
    assert "Your claim for 5.00 tUSD was rejected." in shown


async def test_confirmed_claim_is_shown_to_its_maker_alone(service, payment_id):
    _, headers, _ = await post_form(service, payment_id, account=f"{CHAIN}:{ADDRESS}")
    (claim_id,) = parse_qs(urlsplit(headers["location"]).query)["claim"]
    await decide(service, payment_id, claim_id, "confirm")
    shown = await get_page(service, payment_id, claim=claim_id)
    assert "Your claim is confirmed: 5.00 tUSD goes to your account." in shown
    assert 'id="claims"' not in await get_page(service, payment_id)
    elsewhere = (await service.rest.create(ORDER))["paymentId"]
    await service.rest.cancel(elsewhere)
    assert 'id="claims"' not in await get_page(service, elsewhere, claim=claim_id)


@pytest.mark.parametrize(
    ("account", "text"),
    [
        ("0x12", "cannot go to this account"),
        (f"eip155:1:{ADDRESS}", "cannot go to this account"),
        ('"><script>', "cannot go to this account"),
    ],
)
async def test_wrong_account_is_reported_and_kept_in_the_form(service, payment_id, account, text):
    status, _, page = await post_form(service, payment_id, account=account, message="Order 17")
    assert status == 200
    assert text in page
    assert 'value="Order 17"' in page
    assert "<script>" not in page.partition('id="claims"')[2].partition("</section>")[0]
    assert await list_claims(service, payment_id) == []


async def test_payment_without_held_money_refuses_the_form(service):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    assert 'id="claims"' not in await get_page(service, payment_id)
    assert (await post_form(service, payment_id))[0] == 200
    assert (await post_form(service, "pay_" + "0" * 27))[0] == 404


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.example"}, {"Content-Type": "text/plain"}]
)
async def test_form_of_another_site_claims_nothing(service, payment_id, headers):
    status, _, _ = await post_form(service, payment_id, headers=headers)
    assert status == 403
    assert await list_claims(service, payment_id) == []


@pytest.mark.slow
async def test_form_is_accessible_on_a_phone(service, payment_id, browser):
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    async with open_visitor(browser, **phone) as visitor:
        page = await visitor.open(f"{service.rest.base}/{payment_id}")
        assert await list_violations(page) == []
        await page.get_by_label("Your account on").fill(ADDRESS)
        await page.get_by_role("button", name="Claim 5.00 tUSD").click()
        await page.get_by_text("Your claim for 5.00 tUSD waits for").wait_for()
        assert await list_violations(page) == []
