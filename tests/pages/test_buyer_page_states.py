"""Buyers' pages look as their sheets show in every state, and everybody can use them.

The sheets detect planted faults, and ignore what another version of the browser draws differently.
"""

from __future__ import annotations

import re

import pytest
import pytest_asyncio
from PIL import ImageChops

from tests.screenshots.buyer_environment import buyer_stage
from tests.screenshots.page_states import BUYER_STATES
from tests.screenshots.sheet import describe_difference, load_sheet, photograph
from tests.screenshots.state_pages import open_state_pages
from tests.support.page_states import add_style_rule, assert_state_is_right

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

STATES = {state.name: state for state in BUYER_STATES}
PLANTED = STATES["checkout_full_order"]
_DARK = "@media (prefers-color-scheme: dark)"
_WIDE = "@media (min-width: 60rem)"
# rules that are added to the style sheet; with the looks in which they can be seen
RULES = {
    "text color": (":root{--quiet:light-dark(#565866,#8a8a9a)}", "dark"),
    "button color": (".primary{background:light-dark(#3c4bf0,#9aa7ff)}", "light"),
    "soft color": (".strip{background:#fcf1c0}", "light"),
    "shift": (".amount{margin-block-start:10px}", "390 px"),
    "shift on a desktop": (f"{_WIDE}{{.split>.pay{{padding-inline-start:10px}}}}", "1280 px"),
    "shift in the dark": (f"{_DARK}{{.way{{translate:0 10px}}}}", "dark"),
    "font size": (".way-head b{font-size:1.15rem}", "390 px"),
    "border": (".panel{border-color:transparent;box-shadow:none}", "390 px"),
    "radius": (".primary{border-radius:0}", "390 px"),
    "hidden word": (".name{visibility:hidden}", "390 px"),
    "icon": (".time .i{display:none}", "390 px"),
    "overflow": (".facts dd{position:relative;left:12px}", "390 px"),
}
# markup that is lost
LOST = ("Nothing is taken before you confirm in your wallet", "Delivery", "12.50")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pages(tmp_path_factory):
    """Yield pages of a browser that renders like the one that took the sheets."""
    async with open_state_pages(tmp_path_factory.mktemp("fonts")) as pages:
        yield pages


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory):
    async with buyer_stage(tmp_path_factory.mktemp("shop")) as stage:
        yield stage


@pytest.mark.parametrize("name", STATES)
async def test_page_looks_as_its_sheet_and_meets_the_guidelines(pages, stage, name):
    await assert_state_is_right(pages, stage, STATES[name])


async def test_planted_style_rules_are_detected(pages, stage):
    sheet = load_sheet(PLANTED.name)
    async with pages.open(stage, PLANTED) as page:
        for name, (rule, look) in RULES.items():
            remove = await add_style_rule(page, rule)
            output = describe_difference(
                await photograph(page, PLANTED.looks), sheet, PLANTED.looks
            )
            assert look in output or "highest page" in output, (name, output)
            await remove.evaluate("remove => remove()")
        image = await photograph(page, PLANTED.looks)
        assert describe_difference(image, sheet, PLANTED.looks) == ""
        # where letters are drawn a pixel beside
        for shift in ((1, 0), (0, 1), (-1, -1)):
            moved = ImageChops.offset(image, *shift)
            assert describe_difference(moved, sheet, PLANTED.looks) == "", shift
        for shift in ((4, 0), (0, 4)):
            moved = ImageChops.offset(image, *shift)
            assert describe_difference(moved, sheet, PLANTED.looks) != "", shift


@pytest.mark.parametrize("text", LOST)
async def test_lost_text_is_detected(pages, stage, text):
    async def lose(route) -> None:
        answer = await route.fetch()
        body, times = re.subn(re.escape(text), "", await answer.text())
        assert times > 0
        await route.fulfill(response=answer, body=body)

    async def spoil(page) -> None:
        await page.route(re.compile("/pay_[0-9a-zA-Z]+$"), lose)

    async with pages.open(stage, PLANTED, spoil) as page:
        image = await photograph(page, PLANTED.looks)
    assert describe_difference(image, load_sheet(PLANTED.name), PLANTED.looks) != ""
