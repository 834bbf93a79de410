"""Merchants' pictures on pages: fetched beside all calls, and shown from our host."""

from __future__ import annotations

import asyncio
import re
import ssl
from io import BytesIO

import pytest
import pytest_asyncio
from florin_server.flows.icons.icons import Icons
from florin_server.outbound import pictures
from florin_server.outbound.outbound import Outbound
from florin_server.outbound.reach import Reach
from florin_server.workers.icons import fetch_icons
from PIL import Image

from tests.support.answering import answering, answers, never
from tests.support.authority import Authority
from tests.support.capture import path_of
from tests.support.desk import ORDER, opened
from tests.support.page_texts import headers_of
from tests.support.pictures import picture
from tests.support.until import until
from tests.support.wallet import Wallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

DAY_S = 86_400


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"), "icons")


@pytest.fixture(scope="module")
def near(authority):
    """Workers reach this machine, and believe the authority; else they are as they are."""
    trust = ssl.create_default_context(cafile=str(authority.ca))
    patch = pytest.MonkeyPatch()
    reach = Reach.of(["127.0.0.0/8"])
    patch.setattr(pictures, "_TIMEOUT_S", 2.0)
    patch.setattr(fetch_icons, "Outbound", lambda _: Outbound(reach, trust=trust))
    yield
    patch.undo()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory, near):
    async with opened(tmp_path_factory.mktemp("icons"), capture={"enabled": True}) as desk:
        yield desk


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(authority):
    async with answering(answers(), authority.issue("127.0.0.1")) as server:
        yield server


async def merchant_of(desk, icon_url: str):
    """A merchant with a picture."""
    tenant = await desk.tenant()
    await tenant.change_merchant(icon_url=icon_url)
    return tenant


async def form_of(desk, tenant) -> str:
    """The path of a new form of a merchant's."""
    created = await desk.rest.call("POST", "/v1/payments", tenant.headers, ORDER)
    account = Wallet().account

    async def offered():
        # a chain that does not answer in time is left out
        return (await desk.rest.options(created["paymentId"], [account]))["collectData"]

    return path_of((await until(offered))["url"])


async def icon_on(desk, path: str) -> str:
    """The address of the picture on a page; empty if it has none."""
    page = await desk.ask("GET", path)
    assert page.status == 200
    found = re.search(r'<img class="logo" src="([^"]*)"', page.text)
    return found[1] if found else ""


async def test_a_picture_is_fetched_once_and_shown_from_our_host(desk, host):
    host.say, before = answers(200, picture()), len(host.came)
    tenant = await merchant_of(desk, f"https://127.0.0.1:{host.port}/tea.png?x='\"><b>")
    path = await form_of(desk, tenant)
    icon = await until(lambda: icon_on(desk, path))
    assert re.fullmatch(r"/icons/[0-9a-f]{32}\.png", icon)
    async with desk.session.get(desk.rest.base + icon) as answer:
        assert (answer.status, answer.headers["Content-Type"]) == (200, "image/png")
        assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in answer.headers["Content-Security-Policy"]
        with Image.open(BytesIO(await answer.read())) as shown:
            assert shown.size == (64, 48)
    created = await desk.rest.call("POST", "/v1/payments", tenant.headers, ORDER)
    assert await icon_on(desk, f"/{created['paymentId']}") == icon
    (came,) = host.came[before:]
    # whose page it is for is not told
    assert not {"referer", "cookie", "origin"} & came.headers.keys()
    # other processes on the store find it too
    other = Icons(desk.service.app.store, desk.clock)
    assert await other.address(tenant.merchant.icon_url, tenant.merchant.partner_id) == icon
    assert await other.picture(icon.removeprefix("/icons/")[:-4]) is not None
    # a day later it is asked for again, and shown meanwhile; one that is gone stays
    host.say = answers(404)
    desk.clock.advance(DAY_S)
    path = await form_of(desk, tenant)
    assert await icon_on(desk, path) == icon
    await until(lambda: len(host.came) == before + 2)
    assert await icon_on(desk, path) == icon


async def test_no_page_waits_for_the_host_of_a_picture(desk, host):
    host.say, before = never, host.connections
    slow = await form_of(desk, await merchant_of(desk, f"https://127.0.0.1:{host.port}/slow.png"))
    assert await asyncio.wait_for(icon_on(desk, slow), 5) == ""
    await until(lambda: host.connections > before)
    # while it is asked
    assert await asyncio.wait_for(icon_on(desk, slow), 5) == ""
    host.say = answers(200, picture("WEBP", (8, 8)))


async def test_a_picture_that_breaks_what_asks_for_it_breaks_nothing_else(
    desk, host, monkeypatch, caplog
):
    async def broken(_outbound, _url):
        raise RuntimeError("oops")

    path = await form_of(desk, await merchant_of(desk, "https://broken.example/icon.png"))
    with monkeypatch.context() as patch:
        patch.setattr(fetch_icons, "fetched", broken)
        assert await icon_on(desk, path) == ""
        await until(lambda: "could not be asked for" in caplog.text)
    host.say = answers(200, picture())
    url = f"https://127.0.0.1:{host.port}/after.png"
    after = await form_of(desk, await merchant_of(desk, url))
    assert await until(lambda: icon_on(desk, after))


async def test_what_a_merchant_names_in_our_network_is_not_asked(desk, near, monkeypatch):
    path = await form_of(desk, await merchant_of(desk, "https://10.0.0.1/icon.png"))
    seen = lambda: desk.select("SELECT fault FROM icon WHERE url LIKE 'https://10.%'")  # noqa: E731
    for _ in range(2):
        assert await icon_on(desk, path) == ""
    ((fault,),) = await until(seen, patience_s=40)
    assert fault == "the host has no public address, or the port is not allowed"


@pytest.mark.parametrize(
    "file", ["0" * 32 + ".png", "x", "..%2f..%2fsecrets.json", "%00", "0" * 3000, "'%20OR%201=1--"]
)
async def test_nothing_else_is_served_there(desk, file):
    answer = await desk.ask("GET", f"/icons/{file}")
    assert answer.status in {400, 404}
    assert headers_of(answer)["content-type"] == "application/json"


async def test_a_merchant_that_is_made_has_its_picture_asked_for_at_once(desk, host):
    host.say, before = answers(200, picture("JPEG")), len(host.came)
    tenant = await desk.tenant()
    made = {
        "merchantName": "New",
        "merchantEmail": "new@shop.example",
        "iconUrl": f"https://127.0.0.1:{host.port}/new.jpg",
    }
    headers = {**tenant.headers, "Idempotency-Key": "made-with-a-picture"}
    created = await desk.rest.call("POST", "/v1/merchants", headers, made)
    assert created["merchant"]["iconUrl"] == made["iconUrl"]
    await until(lambda: len(host.came) > before)
    assert host.came[-1].line == "GET /new.jpg HTTP/1.1"
