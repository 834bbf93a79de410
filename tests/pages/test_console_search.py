"""The console's search: by each thing that a buyer or a merchant has at hand."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
import pytest_asyncio

from tests.support.books import SETTINGS
from tests.support.console import ConsoleUser
from tests.support.payout_merchant import USD, PayoutMerchant
from tests.support.service import NO_SOLANA
from tests.support.service_harness import ORDER, open_service
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")
WALLET = EvmTestWallet(key=b"\2" * 32)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("console")
    chosen = {**SETTINGS, "solana": NO_SOLANA, "console": True, "metrics_port": 0}
    async with open_service(home, **chosen) as desk:
        yield desk


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shop(desk):
    """Yield a merchant with one paid and refunded payment, and one that no one paid."""
    shop = PayoutMerchant(desk, await desk.tenant())
    shop.paid = await shop.create_paid_payment(WALLET, USD)
    await shop.refund(shop.paid)
    order = {**ORDER, "referenceId": "order-4711", "amount": {**USD, "value": "98765"}}
    created = await desk.rest.call("POST", "/v1/payments", shop.tenant.headers, order)
    shop.open = created["paymentId"]
    return shop


def get_page(shop, payment_id: str) -> str:
    return f"/console/merchants/{shop.tenant.merchant.id}/payments/{payment_id}"


async def test_every_thing_at_hand_finds_its_payment(desk, shop, person, operator):
    await person.sign_in(shop.tenant.secret)
    await operator.sign_in(desk.service.secrets.operator_token)
    path = f"/v1/payments/{shop.paid}"
    detail = (await desk.ask("GET", path, shop.tenant.headers)).body
    address = detail["buyer"]["accountCaip10"].rpartition(":")[2]
    texts = {
        "payment id": shop.paid,
        "link": f"{desk.service.app.links.base_url}/{shop.paid}",
        "transaction": detail["info"]["txId"],
        "transaction in capitals": "0x" + detail["info"]["txId"][2:].upper(),
        "transaction of the refund": detail["refunds"][0]["txId"],
        "account": detail["buyer"]["accountCaip10"],
        "address": address,
        "address in capitals": "0x" + address[2:].upper(),
    }
    for name, text in texts.items():
        query = text.replace(":", "%3A").replace("/", "%2F")
        result = await person.get(f"/console/search?q={query}")
        assert result.location == get_page(shop, shop.paid), name
        result = await operator.get(f"/console/search?q={query}")
        assert result.location == f"/console/payments/{shop.paid}", name
    for text in ("order-4711", "987.65", "987.65%20USD", "usd+987.65", "%20order-4711%20"):
        result = await person.get(f"/console/search?q={text}")
        assert result.location == get_page(shop, shop.open), text


@pytest.mark.parametrize(
    "text", ["", "order-471", "987.6", "987.65%20EUR", "0x" + "0" * 64, "0x" + "0" * 40, "%27%22"]
)
async def test_nothing_else_is_found(shop, person, text):
    await person.sign_in(shop.tenant.secret)
    result = await person.get(f"/console/search?q={text}")
    assert result.status == 200
    assert "<tr" not in result.text
    assert "No match" in result.text or not text


async def test_several_matches_are_listed_and_none_of_another_partner(desk, shop, person):
    other = await desk.tenant()
    orders = [
        (await desk.rest.call("POST", "/v1/payments", other.headers, ORDER))["paymentId"]
        for _ in range(2)
    ]
    await person.sign_in(other.secret)
    listed = (await person.get("/console/search?q=12.50")).text
    assert [payment_id for payment_id in (*orders, shop.paid) if f'"{payment_id}"' in listed] == [
        *orders
    ]
    for text in (shop.paid, shop.open, "order-4711", WALLET.address):
        result = await person.get(f"/console/search?q={text}")
        assert (result.status, "No match" in result.text) == (200, True), text


async def test_balances_are_of_own_merchants_and_end_with_the_refund(desk, shop, person, bare):
    """Without a destination the operator owes what was paid, less the fee and refunds."""
    owner = PayoutMerchant(desk, await desk.tenant())
    paid = await owner.create_paid_payment(EvmTestWallet(key=b"\3" * 32), USD)
    path = f"/v1/payments/{paid}"
    option = (await desk.ask("GET", path, owner.tenant.headers)).body["info"]["optionAmount"]
    await person.sign_in(owner.tenant.secret)
    page = (await person.get("/console/balances")).text
    (amount,) = re.findall(r"<bdi>([\d.]+)</bdi> <small><bdi>tUSD", page)
    assert 0 < Decimal(amount).scaleb(6) < int(option["value"])
    assert "Owed to the merchant" in page
    other = ConsoleUser(bare, person.base)
    await other.sign_in((await desk.tenant()).secret)
    assert "Nothing is owed." in (await other.get("/console/balances")).text
    # the refund returns the fee too, which the merchant then owes
    await owner.refund(paid)
    assert "Owed by the merchant" in (await person.get("/console/balances")).text


async def test_a_search_of_another_page_is_refused_without_a_session(person):
    result = await person.get("/console/search?q=order-1")
    assert result.location == "/console/login?back=%2Fconsole%2Fsearch%3Fq%3Dorder-1"
