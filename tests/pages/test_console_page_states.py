"""The consoles' pages look as their sheets show in every state, and everybody can use them."""

from __future__ import annotations

import pytest
import pytest_asyncio

from tests.screenshots.console_environment import console_stage
from tests.screenshots.console_page_states import CONSOLE_STATES
from tests.screenshots.sheet import describe_difference, load_sheet, photograph
from tests.screenshots.state_pages import open_state_pages
from tests.support.page_states import add_style_rule, assert_state_is_right

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

STATES = {state.name: state for state in CONSOLE_STATES}
PLANTED = STATES["merchant_payments"]
RULES = {
    "pill color": (".pill.good{background:light-dark(#e5f5ec,#12403f)}", "dark"),
    "row height": (".console tbody td{padding-block:1rem}", "1280 px"),
    "column": (".console td:nth-child(3){visibility:hidden}", "1280 px"),
    "shift": (".console main{padding-inline-start:3rem}", "1280 px"),
}
# px of a bar that can be read
METER_MIN = 100


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pages(tmp_path_factory):
    """Yield pages of a browser that renders like the one that took the sheets."""
    async with open_state_pages(tmp_path_factory.mktemp("fonts")) as pages:
        yield pages


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory):
    async with console_stage(tmp_path_factory.mktemp("office")) as stage:
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


async def test_status_page_shows_every_column_and_runway_from_1000_pixels(pages, stage):
    async with pages.open(stage, STATES["operator_status"]) as page:
        for width in (1000, 1280):
            await page.set_viewport_size({"width": width, "height": 800})
            cut = await page.evaluate(
                "[...document.querySelectorAll('.scroll')]"
                ".filter(box => box.scrollWidth > box.clientWidth).length"
            )
            assert cut == 0, width
            for meter in await page.locator(".runway .meter").all():
                box = await meter.bounding_box()
                assert box is not None
                assert box["width"] >= METER_MIN, width
