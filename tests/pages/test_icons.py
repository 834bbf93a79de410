"""Merchants' pictures on pages: fetched in the background, and served by this host."""

from __future__ import annotations

import asyncio
import re
import ssl
from io import BytesIO

import pytest
import pytest_asyncio
from florin_server.base.outbound import pictures
from florin_server.base.outbound.address_policy import AddressPolicy
from florin_server.base.outbound.outbound import SafeHttpClient
from florin_server.features.icons import worker as fetch_icons
from florin_server.features.icons.service import IconCache
from PIL import Image

from tests.support.authority import CertificateAuthority
from tests.support.capture import get_path
from tests.support.http_stub import hang, make_stub_response, serve_stub
from tests.support.page_texts import get_headers
from tests.support.pictures import make_picture
from tests.support.service_harness import ORDER, open_service
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

DAY_S = 86_400


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return CertificateAuthority(tmp_path_factory.mktemp("authority"), "icons")


@pytest.fixture(scope="module")
def near(authority):
    """Let workers reach this machine and trust the test authority."""
    trust = ssl.create_default_context(cafile=str(authority.ca))
    patch = pytest.MonkeyPatch()
    reach = AddressPolicy.from_cidrs(["127.0.0.0/8"])
    patch.setattr(pictures, "_TIMEOUT_S", 2.0)
    patch.setattr(fetch_icons, "SafeHttpClient", lambda _: SafeHttpClient(reach, ssl_context=trust))
    yield
    patch.undo()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory, near):
    async with open_service(tmp_path_factory.mktemp("icons"), capture={"enabled": True}) as desk:
        yield desk


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(authority):
    async with serve_stub(make_stub_response(), authority.issue("127.0.0.1")) as server:
        yield server


async def merchant_of(desk, icon_url: str):
    """Return a merchant with a picture."""
    tenant = await desk.tenant()
    await tenant.change_merchant(icon_url=icon_url)
    return tenant


async def form_of(desk, tenant) -> str:
    """Return the path of a new form of a merchant."""
    created = await desk.rest.call("POST", "/v1/payments", tenant.headers, ORDER)
    account = EvmTestWallet().account

    async def offered():
        # a chain that does not answer in time is left out
        return (await desk.rest.options(created["paymentId"], [account]))["collectData"]

    return get_path((await wait_until(offered))["url"])


async def icon_on(desk, path: str) -> str:
    """Return the address of the picture on a page; empty without one."""
    page = await desk.ask("GET", path)
    assert page.status == 200
    match = re.search(r'<span class="tile"><img src="([^"]*)"', page.text)
    return match[1] if match else ""


async def test_a_picture_is_fetched_once_and_shown_from_our_host(desk, host):
    host.handler, before = make_stub_response(200, make_picture()), len(host.requests)
    tenant = await merchant_of(desk, f"https://127.0.0.1:{host.port}/tea.png?x='\"><b>")
    path = await form_of(desk, tenant)
    icon = await wait_until(lambda: icon_on(desk, path))
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
    (came,) = host.requests[before:]
    # the request does not reveal the page
    assert not {"referer", "cookie", "origin"} & came.headers.keys()
    # other processes on the store find it too
    other = IconCache(desk.service.app.store, desk.clock)
    assert await other.find_path(tenant.merchant.icon_url, tenant.merchant.partner_id) == icon
    assert await other.find_picture(icon.removeprefix("/icons/")[:-4]) is not None
    # a day later it is fetched again, and shown meanwhile; a picture that is gone stays
    host.handler = make_stub_response(404)
    desk.clock.advance(DAY_S)
    path = await form_of(desk, tenant)
    assert await icon_on(desk, path) == icon
    await wait_until(lambda: len(host.requests) == before + 2)
    assert await icon_on(desk, path) == icon


async def test_no_page_waits_for_the_host_of_a_picture(desk, host):
    host.handler, before = hang, host.connections
    slow = await form_of(desk, await merchant_of(desk, f"https://127.0.0.1:{host.port}/slow.png"))
    assert await asyncio.wait_for(icon_on(desk, slow), 5) == ""
    await wait_until(lambda: host.connections > before)
    # during the fetch
    assert await asyncio.wait_for(icon_on(desk, slow), 5) == ""
    host.handler = make_stub_response(200, make_picture("WEBP", (8, 8)))


async def test_icon_fetch_error_affects_no_other_icon(desk, host, monkeypatch, caplog):
    async def broken(_outbound, _url):
        raise RuntimeError("oops")

    path = await form_of(desk, await merchant_of(desk, "https://broken.example/icon.png"))
    with monkeypatch.context() as patch:
        patch.setattr(fetch_icons, "fetch_picture", broken)
        assert await icon_on(desk, path) == ""
        await wait_until(lambda: "fetching the icon at" in caplog.text)
    host.handler = make_stub_response(200, make_picture())
    url = f"https://127.0.0.1:{host.port}/after.png"
    after = await form_of(desk, await merchant_of(desk, url))
    assert await wait_until(lambda: icon_on(desk, after))


async def test_icon_url_in_a_private_network_is_not_requested(desk, near, monkeypatch):
    path = await form_of(desk, await merchant_of(desk, "https://10.0.0.1/icon.png"))
    seen = lambda: desk.select("SELECT fault FROM icon WHERE url LIKE 'https://10.%'")  # noqa: E731
    for _ in range(2):
        assert await icon_on(desk, path) == ""
    ((fault,),) = await wait_until(seen, patience_s=40)
    assert fault == "the host has no public address, or the port is not allowed"


@pytest.mark.parametrize(
    "file", ["0" * 32 + ".png", "x", "..%2f..%2fsecrets.json", "%00", "0" * 3000, "'%20OR%201=1--"]
)
async def test_nothing_else_is_served_there(desk, file):
    answer = await desk.ask("GET", f"/icons/{file}")
    assert answer.status in {400, 404}
    assert get_headers(answer)["content-type"] == "application/json"


async def test_icon_of_a_new_merchant_is_fetched_at_once(desk, host):
    host.handler, before = make_stub_response(200, make_picture("JPEG")), len(host.requests)
    tenant = await desk.tenant()
    created_created = {
        "merchantName": "New",
        "merchantEmail": "new@shop.example",
        "iconUrl": f"https://127.0.0.1:{host.port}/new.jpg",
    }
    headers = {**tenant.headers, "Idempotency-Key": "made-with-a-picture"}
    created = await desk.rest.call("POST", "/v1/merchants", headers, created_created)
    assert created["merchant"]["iconUrl"] == created_created["iconUrl"]
    await wait_until(lambda: len(host.requests) > before)
    assert host.requests[-1].line == "GET /new.jpg HTTP/1.1"
