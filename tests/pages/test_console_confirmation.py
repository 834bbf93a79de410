"""Actions that cannot be undone: one request asks, and only its confirmed repetition acts."""

from __future__ import annotations

import re

import pytest
import pytest_asyncio
from florin_server.web.console import routes

from tests.support.console import ConsoleUser
from tests.support.service_harness import ORDER, open_service

pytestmark = pytest.mark.asyncio(loop_scope="module")
_DECLINED = "Nothing has changed"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("console")
    async with open_service(home, console=True, metrics_port=0) as desk:
        yield desk


async def create_paid(desk, tenant) -> tuple[str, str]:
    """Return the page of a paid payment, and its id."""
    created = await desk.rest.call("POST", "/v1/payments", tenant.headers, ORDER)
    payment_id = created["paymentId"]
    path = f"/v1/sandbox/payments/{payment_id}/simulate"
    await desk.rest.call("POST", path, tenant.headers, {"outcome": "succeeded"})
    return f"/console/merchants/{tenant.merchant.id}/payments/{payment_id}", payment_id


async def list_refunds(desk, tenant, payment_id: str) -> list[str]:
    detail = await desk.ask("GET", f"/v1/payments/{payment_id}", tenant.headers)
    return [refund["amount"]["value"] for refund in detail.body.get("refunds", [])]


async def list_destinations(desk, tenant) -> list[str]:
    path = f"/v1/merchants/{tenant.merchant.id}/settlements"
    result = await desk.ask("GET", path, tenant.headers)
    return [settlement["destination"] for settlement in result.body["crypto"]]


async def test_refund_shows_what_it_sends_and_then_sends_that(desk, person):
    tenant = await desk.tenant()
    await person.sign_in(tenant.secret)
    page, payment_id = await create_paid(desk, tenant)
    path = f"{page}/refund"
    prompt = await person.fill(page, path, amount="2.5", reason="one cup was cold")
    assert prompt.status == 200
    facts = dict(re.findall(r"<dt>([^<]+)</dt><dd><bdi>([^<]*)</bdi>", prompt.text))
    assert facts["You send"] == "2.500000\u00a0tUSD"
    assert facts["Value when paid"] == "2.50\u00a0USD"
    assert facts["To"] == "no one: this payment was simulated"
    assert facts["Reason"] == "one cup was cold"
    assert await list_refunds(desk, tenant, payment_id) == []
    form = person.list_hidden_fields(prompt, path)
    # an amount that was not shown is asked for again, not sent
    again = await person.send(path, {**form, "amount": "9"})
    assert "You send</dt><dd><bdi>9.000000" in again.text
    assert "changed since you were asked" in again.text
    assert await list_refunds(desk, tenant, payment_id) == []
    first, second = await person.send(path, form), await person.send(path, form)
    assert first.location == second.location == page
    assert await list_refunds(desk, tenant, payment_id) == ["2500000"]


async def test_destination_changes_only_after_the_merchant_is_typed(desk, person):
    tenant = await desk.tenant()
    await person.sign_in(tenant.secret)
    page = f"/console/merchants/{tenant.merchant.id}"
    asset = next(iter(desk.service.app.list_assets(live=False)))
    account = f"{asset.partition('/')[0]}:0x{'ab' * 20}"
    before = await list_destinations(desk, tenant)
    path = f"{page}/destinations"
    prompt = await person.fill(page, path, asset=asset, destination=account)
    assert account in prompt.text
    assert tenant.merchant.name in prompt.text
    for name in ("", "someone else"):
        declined = await person.confirm(path, prompt, typed_name=name)
        assert (declined.status, _DECLINED in declined.text) == (200, True)
    assert await list_destinations(desk, tenant) == before
    assert (await person.confirm(path, prompt)).location == page
    (added,) = set(await list_destinations(desk, tenant)) - set(before)
    assert added.lower() == account
    change = re.search(rf'action="({re.escape(path)}/[^"]+/change)"', (await person.get(page)).text)
    other = f"{asset.partition('/')[0]}:0x{'cd' * 20}"
    prompt = await person.fill(page, change[1], destination=other)
    assert added in prompt.text
    assert added in await list_destinations(desk, tenant)
    assert (await person.confirm(change[1], prompt)).location == page
    assert other in [text.lower() for text in await list_destinations(desk, tenant)]
    removal = change[1].replace("/change", "/remove")
    prompt = await person.fill(page, removal)
    assert len(await list_destinations(desk, tenant)) == len(before) + 1
    assert (await person.confirm(removal, prompt)).location == page
    assert await list_destinations(desk, tenant) == before


async def test_one_request_neither_pauses_nor_rotates_nor_deletes_an_endpoint(desk, person):
    tenant = await desk.tenant()
    await person.sign_in(tenant.secret)
    body = {"url": "https://shop.example/in"}
    created = await desk.rest.call("POST", "/v1/webhook-endpoints", tenant.headers, body)
    page = f"/console/webhooks/{created['endpoint']['id']}"
    before = (await desk.ask("GET", "/v1/webhook-endpoints", tenant.headers)).body
    for action, values in (
        ("pause", {"paused": "1"}),
        ("rotate", {"overlap": "none"}),
        ("remove", {}),
    ):
        prompt = await person.fill(page, f"{page}/{action}", **values)
        assert (prompt.status, "https://shop.example/in" in prompt.text) == (200, True)
        assert (await desk.ask("GET", "/v1/webhook-endpoints", tenant.headers)).body == before
    # the code of one action does not confirm another
    form = person.list_hidden_fields(prompt, f"{page}/remove")
    await person.send(f"{page}/rotate", {**form, "overlap": "none"})
    await person.send(f"{page}/remove", {**form, "confirmed": "0" * 64})
    assert (await desk.ask("GET", "/v1/webhook-endpoints", tenant.headers)).body == before


async def test_a_confirmation_is_of_one_session(desk, person, bare):
    tenant = await desk.tenant()
    page, payment_id = await create_paid(desk, tenant)
    await person.sign_in(tenant.secret)
    other = ConsoleUser(bare, person.base)
    await other.sign_in(tenant.secret)
    prompt = await other.fill(page, f"{page}/refund", amount="1")
    code = other.list_hidden_fields(prompt, f"{page}/refund")["confirmed"]
    own = await person.fill(page, f"{page}/refund", amount="1", confirmed=code)
    assert "changed since you were asked" in own.text
    assert await list_refunds(desk, tenant, payment_id) == []


async def test_one_request_of_the_operator_stops_nothing(desk, operator, person):
    tenant = await desk.tenant()
    await operator.sign_in(desk.service.secrets.operator_token)
    await person.sign_in(tenant.secret)
    accounts = "/console/accounts"
    for action, values in (
        ("partners/status", {"partner": tenant.partner.id, "status": "suspended"}),
        ("keys/revoke", {"key": tenant.key_id}),
    ):
        path = f"{accounts}/{action}"
        prompt = await operator.fill(accounts, path, **values)
        assert (prompt.status, 'name="confirmed"' in prompt.text) == (200, True)
        assert (await person.get("/console")).status == 200
    assert tenant.secret[-4:] in prompt.text
    pause = "/console/executors/pause"
    form = await operator.hidden("/console", pause)
    prompt = await operator.send(pause, form)
    assert form["executor"] in prompt.text
    assert await operator.hidden("/console", pause) is not None
    assert (await operator.confirm(pause, prompt)).page == "/console"
    await operator.send(
        "/console/executors/resume", await operator.hidden("/console", "/console/executors/resume")
    )


async def test_every_form_asks_or_is_listed_here():
    """A new form must ask before it acts, or be listed here with forms that can be undone."""
    notes = ("notes", "notes/delete", "notes/restore")
    merchant = {*routes.MERCHANT_WRITES, *routes.MERCHANT_WRITES_ONCE} - set(
        routes.MERCHANT_CONFIRMS
    )
    assert {path.removeprefix("/console/") for path in merchant} == {
        "payments/new",
        "merchants/{merchant_id}/branding",
        "merchants/{merchant_id}/branding/preview",
        "webhooks",
        "merchants/{merchant_id}/payments/{payment_id}/simulate",
        *(f"merchants/{{merchant_id}}/payments/{{payment_id}}/{form}" for form in notes),
        "webhooks/{endpoint_id}/replay",
        "webhooks/{endpoint_id}/replay-since",
    }
    operator = set(routes.OPERATOR_WRITES) - set(routes.OPERATOR_CONFIRMS)
    assert {path.removeprefix("/console/") for path in operator} == {
        "executors/resume",
        *(f"payments/{{payment_id}}/{form}" for form in notes),
        "quarantine/retry",
        "accounts/partners",
        "accounts/keys",
    }
