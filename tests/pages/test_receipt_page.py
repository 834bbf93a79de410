"""The receipt page, the signed receipt, and the public keys."""

from __future__ import annotations

import json
import re
from decimal import Decimal

import pytest
import pytest_asyncio
from florin_server.domain.receipts import keys, signature
from florin_server.settings import LimitSettings
from florin_server.web import assets
from florin_server.web.receipts import page

from tests.support.page_texts import HOSTILE_TEXT, get_headers, get_text
from tests.support.receipts import JWKS, decode_claims
from tests.support.service_harness import ORDER, PAY_URL, open_service

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def limited(tmp_path_factory):
    few = LimitSettings(page_burst=3)
    async with open_service(tmp_path_factory.mktemp("limited") / "home", limits=few) as desk:
        yield desk


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def paid(desk):
    offer = await desk.offer()
    await desk.confirm(offer)
    assert (await desk.wait_final(offer.payment_id))["status"] == "succeeded"
    return offer


async def fetch_receipt(desk, payment_id) -> dict:
    path = f"/v1/payments/{payment_id}/receipt"
    answer: dict = await desk.rest.call("GET", path, desk.rest.merchant)
    return answer


async def test_receipt_page_without_the_account_shows_only_checkout_data(desk, paid):
    answer = await desk.ask("GET", f"/{paid.payment_id}/receipt")
    assert answer.status == 200
    shown = get_text(answer.text)
    assert "Corner Café" in shown
    assert "12.50 USD" in shown
    assert paid.payment_id in shown
    tx_hash = (await desk.rest.status(paid.payment_id))["info"]["txId"]
    for secret in (paid.wallet.address, paid.wallet.address.lower(), tx_hash, "order-1001", "jws"):
        assert secret not in answer.text
    for guess in ("", "0x" + "11" * 20, "eip155:1:" + paid.wallet.address, "x" * 5000, "%00"):
        answer = await desk.ask("GET", f"/{paid.payment_id}/receipt?account={guess}")
        assert tx_hash not in answer.text
        file = await desk.ask("GET", f"/{paid.payment_id}/receipt.jws?account={guess}")
        nul = guess == "%00"
        assert file.refusal == ((400, "invalid_params") if nul else (404, "payment_not_found"))
    unknown = await desk.ask("GET", "/pay_nobody/receipt.jws?account=0x")
    assert unknown.refusal == (404, "payment_not_found")


async def test_receipt_page_with_the_account_shows_all_and_offers_the_download(desk, paid):
    merchants = await fetch_receipt(desk, paid.payment_id)
    account = paid.wallet.account.lower()
    assert merchants["pageUrl"] == f"{PAY_URL}/{paid.payment_id}/receipt?account={account}"
    tx_hash = (await desk.rest.status(paid.payment_id))["info"]["txId"]
    for named in (account, paid.wallet.account, paid.wallet.address, paid.wallet.address.lower()):
        answer = await desk.ask("GET", f"/{paid.payment_id}/receipt?account={named}")
        shown = get_text(answer.text)
        for fact in (
            account,
            tx_hash,
            "12.50 tUSD",
            "Florin Devnet (eip155:31337)",
            merchants["keyId"],
            PAY_URL,
        ):
            assert fact in shown
        assert "order-1001" not in answer.text
        # amounts have no zeros that mean nothing
        assert "12.5000" not in answer.text
    path = f"/{paid.payment_id}/receipt.jws?account="
    assert path in answer.text
    file = await desk.ask("GET", path + account)
    headers = get_headers(file)
    assert headers["content-type"] == "application/jose"
    assert headers["content-disposition"] == f'attachment; filename="{paid.payment_id}.jws"'
    assert headers["cache-control"] == "no-store"
    okp_keys = signature.parse_key_set((await desk.ask("GET", JWKS)).text.encode())
    assert signature.verify_receipt(file.text, okp_keys).sub == paid.payment_id


async def test_public_receipt_leaves_out_the_order_reference(desk, paid):
    merchants = await fetch_receipt(desk, paid.payment_id)
    file = await desk.ask("GET", f"/{paid.payment_id}/receipt.jws?account={paid.wallet.account}")
    total, public = decode_claims(merchants["receipt"]), decode_claims(file.text)
    assert total.pop("reference") == "order-1001"
    # the same second; the claims are equal otherwise
    assert public == total
    okp_keys = signature.parse_key_set((await desk.ask("GET", JWKS)).text.encode())
    for text in (merchants["receipt"], file.text):
        assert signature.verify_receipt(text, okp_keys).sub == paid.payment_id


async def test_a_page_runs_its_own_script_alone_and_keeps_its_address(desk, paid):
    headers = get_headers(await desk.ask("GET", f"/{paid.payment_id}/receipt"))
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "script-src 'self'" in headers["content-security-policy"]
    text = (await desk.ask("GET", f"/{paid.payment_id}/receipt")).text
    (source,) = re.findall(r'<script type="module" src="([^"]+)"></script>', text)
    assert source == assets.get_asset_url("receipts/receipt.js")
    assert text.count("<script") == 1
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"


async def test_a_payment_that_did_not_succeed_has_no_page(desk):
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    answer = await desk.ask("GET", f"/{payment_id}/receipt")
    assert answer.status == 404
    assert "This payment has no receipt because it has not succeeded." in get_text(answer.text)
    assert (await desk.ask("GET", "/pay_unknown/receipt")).status == 404


async def test_names_of_strangers_are_text():
    summary = page.ReceiptSummary(
        HOSTILE_TEXT,
        Decimal(1),
        HOSTILE_TEXT,
        "pay_1",
        1_800_000_000,
        live=False,
        path="/pay_1/receipt",
    )
    details = page.ReceiptDetails(
        [("payer", HOSTILE_TEXT), ("paid", (Decimal(1), HOSTILE_TEXT))], HOSTILE_TEXT
    )
    for answer in (
        page.render_receipt(summary, details, "ar"),
        page.render_account_form(summary, HOSTILE_TEXT, "en"),
    ):
        shown = answer.body.decode()
        assert shown.count("<script") == 1
        assert "<script>" not in shown
        assert "<img" not in shown


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("en", "0.50\xa0tUSD · refunded · Jan 15, 2027 · 0x12"),
        ("de", "0,50\xa0tUSD · erstattet · 15.01.2027 · 0x12"),
    ],
)
async def test_refund_on_a_receipt_is_in_the_language_of_the_page(language, line):
    summary = page.ReceiptSummary(
        "T", Decimal(1), "USD", "pay_1", 1_800_000_000, live=False, path="/pay_1/receipt"
    )
    refund = page.RefundLine(Decimal("0.50"), "tUSD", "succeeded", 1_800_000_000, "0x12")
    waiting = page.RefundLine(Decimal("0.50"), "tUSD", "pending")
    details = page.ReceiptDetails([("refund", refund), ("refund", waiting)], "0x1")
    shown = page.render_receipt(summary, details, language).body.decode()
    assert f"<bdi>{line}</bdi>" in shown
    assert ("0.50\xa0tUSD · waiting</bdi>" in shown) is (language == "en")


async def test_receipt_key_set_is_public_and_contains_no_secret(desk):
    answer = await desk.ask("GET", JWKS, {"Origin": "https://shop.example"})
    headers = get_headers(answer)
    assert headers["content-type"] == "application/jwk-set+json"
    assert headers["cache-control"] == f"public, max-age={keys.CACHE_S}"
    assert headers["access-control-allow-origin"] == "*"
    (key,) = json.loads(answer.text)["keys"]
    assert key.keys() == {"kty", "crv", "x", "kid", "use", "alg"}
    assert (await desk.ask("HEAD", JWKS)).status == 200


async def test_receipt_pages_are_rate_limited(limited):
    payment_id = (await limited.rest.create(ORDER))["paymentId"]
    paths = (f"/{payment_id}/receipt", f"/{payment_id}/receipt.jws", JWKS)
    for path in paths:
        await limited.ask("GET", path)
    for path in paths:
        assert (await limited.ask("GET", path)).status == 429
    limited.clock.advance(3600)
