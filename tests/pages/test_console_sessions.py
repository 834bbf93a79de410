"""Several keys in one browser: switching, forms of other sessions, and signing out."""

from __future__ import annotations

import re

import pytest
import pytest_asyncio
from florin_server.web.console.session import IDLE_S, SESSIONS_MAX

from tests.support.console import ConsoleUser
from tests.support.service_harness import ORDER, open_service

pytestmark = pytest.mark.asyncio(loop_scope="module")
SESSIONS = "/console/sessions"
ADD, SWITCH, END = f"{SESSIONS}/add", f"{SESSIONS}/switch", f"{SESSIONS}/end"
LOGIN = "/console/login"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    async with open_service(
        tmp_path_factory.mktemp("console"), console=True, metrics_port=0, pay_url=""
    ) as desk:
        yield desk


async def add_key(person: ConsoleUser, secret: str):
    return await person.fill(SESSIONS, ADD, secret=secret)


async def switch_to(person: ConsoleUser, key_id: str):
    form = await person.hidden(SESSIONS, ADD)
    return await person.send(SWITCH, {**form, "key": key_id})


def is_live(page) -> bool:
    return ": real money moves" in page.text and "mode: no real money moves" not in page.text


async def test_switch_keeps_both_keys_signed_in(desk, person):
    test = await desk.tenant()
    live = await desk.tenant(live=True)
    await person.sign_in(test.secret)
    first_cookie = person.cookie
    assert (await add_key(person, live.secret)).location == "/console"
    # no cookie of the session before is that of the new one
    assert person.cookie != first_cookie
    assert is_live(await person.get("/console"))
    assert (await switch_to(person, test.key_id)).location == "/console"
    assert not is_live(await person.get("/console"))
    assert (await switch_to(person, live.key_id)).location == "/console"
    assert is_live(await person.get("/console"))
    assert all("HttpOnly; SameSite=Strict" in cookie for cookie in person.cookies_received)
    assert not any(live.secret in cookie for cookie in person.cookies_received)


async def test_form_of_a_page_loaded_before_a_switch_is_refused(desk, person):
    """A tab with test payments must not act on live money, and the other way round."""
    test, live = await desk.tenant(), await desk.tenant(live=True)
    await person.sign_in(test.secret)
    path = "/console/payments/new"
    stale = await person.hidden(path, path)
    values = {"merchant": live.merchant.id, "amount": "1", "unit": "iso4217/USD"}
    await add_key(person, live.secret)
    result = await person.send(path, {**stale, **values})
    assert (result.status, "Nothing has changed" in result.text) == (409, True)
    assert "another tab has switched to a different key" in result.text
    payment_list = await desk.ask("GET", "/v1/merchants/payments", live.headers)
    assert payment_list.status == 200
    assert payment_list.body["data"] == []
    # the page of the refusal switches back
    form = person.list_hidden_fields(result, SWITCH)
    assert form["key"] == test.key_id
    assert (await person.send(SWITCH, form)).location == "/console"
    assert not is_live(await person.get("/console"))
    own = {**values, "merchant": test.merchant.id}
    assert "/payments/pay_" in (await person.send(path, {**stale, **own})).location


async def test_switch_needs_the_forms_own_token_and_a_key_that_is_signed_in(desk, person, bare):
    first, second = await desk.tenant(), await desk.tenant()
    await person.sign_in(first.secret)
    form = await person.hidden(SESSIONS, ADD)
    result = await person.send(SWITCH, {**form, "key": second.key_id})
    assert (result.status, "not signed in here" in result.text) == (409, True)
    other = ConsoleUser(bare, person.base)
    await other.sign_in(second.secret)
    for path in (ADD, SWITCH, END):
        foreign = await other.send(path, {**form, "key": second.key_id})
        assert (foreign.status, "another session" in foreign.text) == (403, True), path
        crossed = await person.send(path, form, {"Sec-Fetch-Site": "cross-site"})
        assert crossed.status == 403, path


async def test_wrong_key_is_refused_and_changes_nothing(desk, person):
    tenant = await desk.tenant()
    await person.sign_in(tenant.secret)
    before = person.cookie
    result = await add_key(person, tenant.secret[:-4] + "aaaa")
    assert result.status == 401
    assert 'role="alert"' in result.text
    assert person.cookie == before


async def test_number_of_keys_is_bounded(desk, person):
    tenants = [await desk.tenant() for _ in range(SESSIONS_MAX + 1)]
    await person.sign_in(tenants[0].secret)
    for tenant in tenants[1:-1]:
        assert (await add_key(person, tenant.secret)).status == 303
    assert len(person.cookie) < 4000
    result = await add_key(person, tenants[-1].secret)
    assert (result.status, "Sign out of one first" in result.text) == (400, True)
    # a key that is signed in is entered again instead of a fifth
    assert (await add_key(person, tenants[0].secret)).status == 303
    page = (await person.get(SESSIONS)).text
    assert page.count(f'action="{END}"') == SESSIONS_MAX


async def test_sign_out_ends_one_key_or_all(desk, person):
    first, second, third = [await desk.tenant() for _ in range(3)]
    await person.sign_in(first.secret)
    await add_key(person, second.secret)
    await add_key(person, third.secret)
    everything = person.cookie
    form = await person.hidden(SESSIONS, ADD)
    ended = await person.send(END, {**form, "key": second.key_id})
    assert ended.location == SESSIONS
    assert second.key_id not in (await person.get(SESSIONS)).text
    # a copy of the cookie cannot switch to it any more
    person.cookie = everything
    assert (await switch_to(person, second.key_id)).location == f"{SESSIONS}?ended=1"
    assert "The session of a key has ended" in (await person.get(f"{SESSIONS}?ended=1")).text
    await person.fill("/console", "/console/logout")
    for _ in range(2):
        assert (await person.get("/console")).location.startswith(LOGIN)
        person.cookie = everything


async def test_chosen_key_that_is_signed_out_leaves_the_others(desk, person):
    first, second = await desk.tenant(), await desk.tenant(live=True)
    await person.sign_in(first.secret)
    await add_key(person, second.secret)
    form = await person.hidden(SESSIONS, ADD)
    # it says where one is then
    assert (await person.send(END, {**form, "key": second.key_id})).location == SESSIONS
    assert not is_live(await person.get(SESSIONS))
    form = await person.hidden(SESSIONS, ADD)
    last = await person.send(END, {**form, "key": first.key_id})
    assert last.location == LOGIN
    assert "Max-Age=0" in person.cookies_received[-1]


async def test_revoked_key_ends_its_own_session_only(desk, person):
    first, second = await desk.tenant(), await desk.tenant()
    await person.sign_in(first.secret)
    await add_key(person, second.secret)
    await desk.revoke(second.key_id)
    assert (await person.get("/console")).location == f"{SESSIONS}?ended=1"
    page = (await person.get(f"{SESSIONS}?ended=1")).text
    assert first.key_id in page
    assert second.key_id not in page


async def test_idle_sessions_end_together_and_pages_keep_them_alive(desk, person):
    first, second = await desk.tenant(), await desk.tenant()
    await person.sign_in(first.secret)
    await add_key(person, second.secret)
    for _ in range(2):
        desk.clock.advance(IDLE_S - 60)
        assert (await person.get("/console")).status == 200
    assert (await switch_to(person, first.key_id)).location == "/console"
    desk.clock.advance(IDLE_S)
    assert (await person.get("/console")).location.startswith(LOGIN)


async def test_merchants_of_the_switch_filter_pages_and_are_the_partners_own(desk, person):
    tenant, foreign = await desk.tenant(), await desk.tenant()
    second_id = (await desk.merchant(tenant, name="Second <shop>")).id
    created = await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    await person.sign_in(tenant.secret)
    page = (await person.get("/console/payments")).text
    assert "Second &lt;shop&gt;" in page
    assert foreign.merchant.id not in page
    assert created.body["paymentId"] in page
    filtered = (await person.get(f"/console/payments?merchant={second_id}")).text
    assert created.body["paymentId"] not in filtered
    for path in ("/console", "/console/payments", "/console/payments/new", "/console/balances"):
        assert f'href="{path}?merchant={second_id}"' in filtered, path
        shown = (await person.get(f"{path}?merchant={second_id}")).text
        assert re.search(r'aria-current="true"><bdi class="cut">Second', shown), path
    assert (
        f'value="{second_id}"'
        in (await person.get(f"/console/payments/new?merchant={second_id}")).text
    )
    # of another partner: nothing is found, and nothing is said about it
    other = (await person.get(f"/console/payments?merchant={foreign.merchant.id}")).text
    assert foreign.merchant.name not in other or foreign.merchant.name == tenant.merchant.name
    assert "pay_" not in re.sub(r"<(template|script).*?</\1>", "", other, flags=re.DOTALL)


async def test_waiting_webhooks_are_counted_for_keys_that_manage_them(desk, person, bare):
    tenant = await desk.tenant()
    body = {"url": "https://shop.example/hooks"}
    created = await desk.ask("POST", "/v1/webhook-endpoints", tenant.headers, body)
    await person.sign_in(tenant.secret)
    count = r'Webhooks<small class="count"><span aria-hidden="true">(\d+)<'
    assert not re.search(count, (await person.get("/console")).text)
    endpoint = f"/console/webhooks/{created.body['endpoint']['id']}"
    await person.act(endpoint, f"{endpoint}/pause")
    assert re.search(count, (await person.get("/console")).text)[1] == "1"
    _, reader = await desk.key(tenant.partner.id, scopes=("read",))
    other = ConsoleUser(bare, person.base)
    await other.sign_in(reader)
    page = await other.get("/console")
    assert page.status == 200
    assert not re.search(count, page.text)
