"""Endpoints in the consoles: create, pause, replay; other partners cannot reach them."""

from __future__ import annotations

import re

import pytest
import pytest_asyncio
from standardwebhooks import Webhook

from tests.support.console import HOSTILE, ConsoleUser
from tests.support.http_stub import make_stub_response, serve_stub
from tests.support.service_harness import ORDER, open_service
from tests.support.until import wait_until

pytestmark = pytest.mark.asyncio(loop_scope="module")
PATH = "/console/webhooks"
_SECRET = re.compile(r"whsec_[\w+/=]+")
_ID = re.compile(r"whe_\w+")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("console")
    webhooks = {"networks": ["127.0.0.0/8"], "timeout_s": 1}
    async with open_service(home, console=True, metrics_port=0, webhooks=webhooks) as desk:
        yield desk


async def create_endpoint(person, url, **values):
    """Create an endpoint by its form; return its page and its secret."""
    page = await person.fill(PATH, PATH, url=url, **values)
    assert page.status == 200, page.text
    return f"{PATH}/{_ID.findall(page.text)[0]}", _SECRET.findall(page.text)[0]


async def paid(desk, tenant) -> str:
    created = await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    return created.body["paymentId"]


async def test_an_endpoint_from_its_creation_to_its_end(desk, person):
    tenant = await desk.tenant()
    await person.sign_in(tenant.secret)
    async with serve_stub(make_stub_response(500, HOSTILE.encode())) as server:
        url = f"http://127.0.0.1:{server.port}/in"
        values = {"merchant": tenant.merchant.id, "description": HOSTILE}
        page, secret = await create_endpoint(person, url, **values, event=["payment.created"])
        payment_id = await paid(desk, tenant)
        await wait_until(lambda: server.requests)

        async def tried():
            text = (await person.get(page)).text
            return text if payment_id[4:14] in text else None

        text = await wait_until(tried)
        place = f"/console/merchants/{tenant.merchant.id}/payments/{payment_id}"
        deliveries = (await person.get(place)).text.partition('<h2 id="deliveries">')[2]
        assert "payment.created" in deliveries.partition("</section>")[0]
        assert '<span class="q">500</span>' in deliveries.partition("</section>")[0]
        # its answer is shown as text, and so is its owner's description
        assert "500" in text
        assert "&lt;/script&gt;&lt;script&gt;alert(1)" in text
        assert "<script>alert" not in text
        assert "49" not in text.partition("{{")[2][:5]
        # the secret was shown once
        assert secret not in text + (await person.get(PATH)).text
        assert (await person.act(page, f"{page}/pause", paused="1")).page == page
        assert "you paused it" in (await person.get(page)).text
        server.handler = make_stub_response(204)
        server.requests.clear()
        form = await person.hidden(page, f"{page}/pause")
        assert form["paused"] == "0"
        await person.send(f"{page}/pause", form)
        await wait_until(lambda: server.requests)
        assert Webhook(secret).verify(server.requests[0].body, dict(server.requests[0].headers))
        result = await person.act(page, f"{page}/rotate", overlap="none")
        other = _SECRET.findall(result.text)[0]
        assert other != secret
        server.requests.clear()
        assert (await person.fill(page, f"{page}/replay", payment=payment_id)).location == page
        await wait_until(lambda: server.requests)
        assert Webhook(other).verify(server.requests[0].body, dict(server.requests[0].headers))
        server.requests.clear()
        result = await person.fill(page, f"{page}/replay-since", since="2020-01-01T00:00")
        assert (
            "Payments whose events are replayed: <bdi>1</bdi>. No payments are left." in result.text
        )
        await wait_until(lambda: server.requests)
    assert (await person.act(page, f"{page}/remove")).location == PATH
    assert "No endpoints." in (await person.get(PATH)).text
    assert (await person.get(page)).status == 404


async def test_repeated_rotate_form_creates_a_single_secret(desk, person):
    tenant = await desk.tenant()
    await person.sign_in(tenant.secret)
    page, _ = await create_endpoint(person, "https://shop.example/in")
    prompt = await person.fill(page, f"{page}/rotate", overlap="day")
    form = person.list_hidden_fields(prompt, f"{page}/rotate")
    first = await person.send(f"{page}/rotate", form)
    again = await person.send(f"{page}/rotate", form)
    assert (first.status, again.status) == (200, 409)
    assert _SECRET.findall(again.text) == []


async def test_form_error_is_shown_beside_the_entered_values(desk, person):
    tenant = await desk.tenant()
    await person.sign_in(tenant.secret)
    result = await person.fill(PATH, PATH, url="ftp://a.example/", description="kept")
    assert result.status == 400
    assert "must be an absolute https URL" in result.text
    assert 'value="kept"' in result.text
    page, _ = await create_endpoint(person, "https://shop.example/in")
    result = await person.fill(PATH, PATH, url="https://shop.example/in")
    assert (result.status, page.rpartition("/")[2] in result.text) == (409, True)
    for wrong in ({"since": "soon"}, {"since": ""}, {"since": "2020-01-01", "event": "payment.x"}):
        assert (await person.fill(page, f"{page}/replay-since", **wrong)).status == 400
    assert (await person.fill(page, f"{page}/rotate", overlap="7")).status == 400


async def test_foreign_endpoint_is_neither_visible_nor_changeable(desk, person, bare):
    owner, stranger = await desk.tenant(), await desk.tenant()
    owned = ConsoleUser(bare, desk.rest.base)
    await owned.sign_in(owner.secret)
    await person.sign_in(stranger.secret)
    page, _ = await create_endpoint(owned, "https://owner.example/in")
    own, _ = await create_endpoint(person, "https://stranger.example/in")
    assert "owner.example" not in (await person.get(PATH)).text
    filtered = await person.get(f"{PATH}?merchant={owner.merchant.id}")
    assert "owner.example" not in filtered.text
    assert (await person.get(page)).status == 404
    values = {"paused": "1", "overlap": "none", "payment": "pay_1", "since": "2020-01-01"}
    for action in ("pause", "rotate", "remove", "replay", "replay-since"):
        form = {**await person.hidden(own, f"{own}/{action}"), **values}
        result = await person.send(f"{page}/{action}", form)
        assert result.status == 404, action
    result = await person.fill(PATH, PATH, url="https://a.example/", merchant=owner.merchant.id)
    assert result.status == 404
    assert '<span class="word">Active</span>' in (await owned.get(page)).text


async def test_a_key_that_only_reads_makes_none(desk, person):
    tenant = await desk.tenant()
    _, secret = await desk.key(tenant.partner.id, scopes=("read",))
    await person.sign_in(secret)
    result = await person.fill(PATH, PATH, url="https://a.example/")
    assert (result.status, "your sign-in does not allow this" in result.text) == (403, True)


async def test_the_operator_sees_those_that_are_paused_and_resumes_them(desk, operator, person):
    tenant = await desk.tenant()
    await person.sign_in(tenant.secret)
    page, _ = await create_endpoint(person, "https://shop.example/in")
    await operator.sign_in(desk.service.secrets.operator_token)
    item = page.rpartition("/")[2]
    assert item in (await operator.get(PATH)).text
    assert item not in (await operator.get(f"{PATH}?paused=1")).text
    assert (await operator.act(PATH, f"{page}/pause")).page == PATH
    paused = await operator.get(f"{PATH}?paused=1")
    assert item in paused.text
    form = await operator.hidden(f"{PATH}?paused=1", f"{page}/pause")
    assert form["paused"] == "0"
    await operator.send(f"{page}/pause", form)
    assert item not in (await operator.get(f"{PATH}?paused=1")).text
    assert "No delivery was attempted yet" in (await operator.get(page)).text
