"""Saved views of the list of payments."""

from __future__ import annotations

import pytest
import pytest_asyncio
from florin_server.accounts.service.console_views import NAME_CHARS_MAX, VIEWS_MAX

from tests.support.console import HOSTILE, ConsoleUser
from tests.support.service_harness import open_service

pytestmark = pytest.mark.asyncio(loop_scope="module")
PAYMENTS, VIEWS = "/console/payments", "/console/payments/views"
FAILED = f"{PAYMENTS}?status=failed&status=expired&reference=order"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("console"), console=True, pay_url="") as desk:
        yield desk


async def test_view_is_saved_opened_and_removed(desk, person):
    await person.sign_in((await desk.tenant()).secret)
    saved = await person.fill(f"{FAILED}&cursor=&unknown=1", VIEWS, name="Lost orders")
    assert saved.location == FAILED
    page = (await person.get(PAYMENTS)).text
    link = 'href="/console/payments?status=failed&amp;status=expired&amp;reference=order"'
    assert f'<a {link}><bdi class="cut">Lost orders' in page
    # in another order it is the same view
    turned = (await person.get(f"{PAYMENTS}?reference=order&status=failed&status=expired")).text
    assert f'<a {link} aria-current="true">' in turned
    removed = await person.fill(PAYMENTS, f"{VIEWS}/remove", name="Lost orders")
    assert removed.location == PAYMENTS
    assert "Lost orders" not in (await person.get(PAYMENTS)).text


async def test_view_of_another_partner_or_mode_is_not_shown(desk, person, bare):
    tenant = await desk.tenant()
    await person.sign_in(tenant.secret)
    await person.fill(FAILED, VIEWS, name="Secret plan")
    _, live = await desk.key(tenant.partner.id, live=True)
    _, reader = await desk.key(tenant.partner.id, scopes=("read",))
    for secret, is_shown in (
        (live, False),
        ((await desk.tenant()).secret, False),
        (reader, True),
    ):
        other = ConsoleUser(bare, person.base)
        await other.sign_in(secret)
        page = await other.get(PAYMENTS)
        assert (page.status, "Secret plan" in page.text) == (200, is_shown)


async def test_views_are_text_and_bounded(desk, person):
    await person.sign_in((await desk.tenant()).secret)
    long = {"name": "x" * (NAME_CHARS_MAX + 1)}
    for values, text in (
        ({"name": ""}, "name must have"),
        (long, "name must have"),
        ({"name": "a\nb"}, "name must have"),
        ({"name": "a", "query": ""}, "filters must not be empty"),
        ({"name": "a", "query": "cursor=x&unknown=1"}, "filters must not be empty"),
        ({"name": "a", "query": "status=unknown"}, "unknown choice: status"),
        ({"name": "a", "query": f"reference={'x' * 500}"}, "filters must have at most"),
    ):
        result = await person.fill(FAILED, VIEWS, **values)
        assert (result.status, text in result.text) == (400, True), values
    hostile = HOSTILE[:NAME_CHARS_MAX]
    for name in (hostile, *map(str, range(VIEWS_MAX - 1))):
        assert (await person.fill(FAILED, VIEWS, name=name)).status == 303
    result = await person.fill(FAILED, VIEWS, name="one too many")
    assert (result.status, "remove one first" in result.text) == (400, True)
    page = (await person.get(PAYMENTS)).text
    assert "<script>alert" not in page
    assert page.count(f'action="{VIEWS}/remove"') == VIEWS_MAX
    # its address stays in the list of payments
    outside = {"name": "0", "query": "status=failed&next=https://evil.example"}
    location = (await person.fill(FAILED, VIEWS, **outside)).location
    assert location == f"{PAYMENTS}?status=failed"


async def test_view_needs_a_form_of_the_session(desk, person):
    await person.sign_in((await desk.tenant()).secret)
    for path in (VIEWS, f"{VIEWS}/remove"):
        result = await person.send(path, {"name": "a", "query": "status=failed"})
        assert result.status == 403
