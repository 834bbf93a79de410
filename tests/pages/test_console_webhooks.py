"""Endpoints in the consoles: made, paused, replayed, and what strangers can not do to them."""

from __future__ import annotations

import re

import pytest
import pytest_asyncio
from standardwebhooks import Webhook

from tests.support.answering import answering, answers
from tests.support.console import HOSTILE, Person
from tests.support.desk import ORDER, opened
from tests.support.until import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
PATH = "/console/webhooks"
_SECRET = re.compile(r"whsec_[\w+/=]+")
_ID = re.compile(r"whe_\w+")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("console")
    webhooks = {"networks": ["127.0.0.0/8"], "timeout_s": 1}
    async with opened(home, console=True, metrics_port=0, webhooks=webhooks) as desk:
        yield desk


async def made(person, url, **values):
    """An endpoint by its form: its page, and its secret."""
    page = await person.fill(PATH, PATH, url=url, **values)
    assert page.status == 200, page.text
    return f"{PATH}/{_ID.findall(page.text)[0]}", _SECRET.findall(page.text)[0]


async def paid(desk, tenant) -> str:
    created = await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    return created.body["paymentId"]


async def test_an_endpoint_from_its_creation_to_its_end(desk, person):
    tenant = await desk.tenant()
    await person.sign_in(tenant.secret)
    async with answering(answers(500, HOSTILE.encode())) as server:
        url = f"http://127.0.0.1:{server.port}/in"
        given = {"merchant": tenant.merchant.id, "description": HOSTILE}
        page, secret = await made(person, url, **given, event=["payment.created"])
        payment_id = await paid(desk, tenant)
        await until(lambda: server.came)

        async def tried():
            text = (await person.get(page)).text
            return text if payment_id[4:14] in text else None

        text = await until(tried)
        # what it answered is a text, and so is what its owner wrote
        assert "500" in text
        assert "&lt;/script&gt;&lt;script&gt;alert(1)" in text
        assert "<script>alert" not in text
        assert "49" not in text.partition("{{")[2][:5]
        # the secret was told once
        assert secret not in text + (await person.get(PATH)).text
        assert (await person.fill(page, f"{page}/pause", paused="1")).place == page
        assert "you paused it" in (await person.get(page)).text
        server.say = answers(204)
        server.came.clear()
        form = await person.hidden(page, f"{page}/pause")
        assert form["paused"] == "0"
        await person.send(f"{page}/pause", form)
        await until(lambda: server.came)
        assert Webhook(secret).verify(server.came[0].body, dict(server.came[0].headers))
        told = await person.fill(page, f"{page}/rotate", overlap="none")
        other = _SECRET.findall(told.text)[0]
        assert other != secret
        server.came.clear()
        assert (await person.fill(page, f"{page}/replay", payment=payment_id)).place == page
        await until(lambda: server.came)
        assert Webhook(other).verify(server.came[0].body, dict(server.came[0].headers))
        server.came.clear()
        told = await person.fill(page, f"{page}/replay-since", since="2020-01-01T00:00")
        assert "Payments whose events are told again: 1. That is all." in told.text
        await until(lambda: server.came)
    assert (await person.fill(page, f"{page}/remove")).place == PATH
    assert "There are no endpoints" in (await person.get(PATH)).text
    assert (await person.get(page)).status == 404


async def test_a_form_that_comes_twice_makes_one_secret(desk, person):
    tenant = await desk.tenant()
    await person.sign_in(tenant.secret)
    page, _ = await made(person, "https://shop.example/in")
    form = {**await person.hidden(page, f"{page}/rotate"), "overlap": "day"}
    first = await person.send(f"{page}/rotate", form)
    again = await person.send(f"{page}/rotate", form)
    assert (first.status, again.status) == (200, 409)
    assert _SECRET.findall(again.text) == []


async def test_what_is_wrong_is_told_beside_what_was_entered(desk, person):
    tenant = await desk.tenant()
    await person.sign_in(tenant.secret)
    told = await person.fill(PATH, PATH, url="ftp://a.example/", description="kept")
    assert told.status == 400
    assert "must be an absolute https URL" in told.text
    assert 'value="kept"' in told.text
    page, _ = await made(person, "https://shop.example/in")
    told = await person.fill(PATH, PATH, url="https://shop.example/in")
    assert (told.status, page.rpartition("/")[2] in told.text) == (409, True)
    for wrong in ({"since": "soon"}, {"since": ""}, {"since": "2020-01-01", "event": "payment.x"}):
        assert (await person.fill(page, f"{page}/replay-since", **wrong)).status == 400
    assert (await person.fill(page, f"{page}/rotate", overlap="7")).status == 400


async def test_nobody_sees_or_does_anything_about_another_ones(desk, person, bare):
    owner, stranger = await desk.tenant(), await desk.tenant()
    owned = Person(bare, desk.rest.base)
    await owned.sign_in(owner.secret)
    await person.sign_in(stranger.secret)
    page, _ = await made(owned, "https://owner.example/in")
    own, _ = await made(person, "https://stranger.example/in")
    assert "owner.example" not in (await person.get(PATH)).text
    filtered = await person.get(f"{PATH}?merchant={owner.merchant.id}")
    assert "owner.example" not in filtered.text
    assert (await person.get(page)).status == 404
    given = {"paused": "1", "overlap": "none", "payment": "pay_1", "since": "2020-01-01"}
    for deed in ("pause", "rotate", "remove", "replay", "replay-since"):
        form = {**await person.hidden(own, f"{own}/{deed}"), **given}
        told = await person.send(f"{page}/{deed}", form)
        assert told.status == 404, deed
    told = await person.fill(PATH, PATH, url="https://a.example/", merchant=owner.merchant.id)
    assert told.status == 404
    assert "active" in (await owned.get(page)).text


async def test_a_key_that_only_reads_makes_none(desk, person):
    tenant = await desk.tenant()
    _, secret = await desk.key(tenant.partner.id, scopes=("read",))
    await person.sign_in(secret)
    told = await person.fill(PATH, PATH, url="https://a.example/")
    assert (told.status, "may not do this" in told.text) == (403, True)


async def test_the_operator_sees_those_that_are_paused_and_resumes_them(desk, operator, person):
    tenant = await desk.tenant()
    await person.sign_in(tenant.secret)
    page, _ = await made(person, "https://shop.example/in")
    await operator.sign_in(desk.service.secrets.operator_token)
    one = page.rpartition("/")[2]
    assert one in (await operator.get(PATH)).text
    assert one not in (await operator.get(f"{PATH}?paused=1")).text
    form = await operator.hidden(PATH, f"{page}/pause")
    assert (await operator.send(f"{page}/pause", form)).place == PATH
    paused = await operator.get(f"{PATH}?paused=1")
    assert one in paused.text
    form = await operator.hidden(f"{PATH}?paused=1", f"{page}/pause")
    assert form["paused"] == "0"
    await operator.send(f"{page}/pause", form)
    assert one not in (await operator.get(f"{PATH}?paused=1")).text
    assert "It was told nothing yet" in (await operator.get(page)).text
