"""The operator's console: its listener, keys, books and executors."""

from __future__ import annotations

import re

import pytest
import pytest_asyncio
from florin_server.web.console.operator import books

from tests.support.console import OWN
from tests.support.service_harness import ORDER, open_service

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("console")
    async with open_service(home, console=True, metrics_port=0) as desk:
        yield desk


def token(desk) -> str:
    return desk.service.secrets.operator_token


async def paid(desk, tenant, **order) -> str:
    created = await desk.ask("POST", "/v1/payments", tenant.headers, {**ORDER, **order})
    payment_id = created.body["paymentId"]
    path = f"/v1/sandbox/payments/{payment_id}/simulate"
    await desk.ask("POST", path, tenant.headers, {"outcome": "succeeded"})
    return payment_id


async def test_the_books_show_the_balances_of_every_page(desk, operator, monkeypatch):
    await paid(desk, await desk.tenant())
    await operator.sign_in(token(desk))
    total = re.findall("<tr>.*", (await operator.get("/console/books")).text)
    monkeypatch.setattr(books, "PAGE", 1)
    assert re.findall("<tr>.*", (await operator.get("/console/books")).text) == total


async def test_the_operator_sees_everything_on_a_listener_of_its_own(desk, operator, person):
    tenant = await desk.tenant()
    payment_id = await paid(desk, tenant)
    assert (await operator.sign_in(tenant.secret)).status == 401
    assert (await operator.sign_in(token(desk))).location == "/console"
    for path in ("", "/payouts", "/payouts?all=1", "/held", "/books?check=1", "/accounts"):
        assert (await operator.get(f"/console{path}")).status == 200, path
    listed = await operator.get(f"/console/payments?partner={tenant.partner.id}")
    assert payment_id in listed.text
    chips = re.findall(r'<span class="chip on">(?:<bdi>)?([^<]+)', listed.text)
    assert chips == [tenant.partner.name, "Test"]
    rows = re.search(r'data-rows="([^"]+)"', listed.text)
    assert rows is not None
    # of some partner, where none is selected
    assert (await operator.get("/console/payments")).status == 200
    assert (await operator.get("/console/books?kind=merchant&account=mer")).status == 200
    assert (await operator.get("/console/books?kind=no")).status == 400
    assert (await operator.get(rows[1].replace("&amp;", "&"))).status == 200
    page = (await operator.get(f"/console/payments/{payment_id}")).text
    assert "A test payment was set to succeed" in page
    assert (await operator.get("/console/payments/pay_none")).status == 404
    result = await operator.get(f"/console/search?q={payment_id}")
    assert result.location == f"/console/payments/{payment_id}"
    # its cookie opens nothing elsewhere, and its pages are not there
    person.cookie = operator.cookie.replace("florin_operator", "florin_console")
    person.host = operator.host
    assert (await person.get("/console")).status == 303
    person.cookie = ""
    await person.sign_in(tenant.secret)
    for path in ("/payouts", "/books", "/accounts", "/held"):
        assert (await person.get(f"/console{path}")).status == 404, path
    files = re.search(r'href="(/assets/[^"]+console.css)"', page)
    assert files is not None
    assert (await operator.get(files[1])).status == 200


async def test_the_operator_makes_a_key_and_revokes_it(desk, operator, person):
    tenant = await desk.tenant()
    await operator.sign_in(token(desk))
    path = "/console/accounts"
    form = {**await operator.hidden(path, f"{path}/keys"), "partner": tenant.partner.id}
    created = await operator.send(f"{path}/keys", {**form, "scope": ["read", "create"]})
    secret = re.search(r"fl_test_pk_\w+", created.text)
    assert secret is not None
    assert (await operator.send(f"{path}/keys", form)).status == 409
    assert (await person.sign_in(secret[0])).status == 303
    key_id = secret[0].split("_")[3]
    hidden = await operator.hidden(path, f"{path}/keys/revoke")
    prompt = await operator.send(f"{path}/keys/revoke", {**hidden, "key": key_id})
    assert (await person.get("/console")).status == 200
    await operator.confirm(f"{path}/keys/revoke", prompt)
    assert (await person.get("/console")).status == 303
    # a fault can be corrected in the same form
    form = await operator.hidden(path, f"{path}/keys")
    assert (await operator.send(f"{path}/keys", {**form, "partner": "none"})).status >= 400
    again = {**form, "partner": tenant.partner.id}
    assert (await operator.send(f"{path}/keys", again)).status == 200


async def test_operator_pauses_and_resumes_executors(desk, operator):
    await operator.sign_in(token(desk))
    for action, word in (("pause", "Paused"), ("resume", "Active")):
        path = f"/console/executors/{action}"
        hidden = await operator.hidden("/console", path)
        sent = await operator.send(path, hidden)
        assert (await operator.confirm(path, sent)).page == "/console"
        section = (await operator.get("/console")).text.partition(hidden["executor"])[2]
        assert f'<span class="word">{word}</span>' in section.partition("</tr>")[0]


async def test_the_operators_console_is_for_this_machine(operator):
    for host in ("evil.example", "evil.example:80"):
        for path in ("/console", "/console/login", "/console/payments/rows"):
            assert (await operator.ask("GET", path, {"Host": host})).status == 421
        result = await operator.ask("POST", "/console/login", {"Host": host, **OWN}, "secret=x")
        assert result.status == 421


async def test_paused_endpoints_are_counted_beside_their_page(desk, operator):
    tenant = await desk.tenant()
    await operator.sign_in(token(desk))
    pattern = r'Webhooks<small class="count"><span aria-hidden="true">(\d+)<'
    before = re.search(pattern, (await operator.get("/console")).text)
    created = await desk.ask(
        "POST", "/v1/webhook-endpoints", tenant.headers, {"url": "https://shop.example/hooks"}
    )
    path = f"/console/webhooks/{created.body['endpoint']['id']}"
    await operator.act("/console/webhooks", f"{path}/pause")
    after = re.search(pattern, (await operator.get("/console")).text)
    assert after is not None
    assert int(after[1]) == (int(before[1]) if before else 0) + 1
