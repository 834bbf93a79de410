"""Pages look like the pictures in documents, and a broken style is detected.

`make screenshots-check` compares all of them. Every state of every page has a sheet, which
`test_buyer_page_states.py` and `test_console_page_states.py` compare.
"""

from __future__ import annotations

import re

import pytest
import pytest_asyncio

from tests.screenshots import public_pages
from tests.screenshots.__main__ import load_picture
from tests.screenshots.camera import shot
from tests.screenshots.compare import difference
from tests.screenshots.fonts import alike

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]

PICTURES = {picture.name: picture for picture in public_pages.PICTURES}
# the file in which a rule is removed or changed
FAULTS = {
    "box": ("site.css", r"\.panel,\.card\{.*?\}", ""),
    "type": ("site.css", r"\.amount\{.*?\}", ""),
    "list": ("site.css", r"\.way-head\{.*?\}", ""),
    "control": ("site.css", r"button,\.button\{.*?\}", ""),
    "colour": ("site.css", "#3c4bd3", "#3c4bf0"),
    "line": ("site.css", r"1px solid var\(--line\)", "1px solid transparent"),
    "place": ("site.css", "padding-block:var\\(--s4\\)", "padding-block:1.2rem"),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory):
    """Yield a browser that renders like the one that took the pictures."""
    async with alike(tmp_path_factory.mktemp("fonts")) as browser:
        yield browser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory):
    async with public_pages.stage(tmp_path_factory.mktemp("shop")) as desk:
        yield desk


@pytest.mark.parametrize(
    "name",
    ["checkout_options", "checkout_succeeded", "first_page"],
)
async def test_a_page_looks_as_its_picture_does(browser, stage, name):
    assert difference(await shot(browser, stage, PICTURES[name]), load_picture(name)) == ""


@pytest.mark.parametrize("fault", FAULTS)
async def test_lost_style_rule_is_detected(browser, stage, fault):
    file, rule, instead = FAULTS[fault]
    picture = PICTURES["checkout_requires_action"]

    async def lose(route) -> None:
        answer = await route.fetch()
        text, times = re.subn(rule, instead, await answer.text(), flags=re.DOTALL)
        assert times > 0
        await route.fulfill(response=answer, body=text)

    async def spoil(page) -> None:
        await page.route(f"**/{file}", lose)

    assert difference(await shot(browser, stage, picture, spoil), load_picture(picture.name)) != ""
