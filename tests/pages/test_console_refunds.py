"""Refunds of a payment in the console: their sum, and each refund."""

from __future__ import annotations

import csv
import re

import pytest
import pytest_asyncio

from tests.support.service_harness import ORDER, open_service

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("console"), console=True) as desk:
        yield desk


async def test_a_list_has_the_sum_of_refunds_and_each(desk, person):
    tenant = await desk.tenant()
    created = await desk.rest.call("POST", "/v1/payments", tenant.headers, ORDER)
    payment_id = created["paymentId"]
    path = f"/v1/sandbox/payments/{payment_id}/simulate"
    await desk.rest.call("POST", path, tenant.headers, {"outcome": "succeeded"})
    for value in ("300", "125"):
        amount = {"unit": "iso4217/USD", "value": value}
        body = {"paymentId": payment_id, "amount": amount}
        assert (await desk.ask("POST", "/v1/refunds", tenant.headers, body)).status == 200
    await person.sign_in(tenant.secret)
    cells = (await person.get("/console/payments")).text.partition("<tbody>")[2]
    assert re.findall(r"([\d.]+)\u00a0tUSD</bdi> refunded", cells) == ["4.250000"]
    assert '<span class="word">Partly refunded</span>' in cells
    (row,) = csv.DictReader((await person.get("/console/payments/export")).text.splitlines())
    assert (row["refund_status"], row["refund_amount"]) == ("succeeded", "4.250000")
    assert [item.split()[1:] for item in row["refunds"].split("; ")] == [
        ["succeeded", "3.000000"],
        ["succeeded", "1.250000"],
    ]
    # the page of the payment has each, and offers the remaining amount
    page = (await person.get(f"/console/merchants/{tenant.merchant.id}/payments/{payment_id}")).text
    assert page.count("Refund requested") == 2
    refunds = page.partition('<h2 id="refunds">')[2].partition("</section>")[0]
    assert re.findall(r"([\d.]+)\u00a0tUSD", refunds) == ["3.000000", "1.250000"]
    assert "Refund up to <bdi>8.25" in page


async def test_more_than_the_rest_is_refused_before_the_question(desk, person):
    tenant = await desk.tenant()
    created = await desk.rest.call("POST", "/v1/payments", tenant.headers, ORDER)
    path = f"/v1/sandbox/payments/{created['paymentId']}/simulate"
    await desk.rest.call("POST", path, tenant.headers, {"outcome": "succeeded"})
    await person.sign_in(tenant.secret)
    page = f"/console/merchants/{tenant.merchant.id}/payments/{created['paymentId']}"
    refused = await person.fill(page, f"{page}/refund", amount="12.500001")
    assert refused.status == 400
    assert re.search("At most .*12.50.*tUSD.* can be refunded", refused.text)
    assert 'name="confirmed"' not in refused.text
    question = await person.fill(page, f"{page}/refund", amount="12.5")
    assert 'name="confirmed"' in question.text
