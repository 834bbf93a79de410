"""Hosts of sessions, tickets, and actions that require a recent sign-in."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import pytest
import pytest_asyncio
from florin_server.web.console import routes
from florin_server.web.console.session import FRESH_S, TICKET_S
from yarl import URL

from tests.support.console import ENTRY, ConsoleUser
from tests.support.service_harness import open_service

pytestmark = [pytest.mark.asyncio(loop_scope="module")]
OTHER = f"{'0' * 32}.{ENTRY}"
NAME = re.compile(rf"[0-9a-f]{{32}}\.{re.escape(ENTRY)}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("console")
    async with open_service(home, console=True, metrics_port=0, pay_url="") as desk:
        yield desk


def host(person: ConsoleUser, name: str) -> dict[str, str]:
    return {"Host": f"{name}:{URL(person.base).port}"}


async def test_each_session_has_a_host_of_its_own_that_its_cookie_is_for(desk, person, bare):
    tenant = await desk.tenant()
    other = ConsoleUser(bare, person.base)
    for item in (person, other):
        await item.sign_in(tenant.secret)
        assert NAME.fullmatch(item.host)
        assert "Domain" not in item.cookies_received[-1]
    assert person.host != other.host
    at = {"own": person.host, "other": other.host, "entry": ENTRY, "near": "127.0.0.1"}
    result = {
        name: (await person.ask("GET", "/console", host(person, host_name))).status
        for name, host_name in at.items()
    }
    assert result == {"own": 200, "other": 303, "entry": 303, "near": 303}
    form = await person.hidden("/console", "/console/logout")
    for name in (other.host, ENTRY, "127.0.0.1", "localhost"):
        headers = {**host(person, name), "Sec-Fetch-Site": "same-origin"}
        assert (await person.send("/console/logout", form, headers)).status == 421, name
    assert (await person.get("/console")).status == 200


async def test_console_at_any_other_host_redirects_to_sign_in_or_is_refused(desk, bare):
    stranger = ConsoleUser(bare, desk.rest.base)
    port = URL(desk.rest.base).port
    for name in ("127.0.0.1", "localhost", "[::1]", OTHER):
        response = await stranger.ask("GET", "/console/payments?q=1", host(stranger, name))
        back = urlencode({"back": "/console/payments?q=1"})
        assert response.url == f"http://{ENTRY}:{port}/console/login?{back}", name
        signing = {**host(stranger, name), "Sec-Fetch-Site": "same-origin"}
        sent = await stranger.send("/console/login", {"secret": "x"}, signing)
        assert sent.status == 421, name
    for name in (ENTRY, "127.0.0.1"):
        signing = {**host(stranger, name), "Sec-Fetch-Site": "same-origin"}
        assert (await stranger.send("/console/logout", {}, signing)).status == 421, name
    # plain HTTP over a network is refused, and no address of another host is made from a name
    for name in ("shop.example", "192.0.2.7", f"x.{ENTRY}", f"{OTHER}.", f"{ENTRY}.example"):
        assert (await stranger.ask("GET", "/console", host(stranger, name))).status == 421, name


async def test_a_ticket_is_good_once(desk, person, bare):
    tenant = await desk.tenant()
    led = await person.submit_sign_in(tenant.secret)
    assert person.cookies_received == []
    assert (await person.follow(led)).location == "/console"
    thief = ConsoleUser(bare, person.base)
    again = await thief.follow(led)
    assert (again.location, thief.cookies_received) == ("/console/login?back=%2Fconsole", [])


@pytest.mark.parametrize(("age_s", "cookie_count"), [(TICKET_S - 1, 1), (TICKET_S, 0), (-1, 0)])
async def test_a_ticket_is_good_for_a_minute(desk, person, age_s, cookie_count):
    tenant = await desk.tenant()
    led = await person.submit_sign_in(tenant.secret)
    desk.clock.advance(age_s)
    await person.follow(led)
    assert len(person.cookies_received) == cookie_count


async def test_a_ticket_is_for_its_host_and_is_no_cookie(desk, person, operator):
    tenant = await desk.tenant()
    led = await person.submit_sign_in(tenant.secret)
    for name in (OTHER, ENTRY, "127.0.0.1"):
        assert "/console/login" in (await person.ask("GET", led.location, host(person, name))).url
    name = URL(led.url).host
    for site in ("cross-site", "none"):
        headers = {**host(person, name), "Sec-Fetch-Site": site}
        assert "/console/login" in (await person.ask("GET", led.location, headers)).url
    # the other console's, and changed ones
    assert "/console/login" in (await operator.ask("GET", led.location, host(operator, name))).url
    ticket = URL(led.url).query["ticket"]
    stolen = {**host(person, name), "Cookie": f"florin_console={ticket}"}
    assert (await person.ask("GET", "/console", stolen)).status == 303
    assert person.cookies_received == operator.cookies_received == []
    assert (await person.follow(led)).location == "/console"


async def test_behind_tls_a_session_is_of_the_public_host(tmp_path, bare):
    base = "https://pay.example"
    async with open_service(tmp_path, console=True, pay_url=base) as desk:
        tenant = await desk.tenant()
        at = {"Host": "pay.example", "Sec-Fetch-Site": "same-origin"}
        person = ConsoleUser(bare, desk.rest.base)
        signed = await person.send("/console/login", {"secret": tenant.secret}, at)
        assert signed.url == "/console"
        assert person.cookies_received[-1].startswith("__Host-florin_console=")
        assert person.cookies_received[-1].endswith(
            "Path=/; Max-Age=28800; HttpOnly; SameSite=Strict; Secure"
        )
        assert (await person.ask("GET", "/console", at)).status == 200
        plain = {**host(person, OTHER), "Cookie": person.cookie.removeprefix("__Host-")}
        assert (await person.ask("GET", "/console", plain)).status == 303


FRESH = {"merchant": routes.MERCHANT_FRESH_PATHS, "operator": routes.OPERATOR_FRESH_PATHS}
GUARDED = [(console, path) for console, paths in FRESH.items() for path in sorted(paths)]


@pytest.mark.parametrize(("console", "path"), GUARDED)
async def test_sensitive_action_requires_a_recent_sign_in(desk, person, operator, console, path):
    tenant = await desk.tenant()
    token = desk.service.secrets.operator_token
    who, secret = {"merchant": (person, tenant.secret), "operator": (operator, token)}[console]
    await who.sign_in(secret)
    place = re.sub(r"\{\w+\}", "none", path)
    form = {**await who.hidden("/console", "/console/logout"), "kept": "<b>&\"'"}
    desk.clock.advance(FRESH_S - 1)
    assert "sign-in from the last 10 minutes" not in (await who.send(place, form)).text
    form = {**await who.hidden("/console", "/console/logout"), "kept": "<b>&\"'"}
    desk.clock.advance(1)
    result = await who.send(place, form)
    assert (result.status, "sign-in from the last 10 minutes" in result.text) == (403, True)
    assert who.list_hidden_fields(result, place) == form
    wrong = await who.send(place, {**form, "secret_again": "wrong"})
    assert (wrong.status, who.list_hidden_fields(wrong, place)) == (401, form)
    done = await who.send(place, {**form, "secret_again": secret})
    # it came to its page, which refuses what is entered here
    assert "sign-in from the last 10 minutes" not in done.text
    assert (await who.get("/console")).status == 200


async def test_every_form_that_must_be_guarded_is():
    """A new form must require a recent sign-in, or be listed here."""
    free = {*routes.MERCHANT_WRITES, *routes.MERCHANT_WRITES_ONCE} - routes.MERCHANT_FRESH_PATHS
    assert {text.rpartition("/")[2] for text in free} == {
        *("new", "cancel", "simulate"),
        *("pause", "replay", "replay-since"),
        *("notes", "delete", "restore"),
        *("branding", "preview"),
    }
    assert set(routes.OPERATOR_WRITES) - routes.OPERATOR_FRESH_PATHS == {
        "/console/webhooks/{endpoint_id}/pause",
        *(f"/console/payments/{{payment_id}}/notes{form}" for form in ("", "/delete", "/restore")),
    }


async def test_endpoint_is_created_only_after_the_same_key_is_entered_again(desk, person):
    tenant = await desk.tenant()
    _, other = await desk.key(tenant.partner.id)
    await person.sign_in(tenant.secret)
    page = f"/console/merchants/{tenant.merchant.id}"
    form = await person.hidden(page, "/console/logout")
    path = "/console/webhooks"
    form = {**form, "url": "https://shop.example/kept", "event": ["payment.settled"]}
    desk.clock.advance(FRESH_S)
    for secret, status in (("", 403), (other, 403), ("x" * 600, 400)):
        result = await person.send(path, {**form, "secret_again": secret})
        assert result.status == status
        assert "x" * 600 not in result.text
        assert "https://shop.example/kept" in result.text
    listed = await desk.ask("GET", "/v1/webhook-endpoints", tenant.headers)
    assert listed.body["endpoints"] == []
    done = await person.send(path, {**form, "secret_again": tenant.secret})
    assert (done.status, "https://shop.example/kept" in done.text) == (200, True)
    # the session is fresh from there on
    form = await person.hidden(path, "/console/logout")
    done = await person.send(path, {**form, "url": "https://shop.example/two", "event": ["*"]})
    assert "sign-in from the last 10 minutes" not in done.text
    # a form of another site is not even asked
    desk.clock.advance(FRESH_S)
    foreign = await person.send(path, form, {"Sec-Fetch-Site": "cross-site"})
    assert "last 10 minutes" not in foreign.text
