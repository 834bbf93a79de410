"""The checkout page as a browser receives it."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from decimal import Decimal
from typing import Any

import pytest
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.domain.payments.return_links import ReturnLink
from florin_server.domain.payouts.refund_amounts import RefundProgress
from florin_server.web.language import LANGUAGES
from florin_server.web.payments import page as checkout
from markupsafe import escape

from tests.support.page_texts import HOSTILE_TEXT, get_headers, get_text
from tests.support.service_harness import ORDER, PAY_URL
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")


CHECKOUT_DATA: dict[str, Any] = {
    "id": "pay_1",
    "merchant": "Tea House",
    "value": Decimal("12.50"),
    "symbol": "USD",
    "status": PaymentStatus.REQUIRES_ACTION,
    "link": "https://pay.example/pay_1",
    "live": True,
    "expires_at": 1_800_000_900,
    "now_ms": 1_800_000_000_000,
    "updated_at": 1_800_000_000,
    "app_id": "app_checkout_live",
}


def shown(language: str = "en", **changes) -> str:
    return checkout.render_checkout(
        checkout.CheckoutData(**{**CHECKOUT_DATA, **changes}), language
    ).body.decode()


def refund(progress: RefundProgress) -> checkout.CheckoutRefund:
    return checkout.CheckoutRefund(progress, Decimal("0.003500"), Decimal("0.012"), "ETH")


def scripts(page: str) -> int:
    """Count the scripts: the page's own, and two of data."""
    return len(re.findall("<script", page))


def titles(page: str) -> list[str]:
    """Return the titles of the states that a page shows without a script."""
    parts = re.split(r'<(?:div|span)[^>]* data-view="\w+"', page)[1:]
    shown_parts = [part for part in parts if not part.startswith(" hidden")]
    return [title for part in shown_parts for title in re.findall("<h2>([^<]+)</h2>", part)[:1]]


async def test_page_shows_merchant_amount_and_payment_link(desk):
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    page = await desk.ask("GET", f"/{payment_id}")
    assert page.status == 200
    assert "Pay Corner Café 12.50 USD" in get_text(page.text)
    assert titles(page.text) == ["Choose how to pay"]
    assert f"{PAY_URL}/{payment_id}" in get_text(page.text)
    assert "<title>Pay Corner Café 12.50\xa0USD</title>" in page.text


@pytest.mark.parametrize(
    ("unit", "value", "spelled"),
    [
        ("iso4217/USD", "1", "0.01\xa0USD"),
        ("iso4217/EUR", "100", "1.00\xa0EUR"),
        ("iso4217/USD", "123456789", "1,234,567.89\xa0USD"),
    ],
)
async def test_amounts_are_exact(desk, unit, value, spelled):
    order = {"amount": {"unit": unit, "value": value}, "referenceId": "amount"}
    payment_id = (await desk.rest.create(order))["paymentId"]
    text = get_text((await desk.ask("GET", f"/{payment_id}")).text)
    assert f"Pay Corner Café {spelled}".replace("\xa0", " ") in text.replace("\xa0", " ")


async def test_a_paid_payment_says_so(desk):
    offer = await desk.offer()
    await desk.confirm(offer)
    assert (await desk.wait_final(offer.payment_id))["status"] == "succeeded"
    page = await desk.ask("GET", f"/{offer.payment_id}")
    assert titles(page.text) == ["Paid"]
    assert "12.50\xa0tUSD, Florin Devnet" in page.text
    tx_id = (await desk.rest.status(offer.payment_id))["info"]["txId"]
    assert f"<code>{tx_id}</code>" in page.text
    assert PAY_URL not in page.text


async def test_a_cancelled_payment_says_so(desk):
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    await desk.rest.merchant_cancel(payment_id)
    page = await desk.ask("GET", f"/{payment_id}")
    assert page.status == 200
    assert titles(page.text) == ["Payment canceled"]
    assert PAY_URL not in page.text


async def test_a_payment_that_is_out_of_time_says_so_at_once(desk):
    created = await desk.rest.create({**ORDER, "expiresAt": desk.now + 100})
    desk.clock.advance(100)
    page = await desk.ask("GET", f"/{created['paymentId']}")
    assert titles(page.text) == ["Payment expired"]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_every_state_has_its_words_and_its_look(language):
    pages = [shown(language, status=status) for status in PaymentStatus]
    pages += [
        shown(language, status=PaymentStatus.SUCCEEDED, refund=refund(progress))
        for progress in RefundProgress
    ]
    assert len({tuple(titles(page)) for page in pages}) == len(pages)
    assert all(len(titles(page)) == 1 for page in pages)
    signs = {re.search(r'class="(?:sign|glyph)[^>]*>(.*?)</span>', page)[1] for page in pages}
    assert len(signs) == len(PaymentStatus) + 1
    # a page asks for payment only while the payment can be paid
    assert ["pay_1</code>" in page and 'class="qr"' in page for page in pages] == (
        [True] + [False] * (len(pages) - 1)
    )


@pytest.mark.parametrize("language", LANGUAGES)
async def test_partly_refunded_payment_shows_how_much_of_how_much(language):
    page = shown(language, status=PaymentStatus.SUCCEEDED, refund=refund(RefundProgress.PARTLY))
    text = re.search(r"</h2>\s*<p>(.*)</p>", page)
    assert text is not None
    decimal = "," if language in {"de", "es", "fr"} else "."
    amounts = re.findall(r"<bdi>([^<]*)\xa0ETH</bdi>", text[1])
    assert sorted(amounts) == [f"0{decimal}0035", f"0{decimal}012"]
    # a page that reports a refund does not leave automatically
    assert json_of(page, "page-data")["waits"] is True


async def test_refunds_of_a_part_are_summed_on_the_payment_page(desk):
    offer = await desk.offer()
    await desk.confirm(offer)
    assert (await desk.wait_final(offer.payment_id))["status"] == "succeeded"
    for number, (value, total) in enumerate((("100", "1.00"), ("250", "3.50"))):
        amount = {"unit": "iso4217/USD", "value": value}
        await desk.rest.refund(offer.payment_id, key=f"part-{number}", amount=amount)
        page = (await desk.ask("GET", f"/{offer.payment_id}")).text
        assert titles(page) == ["Partly refunded"]
        assert "You paid <bdi>12.50\xa0tUSD</bdi>. " in page
        assert f" refunds <bdi>{total}\xa0tUSD</bdi> of it" in page


async def test_ended_payment_page_warns_about_fees_and_late_money():
    for status in (PaymentStatus.FAILED, PaymentStatus.EXPIRED, PaymentStatus.CANCELLED):
        text = get_text(shown(status=status))
        assert re.search("Do not send money for (this payment|it now)\\.", text)
        assert "is recorded and can be returned, less network fees" in text


async def test_it_is_live_only_for_payments_that_may_change():
    for status in PaymentStatus:
        page = shown(status=status)
        assert ("Check the status again" in page) is not status.is_final
        assert json_of(page, "page-data")["isFinal"] is status.is_final


def json_of(page: str, name: str) -> dict[str, Any]:
    """Return the data of scripts."""
    match = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page)
    return json.loads(match[1])


def back_of(page: str) -> list[str]:
    """Return the address of the page's link to the shop."""
    return [html.unescape(url) for url in re.findall(r'id="back" href="(https:[^"]*)"', page)]


URLS = {"successUrl": "https://shop.example/ok?a=1&b=%22#c", "errorUrl": "https://shop.example/no"}


@pytest.mark.parametrize("status", ["succeeded", "failed", "expired", "cancelled"])
async def test_a_payment_that_is_over_leads_back_to_the_shop(desk, status):
    payment_id = (await desk.rest.create({**ORDER, "checkout": URLS}))["paymentId"]
    assert back_of((await desk.ask("GET", f"/{payment_id}")).text) == []
    await desk.rest.call(
        "POST",
        f"/v1/sandbox/payments/{payment_id}/simulate",
        desk.rest.merchant,
        {"outcome": status},
    )
    page = (await desk.ask("GET", f"/{payment_id}")).text
    assert "Return to Corner Café" in get_text(page)
    if status == "succeeded":
        expected = f"https://shop.example/ok?a=1&b=%22&payment_id={payment_id}#c"
    else:
        expected = f"https://shop.example/no?payment_id={payment_id}"
    assert back_of(page) == [expected]


async def test_incomplete_or_invalid_checkout_urls_show_no_link_back(desk):
    for urls in (
        {"successUrl": URLS["successUrl"]},
        {**URLS, "successUrl": "javascript:alert(1)"},
        {**URLS, "errorUrl": "http://shop.example/no"},
    ):
        payment_id = (await desk.rest.create({**ORDER, "checkout": urls}))["paymentId"]
        await desk.rest.merchant_cancel(payment_id)
        assert back_of((await desk.ask("GET", f"/{payment_id}")).text) == [], urls


async def test_an_address_of_a_shop_is_an_address_and_nothing_else():
    address = "https://shop.example/?a='x'<b>&c"
    page = shown(
        status=PaymentStatus.FAILED,
        return_url=address + '"><script>',
        merchant=HOSTILE_TEXT,
    )
    assert scripts(page) == 3
    assert back_of(page) == [address + '"><script>']


async def test_a_merchants_name_is_text_and_nothing_else(desk):
    tenant = await desk.tenant()
    await tenant.change_merchant(name=HOSTILE_TEXT)
    created = await desk.rest.call("POST", "/v1/payments", tenant.headers, ORDER)
    page = (await desk.ask("GET", f"/{created['paymentId']}")).text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &#34;Söhne&#34;" in page
    assert scripts(page) == 3
    assert "<img" not in page
    assert json_of(page, "page-data")["merchant"] == HOSTILE_TEXT


async def test_content_security_policy_allows_only_own_resources(desk):
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    for path in (f"/{payment_id}", "/pay_unknown"):
        answer = await desk.ask("GET", path)
        policy = get_headers(answer)["content-security-policy"]
        for rule in (
            *("default-src 'none'", "script-src 'self'", "style-src 'self'", "base-uri 'none'"),
            *("connect-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"),
        ):
            assert rule in [text.strip() for text in policy.split(";")]
        assert not re.search(r"javascript:|\son\w+=|\sstyle=|http-equiv|<style", answer.text)


async def test_accent_color_is_the_only_inline_style():
    answer = checkout.render_checkout(
        checkout.CheckoutData(**{**CHECKOUT_DATA, "accent": "#ffcc00"}), "en"
    )
    (style,) = re.findall(r"<style>(.*?)</style>", answer.body.decode())
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = dict(answer.headers)[b"content-security-policy"].decode()
    assert f"style-src 'self' 'sha256-{digest}';" in policy


async def test_its_headers_keep_the_link_to_the_buyer(desk):
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    headers = get_headers(await desk.ask("GET", f"/{payment_id}"))
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("name", ["pay_unknown", "%3Cscript%3E", "pay_%2F..", "a" * 500])
async def test_other_links_lead_to_a_page_too(desk, name):
    answer = await desk.ask("GET", f"/{name}")
    assert answer.status == 404
    assert get_headers(answer)["content-type"] == "text/html; charset=utf-8"
    assert get_text(answer.text).startswith("Payment not found No payment has this link.")
    assert "<script" not in answer.text


@pytest.mark.parametrize(
    "path",
    [
        *("/v1", "/v1/", "//v1", "/%76%31", "/versions/x", "/spec", "/spec/", "/docs/x"),
        *("/healthz/x", "/readyz/", "/assets", "/assets/x", "/icons", "/collect/x"),
        *("/.well-known", "/.well-known/x"),
    ],
)
async def test_reserved_path_is_no_payment_link(desk, path):
    answer = await desk.ask("GET", path)
    if path == "/readyz/":
        assert answer.status == 200
    else:
        assert answer.refusal == (404, "invalid_params")
        assert answer.body["message"] == "Path not found"


async def test_head_is_get_without_the_page(desk):
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    for path, status in ((f"/{payment_id}", 200), ("/pay_unknown", 404), ("/healthz", 200)):
        full, head = await desk.ask("GET", path), await desk.ask("HEAD", path)
        assert (head.status, head.text) == (full.status, "") == (status, "")
        for name in ("content-type", "content-length", "content-security-policy"):
            assert head.headers.get(name) == full.headers.get(name)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_page_takes_no_orders(desk, method):
    answer = await desk.ask(method, "/pay_unknown")
    assert answer.refusal == (405, "invalid_params")
    assert get_headers(answer)["allow"] == "GET, HEAD"


async def test_test_payments_are_marked_and_live_ones_are_not(desk):
    note = "Test payment: no real money moves."
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    assert note in get_text((await desk.ask("GET", f"/{payment_id}")).text)
    assert note in get_text(shown(live=False))
    assert note not in get_text(shown(live=True))


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_theme_and_language_of_the_url_are_carried_into_every_link(desk, theme):
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    request = f"lang=de&theme={theme}"
    page = (await desk.ask("GET", f"/{payment_id}?{request}&utm=x")).text
    assert f'<html lang="de" dir="ltr" data-theme="{theme}">' in page
    own = re.findall(rf'(?:href|action)="/{payment_id}([^"]*)"', page)
    assert len(own) == 11
    for item in own:
        assert re.fullmatch(rf"(/addresses|/test)?\?lang=\w+&amp;theme={theme}", item), own
    assert own.count(f"/test?{request}".replace("&", "&amp;")) == 3
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": desk.rest.base}
    url = f"{desk.rest.base}/{payment_id}/test?{request}&utm=x"
    async with desk.session.post(
        url, data="outcome=stall", headers=form, allow_redirects=False
    ) as result:
        assert result.headers["Location"] == f"/{payment_id}?{request}"


@pytest.mark.parametrize("theme", ["", "DARK", "dark%22%20onload=%22x", "<b>", "dark,light"])
async def test_invalid_theme_is_ignored(desk, theme):
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    page = (await desk.ask("GET", f"/{payment_id}?theme={theme}")).text
    assert '<html lang="en" dir="ltr">' in page
    assert "theme" not in page


async def test_page_shows_the_order_and_the_support_contact(desk):
    tenant = await desk.tenant()
    support = {"supportEmail": "help@tea.example", "supportUrl": "https://tea.example/help"}
    path = f"/v1/merchants/{tenant.merchant.id}"
    assert (await desk.ask("PATCH", path, tenant.headers, support)).status == 200
    order = {
        "description": f"Order of {HOSTILE_TEXT}",
        "lines": [
            {"name": HOSTILE_TEXT, "quantity": 2, "amount": "1000"},
            {"name": "Delivery", "quantity": 1, "amount": "250"},
        ],
        "metadata": {"secret": "m4rgin"},
    }
    answer = await desk.ask("POST", "/v1/payments", tenant.headers, {**ORDER, **order})
    page = (await desk.ask("GET", f"/{answer.body['paymentId']}")).text
    rows = re.findall(r"<dt>(.*?)</dt><dd><bdi>(.*?)</bdi></dd>", page)
    escaped = str(escape(HOSTILE_TEXT))
    assert [(get_text(f"<body>{name}"), amount) for name, amount in rows] == [
        (f"{escaped} 2 ×", "10.00\xa0USD"),
        ("Delivery", "2.50\xa0USD"),
        ("Total", "12.50\xa0USD"),
    ]
    assert 'href="mailto:help@tea.example"' in page
    assert 'href="https://tea.example/help" rel="noreferrer">Contact' in page
    assert "Order of &lt;script&gt;" in page
    # the shop's own notes and its reference are for no one else
    assert "m4rgin" not in page
    assert ORDER["referenceId"] not in page
    assert HOSTILE_TEXT not in page


async def test_page_without_an_order_has_no_list_of_it(desk):
    page = (await desk.ask("GET", f"/{(await desk.rest.create(ORDER))['paymentId']}")).text
    assert 'class="order"' not in page
    assert "mailto:" not in page


@pytest.mark.parametrize(
    ("query", "link", "needs_tap"),
    [
        ("returnUrl=com.shop.app%3A%2F%2Fdone", "com.shop.app://done?payment_id={id}", True),
        ("returnUrl=https%3A%2F%2Fevil.example", "https://evil.example?payment_id={id}", True),
        ("returnUrl=https%3A%2F%2Fshop.example", "https://shop.example?payment_id={id}", False),
        ("returnUrl=javascript%3Aalert%281%29&preferUniversalLinks=1", None, False),
        ("returnUrl=javascript%253Aalert%25281%2529", None, False),
        ("returnUrl=a.b%3A%2F%2F1&returnUrl=a.b%3A%2F%2F2", None, False),
        ("returnUrl=a.b%3A%2F%2F%22%3E%3Cscript%3E&preferUniversalLinks=yes", None, False),
    ],
)
async def test_return_link_is_given_after_the_end_only(desk, query, link, needs_tap):
    checkout_urls = dict.fromkeys(("successUrl", "errorUrl"), "https://shop.example/end")
    payment_id = (await desk.rest.create({**ORDER, "checkout": checkout_urls}))["paymentId"]
    before = (await desk.ask("GET", f"/{payment_id}?{query}")).text
    assert "Back to the app" not in before
    # links of the page keep the options, those to other languages too
    for part in query.split("&") if link is not None else ():
        links = re.findall(r'(?:href|action)="([^"]*)"', before)
        with_option = [url for url in links if html.escape(part) in url]
        assert len(with_option) > len(LANGUAGES)
    path = f"/v1/payments/{payment_id}/cancel"
    assert (await desk.ask("POST", path, desk.rest.merchant)).status == 200
    page = (await desk.ask("GET", f"/{payment_id}?{query}")).text
    (app,) = re.findall(r'href="([^"]*)" rel="noreferrer"><span>Back to the app', page) or [None]
    assert (app and html.unescape(app)) == (link and link.format(id=payment_id))
    # the shop's own address comes first, and is the one that the page may open automatically
    assert back_of(page) == [f"https://shop.example/end?payment_id={payment_id}"]
    assert '"><script>' not in page
    if link is not None:
        back = ReturnLink(link, needs_tap)
        alone = shown(status=PaymentStatus.SUCCEEDED, return_link=back)
        assert json_of(alone, "page-data")["waits"] is needs_tap


async def test_the_pages_app_can_pay_and_not_cancel(desk):
    payment_id = (await desk.rest.create({**ORDER, "referenceId": "own"}))["paymentId"]
    page = await desk.ask("GET", f"/{payment_id}")
    (app_id,) = re.findall(r'"appId":"(\w+)"', page.text)
    headers = {"App-Id": app_id, "Client-Id": "anybody"}
    path = f"/v1/gateway/payment/{payment_id}"
    answer = await desk.ask(
        "POST", f"{path}/options", headers, {"accounts": [EvmTestWallet().account]}
    )
    assert len(answer.body["options"]) == 1
    refused = await desk.ask("POST", f"{path}/cancel", headers, {})
    assert refused.refusal == (403, "forbidden")
    # nor is it an app of the other mode
    other = await desk.ask("GET", path, {**headers, "App-Id": "app_checkout_live"})
    assert other.refusal == (401, "invalid_app_id")
