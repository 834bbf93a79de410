"""The receipt as a buyer gets it, and the keys that everybody may fetch."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
import pytest_asyncio
from florin_server.config import LimitSettings
from florin_server.domain.receipts import keys, signature
from florin_server.web.receipts import page

from tests.support.desk import ORDER, PAY_URL, opened
from tests.support.page_texts import NASTY, headers_of, text_of
from tests.support.receipts import JWKS, said_in

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def limited(tmp_path_factory):
    few = LimitSettings(page_burst=3)
    async with opened(tmp_path_factory.mktemp("limited") / "home", limits=few) as desk:
        yield desk


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def paid(desk):
    offer = await desk.offer()
    await desk.confirm(offer)
    assert (await desk.final(offer.payment_id))["status"] == "succeeded"
    return offer


async def told(desk, payment_id) -> dict:
    path = f"/v1/payments/{payment_id}/receipt"
    answer: dict = await desk.rest.call("GET", path, desk.rest.merchant)
    return answer


async def test_a_stranger_with_the_link_sees_what_the_checkout_page_tells(desk, paid):
    answer = await desk.ask("GET", f"/{paid.payment_id}/receipt")
    assert answer.status == 200
    shown = text_of(answer.text)
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
        assert file.told == ((400, "invalid_params") if nul else (404, "payment_not_found"))
    unknown = await desk.ask("GET", "/pay_nobody/receipt.jws?account=0x")
    assert unknown.told == (404, "payment_not_found")


async def test_who_names_the_account_sees_all_and_has_it_for_download(desk, paid):
    merchants = await told(desk, paid.payment_id)
    account = paid.wallet.account.lower()
    assert merchants["pageUrl"] == f"{PAY_URL}/{paid.payment_id}/receipt?account={account}"
    tx_hash = (await desk.rest.status(paid.payment_id))["info"]["txId"]
    for named in (account, paid.wallet.account, paid.wallet.address, paid.wallet.address.lower()):
        answer = await desk.ask("GET", f"/{paid.payment_id}/receipt?account={named}")
        shown = text_of(answer.text)
        for fact in (
            account,
            tx_hash,
            "12.500000 tUSD",
            merchants["keyId"],
            PAY_URL,
        ):
            assert fact in shown
        assert "order-1001" not in answer.text
    path = f"/{paid.payment_id}/receipt.jws?account="
    assert path in answer.text
    file = await desk.ask("GET", path + account)
    headers = headers_of(file)
    assert headers["content-type"] == "application/jose"
    assert headers["content-disposition"] == f'attachment; filename="{paid.payment_id}.jws"'
    assert headers["cache-control"] == "no-store"
    known = signature.key_set((await desk.ask("GET", JWKS)).text.encode())
    assert signature.verified(file.text, known).sub == paid.payment_id


async def test_public_receipt_leaves_out_the_order_reference(desk, paid):
    merchants = await told(desk, paid.payment_id)
    file = await desk.ask("GET", f"/{paid.payment_id}/receipt.jws?account={paid.wallet.account}")
    whole, public = said_in(merchants["receipt"]), said_in(file.text)
    assert whole.pop("reference") == "order-1001"
    # the same second, the same statement otherwise
    assert public == whole
    known = signature.key_set((await desk.ask("GET", JWKS)).text.encode())
    for text in (merchants["receipt"], file.text):
        assert signature.verified(text, known).sub == paid.payment_id


async def test_a_page_runs_nothing_and_keeps_its_address(desk, paid):
    headers = headers_of(await desk.ask("GET", f"/{paid.payment_id}/receipt"))
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "<script" not in (await desk.ask("GET", f"/{paid.payment_id}/receipt")).text
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"


async def test_a_payment_that_did_not_succeed_has_no_page(desk):
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    answer = await desk.ask("GET", f"/{payment_id}/receipt")
    assert answer.status == 404
    assert "this payment has not succeeded" in text_of(answer.text)
    assert (await desk.ask("GET", "/pay_unknown/receipt")).status == 404


async def test_names_of_strangers_are_text():
    told_ = page.Summary(
        NASTY, Decimal(1), NASTY, "pay_1", 1_800_000_000, live=False, path="/pay_1/receipt"
    )
    details = page.Details([("payer", NASTY), ("paid", (Decimal(1), NASTY))], NASTY)
    for answer in (page.whole(told_, details, "ar"), page.short(told_, NASTY, "en")):
        shown = answer.body.decode()
        assert "<script" not in shown
        assert "<img" not in shown


async def test_the_keys_are_public_and_tell_no_secret(desk):
    answer = await desk.ask("GET", JWKS, {"Origin": "https://shop.example"})
    headers = headers_of(answer)
    assert headers["content-type"] == "application/jwk-set+json"
    assert headers["cache-control"] == f"public, max-age={keys.KEPT_S}"
    assert headers["access-control-allow-origin"] == "*"
    (key,) = json.loads(answer.text)["keys"]
    assert key.keys() == {"kty", "crv", "x", "kid", "use", "alg"}
    assert (await desk.ask("HEAD", JWKS)).status == 200


async def test_who_asks_too_often_waits(limited):
    payment_id = (await limited.rest.create(ORDER))["paymentId"]
    paths = (f"/{payment_id}/receipt", f"/{payment_id}/receipt.jws", JWKS)
    for path in paths:
        await limited.ask("GET", path)
    for path in paths:
        assert (await limited.ask("GET", path)).status == 429
    limited.clock.advance(3600)
