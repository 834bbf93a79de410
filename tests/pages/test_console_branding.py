"""The branding page: previewed by the server, saved at once, and safe against its own values."""

from __future__ import annotations

import base64
import hashlib
import re
import ssl

import pytest
import pytest_asyncio
from florin_server.base.outbound.address_policy import AddressPolicy
from florin_server.base.outbound.outbound import SafeHttpClient
from florin_server.features.icons import worker as fetch_icons
from florin_server.web.payments.accent import adjust_accent

from tests.support.authority import CertificateAuthority
from tests.support.books import SETTINGS
from tests.support.console import ConsoleUser
from tests.support.http_stub import make_stub_response, serve_stub
from tests.support.pictures import make_picture
from tests.support.service import NO_SOLANA
from tests.support.service_harness import ORDER, open_service
from tests.support.until import wait_until

pytestmark = pytest.mark.asyncio(loop_scope="module")
ACCENT, PALE = "#0b6840", "#ffee00"
HOSTILE = '"><script>alert(1)</script><style>'


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return CertificateAuthority(tmp_path_factory.mktemp("authority"), "branding")


@pytest.fixture(scope="module")
def near(authority):
    """Let the worker of pictures reach this machine and trust the test authority."""
    trust = ssl.create_default_context(cafile=str(authority.ca))
    patch = pytest.MonkeyPatch()
    reach = AddressPolicy.from_cidrs(["127.0.0.0/8"])
    patch.setattr(fetch_icons, "SafeHttpClient", lambda _: SafeHttpClient(reach, ssl_context=trust))
    yield
    patch.undo()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(authority):
    async with serve_stub(make_stub_response(), authority.issue("127.0.0.1")) as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory, near):
    home = tmp_path_factory.mktemp("branding")
    chosen = {**SETTINGS, "solana": NO_SOLANA, "console": True, "metrics_port": 0}
    async with open_service(home, **chosen) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def tenant(desk):
    return await desk.tenant()


def get_path(tenant) -> str:
    return f"/console/merchants/{tenant.merchant.id}/branding"


def make_values(tenant, **changes: str) -> dict[str, str]:
    empty = dict.fromkeys(("icon_url", "accent", "support_email", "support_url"), "")
    return {"name": tenant.merchant.name, **empty, **changes}


async def send(person, tenant, action: str = "", **changes: str):
    path = get_path(tenant)
    hidden = await person.hidden(path, path)
    return await person.send(path + action, {**hidden, **make_values(tenant, **changes)})


async def get_checkout(desk, tenant) -> str:
    created = await desk.rest.call("POST", "/v1/payments", tenant.headers, ORDER)
    return (await desk.ask("GET", f"/{created['paymentId']}")).text


def read_styles(page) -> list[str]:
    return re.findall(r"<style>(.*?)</style>", page.text, re.DOTALL)


async def test_preview_shows_the_look_and_saves_nothing(desk, tenant, person):
    await person.sign_in(tenant.secret)
    changes = {"name": "Tea & Co", "accent": ACCENT, "support_email": "help@tea.example"}
    page = await send(person, tenant, "/preview", **changes)
    assert page.status == 200
    assert page.text.count('<bdi class="name">Tea &amp; Co</bdi>') == 2
    assert "help@tea.example" in page.text
    # the browser accepts this style alone
    (style,) = read_styles(page)
    assert ACCENT in style
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = page.headers["content-security-policy"]
    assert f"style-src 'self' 'sha256-{digest}';" in policy
    assert "unsafe-inline" not in policy
    assert tenant.merchant.name in (await person.get(get_path(tenant))).text
    assert ACCENT not in await get_checkout(desk, tenant)


async def test_saved_look_is_that_of_the_checkout_page(desk, tenant, person):
    await person.sign_in(tenant.secret)
    changes = {
        "name": "Leaf & Cup",
        "accent": ACCENT,
        "support_email": "help@tea.example",
        "support_url": "https://tea.example/help",
    }
    page = await send(person, tenant, **changes)
    assert page.status == 200
    assert "Saved." in page.text
    # what it was, and what it is
    assert tenant.merchant.name in page.text
    for text in ("Name ·", "Color ·", "Contact address ·", "Contact page ·"):
        assert text in page.text
    assert "Logo ·" not in page.text
    checkout = await get_checkout(desk, tenant)
    for text in ("Leaf &amp; Cup", ACCENT, "help@tea.example", "https://tea.example/help"):
        assert text in checkout
    again = await send(person, tenant, **changes)
    assert "Nothing to save" in again.text
    cleared = await send(person, tenant, name="Leaf & Cup")
    assert "Saved." in cleared.text
    assert ACCENT not in await get_checkout(desk, tenant)


async def test_unreadable_color_is_adjusted_and_the_page_says_so(tenant, person):
    await person.sign_in(tenant.secret)
    light, dark = adjust_accent(PALE)
    assert light != PALE == dark
    page = await send(person, tenant, "/preview", accent=PALE)
    assert f'On light pages the color is <bdi><code dir="ltr">{light}</code>' in page.text
    assert "On dark pages" not in page.text
    assert f"light-dark({light},{dark})" in read_styles(page)[0]


@pytest.mark.parametrize("action", ["", "/preview"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("accent", "red"),
        ("accent", "#12345"),
        ("accent", "#123456;}body{display:none"),
        ("icon_url", "http://tea.example/logo.png"),
        ("icon_url", "data:image/svg+xml,<svg onload=alert(1)>"),
        ("icon_url", "javascript:alert(1)"),
        ("support_url", "javascript:alert(1)"),
        ("support_email", "no address"),
        ("name", ""),
        ("name", "x" * 257),
    ],
)
async def test_invalid_value_is_refused_and_changes_nothing(tenant, person, action, field, value):
    await person.sign_in(tenant.secret)
    page = await send(person, tenant, action, **{field: value})
    assert page.status == 400
    assert 'role="alert"' in page.text
    # the present look is shown
    assert not any("display:none" in style for style in read_styles(page))
    assert "<svg onload" not in page.text
    assert tenant.merchant.name in (await person.get(get_path(tenant))).text


@pytest.mark.parametrize("action", ["", "/preview"])
async def test_markup_in_a_name_is_text(tenant, person, action):
    await person.sign_in(tenant.secret)
    page = await send(person, tenant, action, name=HOSTILE)
    assert "<script>alert" not in page.text
    assert "&lt;script&gt;alert(1)" in page.text


async def test_look_of_another_partner_is_neither_shown_nor_saved(desk, tenant, person, bare):
    await person.sign_in(tenant.secret)
    other = await desk.tenant()
    path = get_path(other)
    assert (await person.get(path)).status == 404
    hidden = await person.hidden(get_path(tenant), get_path(tenant))
    for action in ("", "/preview"):
        values = {**hidden, **make_values(other, name="Mine")}
        assert (await person.send(path + action, values)).status == 404
    owner = ConsoleUser(bare, person.base)
    await owner.sign_in(other.secret)
    assert other.merchant.name in (await owner.get(path)).text


async def test_form_of_another_session_changes_nothing(tenant, person):
    await person.sign_in(tenant.secret)
    for action in ("", "/preview"):
        values = make_values(tenant, name="Stolen")
        assert (await person.send(get_path(tenant) + action, values)).status == 403


async def test_logo_is_fetched_once_and_shown_from_this_host(desk, tenant, person, host):
    host.handler = make_stub_response(200, make_picture("PNG"))
    await person.sign_in(tenant.secret)
    url = f"https://127.0.0.1:{host.port}/logo.png"
    first = await send(person, tenant, "/preview", icon_url=url)
    assert "Florin fetches the logo" in first.text

    async def fetched() -> bool:
        page = await send(person, tenant, "/preview", icon_url=url)
        return 'src="/icons/' in page.text

    await wait_until(fetched, True)
    page = await send(person, tenant, icon_url=url)
    pictures = re.findall(r'<img src="([^"]+)"', page.text)
    assert len(pictures) == 2
    assert all(path.startswith("/icons/") for path in pictures)
    # buyers' browsers contact no other host
    assert f"127.0.0.1:{host.port}" not in await get_checkout(desk, tenant)


@pytest.mark.parametrize(
    "body", [b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", b"<html>no</html>"]
)
async def test_file_that_is_no_picture_is_not_a_logo(tenant, person, host, body):
    host.handler = make_stub_response(200, body)
    await person.sign_in(tenant.secret)
    url = f"https://127.0.0.1:{host.port}/logo-{len(body)}.svg"

    async def refused() -> bool:
        page = await send(person, tenant, "/preview", icon_url=url)
        assert "<img" not in page.text
        return "The logo cannot be used: <bdi>it is not a PNG, JPEG or WebP image" in page.text

    await wait_until(refused, True)
