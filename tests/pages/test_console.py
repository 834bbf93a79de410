"""The consoles: sign-in, permissions of a session, and attacks without one."""

from __future__ import annotations

import csv
import json
import re

import pytest
import pytest_asyncio
from florin_server.web.console.session import IDLE_S, LIFE_S

from tests.support.console import HOSTILE, ConsoleUser
from tests.support.service_harness import ORDER, open_service

pytestmark = pytest.mark.asyncio(loop_scope="module")
_LINK = re.compile(r'(?:href|action|data-\w+)="(/console[^"]*)"')


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("console")
    async with open_service(home, console=True, metrics_port=0) as desk:
        yield desk


def token(desk) -> str:
    return desk.service.secrets.operator_token


def place(tenant, payment_id: str) -> str:
    return f"/console/merchants/{tenant.merchant.id}/payments/{payment_id}"


async def paid(desk, tenant, **order) -> str:
    created = await desk.ask("POST", "/v1/payments", tenant.headers, {**ORDER, **order})
    payment_id = created.body["paymentId"]
    path = f"/v1/sandbox/payments/{payment_id}/simulate"
    await desk.ask("POST", path, tenant.headers, {"outcome": "succeeded"})
    return payment_id


async def test_a_merchant_signs_in_creates_a_payment_and_refunds_it(desk, person):
    tenant = await desk.tenant()
    assert (await person.get("/console")).location == "/console/login?back=%2Fconsole"
    assert (await person.sign_in(tenant.secret)).location == "/console"
    assert "Test mode: no real money moves" in (await person.get("/console")).text
    form = {"merchant": tenant.merchant.id, "amount": "12.50", "unit": "iso4217/USD"}
    created = await person.fill(
        "/console/payments/new",
        "/console/payments/new",
        **form,
        reference="order-7",
        description="Two cups",
    )
    payment = created.location
    assert (created.status, payment.rpartition("/")[0]) == (303, place(tenant, "").rstrip("/"))
    await person.fill(payment, f"{payment}/simulate", outcome="succeeded")
    page = (await person.get(payment)).text
    assert '<span class="word">Paid</span>' in page
    assert "12.50\u00a0USD" in page
    assert "<dt>Description</dt><dd><bdi>Two cups</bdi></dd>" in page
    assert "A test payment was set to succeed" in page
    assert (await person.act(payment, f"{payment}/refund")).location == payment
    detail = await desk.ask("GET", f"/v1/payments/{payment.rpartition('/')[2]}", tenant.headers)
    assert detail.body["refund"]["status"] == "succeeded"
    assert "Refund requested" in (await person.get(payment)).text


async def test_repeated_create_form_creates_a_single_payment(desk, person):
    tenant = await desk.tenant()
    await person.sign_in(tenant.secret)
    path = "/console/payments/new"
    form = {"merchant": tenant.merchant.id, "amount": "1", "unit": "iso4217/USD"}
    form = {**await person.hidden(path, path), **form}
    first, second = await person.send(path, form), await person.send(path, form)
    assert first.location == second.location != ""


async def test_form_error_is_shown_beside_the_entered_values(desk, person):
    tenant = await desk.tenant()
    await person.sign_in(tenant.secret)
    form = {"merchant": tenant.merchant.id, "amount": "1.255", "unit": "iso4217/USD"}
    path = "/console/payments/new"
    result = await person.fill(path, path, **form, reference="kept")
    assert result.status == 400
    assert "The amount has too many decimals. At most 2 are possible." in result.text
    assert 'value="1.255"' in result.text
    assert 'value="kept"' in result.text


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
)
async def test_a_form_of_another_site_does_nothing(desk, person, headers):
    tenant = await desk.tenant()
    signed = await person.send(
        "/console/login", {"secret": tenant.secret, "back": "/console"}, headers
    )
    assert (signed.status, person.cookie) == (403, "")
    await person.sign_in(tenant.secret)
    payment = place(tenant, await paid(desk, tenant))
    form = await person.hidden(payment, f"{payment}/refund")
    assert (await person.send(f"{payment}/refund", form, headers)).status == 403
    assert "Refund up to <bdi>12.50" in (await person.get(payment)).text


async def test_a_form_of_another_session_does_nothing(desk, person, bare):
    tenant = await desk.tenant()
    await person.sign_in(tenant.secret)
    other = ConsoleUser(bare, person.base)
    await other.sign_in(tenant.secret)
    payment = place(tenant, await paid(desk, tenant))
    form = await other.hidden(payment, f"{payment}/refund")
    for csrf in (form["csrf"], "", "0" * 64):
        result = await person.send(f"{payment}/refund", {**form, "csrf": csrf})
        assert (result.status, "another session" in result.text) == (403, True)
    assert "Refund up to <bdi>12.50" in (await person.get(payment)).text


async def test_a_cookie_is_for_this_host_and_for_no_script_and_holds_no_secret(desk, person):
    tenant = await desk.tenant()
    await person.sign_in(tenant.secret)
    result = person.cookies_received[-1]
    assert result.startswith("florin_console=")
    assert "; HttpOnly; SameSite=Strict" in result
    assert "Secure" not in result
    assert tenant.secret not in result
    page = await person.get("/console/payments")
    assert page.headers["Cache-Control"] == "no-store"
    assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
    assert tenant.secret not in page.text


async def test_a_cookie_that_was_changed_is_none(desk, person):
    tenant = await desk.tenant()
    await person.sign_in(tenant.secret)
    good = person.cookie
    key, body = good.split(".")
    swapped = body[:-9] + ("A" if body[-9] != "A" else "B") + body[-8:]
    for bad in (f"{key}.{swapped}", f"{key}.", key, f"{key}.%%%", f"{key}.é", good + "A" * 5000):
        person.cookie = bad
        assert (await person.get("/console")).status in {303, 431}
    person.cookie = good
    assert (await person.get("/console")).status == 200


async def test_a_session_ends_when_it_is_idle_and_when_it_is_old(desk, bare):
    tenant = await desk.tenant()
    idle, busy = (ConsoleUser(bare, desk.rest.base) for _ in range(2))
    await idle.sign_in(tenant.secret)
    await busy.sign_in(tenant.secret)
    desk.clock.advance(IDLE_S - 1)
    assert (await busy.get("/console")).status == 200
    desk.clock.advance(1)
    assert (await idle.get("/console")).status == 303
    for _ in range(LIFE_S // IDLE_S * 2 - 3):
        desk.clock.advance(IDLE_S / 2)
        assert (await busy.get("/console/payments/new")).status == 200
    desk.clock.advance(IDLE_S - 1)
    assert (await busy.get("/console")).status == 303


async def test_a_script_that_looks_keeps_no_session_alive(desk, person):
    tenant = await desk.tenant()
    await person.sign_in(tenant.secret)
    desk.clock.advance(IDLE_S - 1)
    assert (await person.get("/console/payments/rows")).status == 200
    desk.clock.advance(1)
    assert (await person.get("/console/payments/rows")).status == 401


async def test_signed_out_session_is_refused_even_with_its_cookie(desk, person):
    tenant = await desk.tenant()
    await person.sign_in(tenant.secret)
    copied = person.cookie
    out = await person.fill("/console", "/console/logout")
    assert out.location == "/console/login"
    assert "Max-Age=0" in person.cookies_received[-1]
    person.cookie = copied
    assert (await person.get("/console")).status == 303


async def test_sessions_are_refused_while_sign_outs_cannot_be_read(tmp_path, bare):
    async with open_service(tmp_path, console=True, pay_url="") as desk:
        person, tenant = ConsoleUser(bare, desk.rest.base), await desk.tenant()
        await person.sign_in(tenant.secret)
        form = await person.hidden("/console", "/console/logout")
        await desk.service.app.store.close()
        for response in (
            await person.get("/console"),
            await person.get("/console/payments/rows"),
            await person.get("/console/login"),
            await person.send("/console/logout", form),
        ):
            assert (response.status, response.headers["Retry-After"]) == (503, "1")
        # a sign-out that was not recorded is not reported as done
        assert len(person.cookies_received) == 1


async def test_a_session_ends_with_its_key(desk, person):
    tenant = await desk.tenant()
    await person.sign_in(tenant.secret)
    payment = place(tenant, await paid(desk, tenant))
    form = await person.hidden(payment, f"{payment}/refund")
    copied = person.cookie
    await desk.revoke(tenant.key_id)
    result = await person.send(f"{payment}/refund", form)
    assert (result.status, result.location) == (303, "/console/login?back=%2Fconsole")
    person.cookie = copied
    assert (await person.get("/console/payments")).status == 303


async def test_read_only_key_is_refused_changes(desk, person):
    tenant = await desk.tenant()
    _, secret = await desk.key(tenant.partner.id, scopes=("read",))
    await person.sign_in(secret)
    payment = place(tenant, await paid(desk, tenant))
    result = await person.act(payment, f"{payment}/refund")
    assert result.status == 403
    assert "your sign-in does not allow this" in result.text
    # by which the log is searched
    assert re.search(r'Request <bdi><code dir="ltr">\w+</code></bdi>', result.text)
    form = {"merchant": tenant.merchant.id, "amount": "1", "unit": "iso4217/USD"}
    path = "/console/payments/new"
    assert (await person.fill(path, path, **form)).status == 403


async def test_key_without_read_scope_cannot_sign_in(desk, person):
    tenant = await desk.tenant()
    _, writes = await desk.key(tenant.partner.id, scopes=("create",))
    _, wallet = await desk.key(None)
    for secret, status in ((writes, 403), (wallet, 403), (desk.unstored_key(), 401), ("x", 401)):
        result = await person.sign_in(secret)
        assert (result.status, person.cookie) == (status, "")
        assert secret not in result.text or secret == "x"
    # a key's id is no key: it identifies sessions only
    assert (await person.sign_in(tenant.key_id)).status == 401
    assert (await person.sign_in("")).status == 400
    assert (await person.sign_in(token(desk))).status == 401


async def test_a_merchant_sees_nothing_of_another(desk, person, bare):
    owner, stranger = await desk.tenant(), await desk.tenant()
    payment_id = await paid(desk, owner, referenceId="secret-order")
    owned = ConsoleUser(bare, desk.rest.base)
    await owned.sign_in(owner.secret)
    await person.sign_in(stranger.secret)
    payment, merchant = place(owner, payment_id), f"/console/merchants/{owner.merchant.id}"
    paths = {payment, f"{payment}/events", merchant, place(stranger, payment_id)}
    for path in ("/console", "/console/payments", "/console/merchants", payment, merchant):
        paths |= set(_LINK.findall((await owned.get(path)).text))
    assert len(paths) > 12
    for path in sorted(paths):
        result = await person.get(path)
        text = result.text.replace(path, "")
        # the audit log repeats its own filter
        text = text.replace(path.partition("?object=")[2] or "\0", "")
        for secret in (payment_id, "secret-order", owner.merchant.name + "?"):
            assert secret not in text, path
    # one of the links chose another language
    person.language_cookie = ""
    for path in (payment, merchant, place(stranger, payment_id), f"{payment}/events"):
        assert (await person.get(path)).status == 404, path
    filtered = await person.get(f"/console/payments?merchant={owner.merchant.id}")
    assert "No payments match" in filtered.text
    form = await person.hidden("/console/payments/new", "/console/payments/new")
    for path in (f"{payment}/refund", f"{payment}/cancel", f"{merchant}/destinations"):
        result = await person.send(path, {**form, "asset": "x", "destination": "y"})
        assert result.status in {400, 404}, path
    assert "Refund up to <bdi>12.50" in (await owned.get(payment)).text


async def test_console_shows_live_or_test_mode(desk, person, bare):
    live, test = await desk.tenant(live=True), await desk.tenant()
    other = ConsoleUser(bare, desk.rest.base)
    await person.sign_in(live.secret)
    await other.sign_in(test.secret)
    assert ">Live mode: real money moves<" in (await person.get("/console")).text
    assert ">Test mode: no real money moves<" in (await other.get("/console")).text


async def test_every_text_is_a_text(desk, person):
    tenant = await desk.tenant()
    await tenant.change_merchant(name=HOSTILE, email=HOSTILE)
    payment_id = await paid(desk, tenant, referenceId=HOSTILE)
    await person.sign_in(tenant.secret)
    paths = ("/console", "/console/payments", place(tenant, payment_id), "/console/merchants")
    search = "/console/merchants?search=%3Cscript%3Ealert(1)%3C/script%3E&cursor=%22%3E%3Cb%3E"
    wrong = "/console/payments?reference=%22%3E%3Cb%3E%3Cscript%3Ealert(1)%3C/script%3E"
    for path in (*paths, f"/console/merchants/{tenant.merchant.id}", search, wrong):
        text = (await person.get(path)).text
        assert "<script>alert" not in text, path
        assert "<b" not in text.replace("<body", "").replace("<button", "").replace("<bdi", "")
        assert "49" not in text.partition("{{")[2][:5]


async def test_a_file_for_spreadsheets_computes_nothing(desk, person):
    tenant = await desk.tenant()
    for reference in ("=cmd|' /C calc'!A0", "+1", "@SUM(A1)", "-2", 'a,"b'):
        await paid(desk, tenant, referenceId=reference)
    await person.sign_in(tenant.secret)
    result = await person.get("/console/payments/export")
    assert result.headers["Content-Disposition"] == 'attachment; filename="payments.csv"'
    lines = result.text.splitlines()
    assert len(lines) == 6
    assert all(not re.search(r'(^|,)"?[=+@-]', line) for line in lines)
    assert "'=cmd|' /C calc'!A0" in result.text
    # amounts are numbers, their units are in columns of their own
    for item in csv.DictReader(result.text.splitlines()):
        assert (item["amount"], item["currency"]) == ("12.50", "USD")


async def test_the_overview_has_every_currency(desk, person):
    """The overview once drew the most used currency only, and left out the others silently."""
    tenant = await desk.tenant()
    for value, unit in (("1250", "USD"), ("700", "USD"), ("125000", "EUR")):
        await paid(desk, tenant, amount={"unit": f"iso4217/{unit}", "value": value})
    await person.sign_in(tenant.secret)
    page = (await person.get("/console")).text
    assert "Volume in USD" in page
    switch = dict(re.findall(r'href="(/console\?days=7&amp;unit=[^"]+)"[^>]*>(\w+)<', page))
    assert list(switch.values()) == ["USD", "EUR"]
    euros = (await person.get(list(switch)[1].replace("&amp;", "&"))).text
    assert "Volume in EUR" in euros
    assert "1,250.00\u00a0EUR" in euros.partition("Show figures")[2].partition("</table>")[0]
    totals = page.partition('<h2 id="totals">Totals</h2>')[2]
    rows = re.findall(r"<bdi>(.+?)</bdi></td><td.*?>(\d+)</td><td.*?>(.+?)</td>", totals)
    assert rows == [("USD", "2", "19.50\u00a0USD"), ("EUR", "1", "1,250.00\u00a0EUR")]


async def test_a_list_has_every_filter_of_the_api(desk, person):
    tenant = await desk.tenant()
    for number in range(3):
        await paid(desk, tenant, referenceId=f"order-{number}")
    await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    await person.sign_in(tenant.secret)

    async def count(query: str) -> int:
        return (await person.get(f"/console/payments?{query}")).text.count(
            '<tr class="go" data-id='
        )

    assert await count("") == 4
    assert await count("status=succeeded") == 3
    assert await count("status=succeeded&status=requires_action") == 4
    assert await count("reference=order-2") == 1
    assert await count("to=2000-01-01") == 0
    assert await count("from=2000-01-01T00:00&sort=amount&dir=asc") == 4
    assert await count(f"merchant={tenant.merchant.id}") == 4
    assert await count("network=eip155:1") == 0
    for query in ("", "status=succeeded"):
        page = (await person.get(f"/console/payments?{query}")).text
        tabs = re.findall(r"(\w[\w ]*)<small class=\"num\">(\d+)</small>", page)
        assert tabs == [("All", "4"), ("Paid", "3"), ("Open", "1"), ("Not paid", "0")]
    page = (await person.get("/console/payments?reference=order-2")).text
    assert 'Paid<small class="num">1</small>' in page
    for bad in ("status=x", "from=x", "sort=x", "reference=ab", "cursor=x", "dir=up"):
        result = await person.get(f"/console/payments?{bad}")
        assert (result.status, 'role="alert"' in result.text) == (400, True), bad


async def test_rows_report_the_current_payment_status(desk, person):
    tenant = await desk.tenant()
    payment_id = await paid(desk, tenant)
    await person.sign_in(tenant.secret)
    result = json.loads((await person.get("/console/payments/rows?")).text)
    assert result == [{"id": payment_id, "status": "payment.succeeded"}]


@pytest.mark.parametrize(
    "back",
    [
        "https://evil.example/console",
        "//evil.example/console",
        "/\\evil.example/console",
        "/console/../v1/payments",
        "/consolex",
        "/v1/payments",
        "/console\r\nSet-Cookie: x=1",
        "javascript:alert(1)",
        "/console/login",
    ],
)
async def test_a_sign_in_leads_nowhere_else(desk, person, back):
    tenant = await desk.tenant()
    result = await person.sign_in(tenant.secret, back)
    assert result.location in {"/console", "/console/../v1/payments"}


async def test_a_sign_in_leads_back(desk, person):
    tenant = await desk.tenant()
    request = "/console/payments?status=succeeded&reference=a%20b"
    place = (await person.get(request)).location
    shown = (await person.get(place)).text
    back = re.search(r'name="back" value="([^"]*)"', shown)
    assert back is not None
    result = await person.sign_in(tenant.secret, back[1].replace("&amp;", "&"))
    assert result.location == "/console/payments?status=succeeded&reference=a+b"


async def test_keys_are_listed_to_their_partner_without_secrets(desk, person):
    owner, stranger = await desk.tenant(), await desk.tenant()
    revoked, _ = await desk.key(owner.partner.id, scopes=("read",))
    await desk.revoke(revoked)
    live, _ = await desk.key(owner.partner.id, live=True)
    await person.sign_in(owner.secret)
    page = (await person.get("/console/keys")).text
    assert owner.key_id in page
    assert "you are signed in with it" in page
    assert re.search(rf"{revoked}.*?Revoked", page, re.DOTALL)
    for hidden in (owner.secret, live, stranger.key_id, stranger.secret[-12:]):
        assert hidden not in page


async def test_guessing_is_hopeless(tmp_path, bare):
    from florin_server.settings import LimitSettings

    async with open_service(tmp_path, console=True, limits=LimitSettings()) as desk:
        person = ConsoleUser(bare, desk.rest.base)
        result = [(await person.sign_in(desk.unstored_key())).status for _ in range(70)]
        assert result[:60] == [401] * 60
        assert set(result[60:]) == {429}
        assert (await person.get("/console/login")).status in {200, 429}


@pytest.mark.parametrize(
    ("settings", "there"),
    [
        ({}, False),  # payment links lead elsewhere: others come here
        ({"pay_url": ""}, True),
        ({"pay_url": "", "trusted_proxies": ["10.0.0.0/8"]}, False),
        ({"pay_url": "", "console": False}, False),
        ({"console": True}, True),
    ],
)
async def test_merchant_console_requires_a_local_service_or_its_setting(
    tmp_path, bare, settings, there
):
    from florin_server.app.servers.consoles import has_merchant_console
    from florin_server.settings import Settings

    chosen = {"pay_url": "https://pay.example", **settings}
    assert has_merchant_console(Settings(home=tmp_path, **chosen)) is there
    assert not has_merchant_console(Settings(home=tmp_path, host="0.0.0.0", pay_url=""))
