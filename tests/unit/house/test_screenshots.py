"""Test page screenshots: their list, their sizes, and how two are compared."""

from __future__ import annotations

import re

import pytest
from PIL import Image, ImageDraw, ImageFilter

from tests.screenshots.__main__ import FOLDER
from tests.screenshots.compare import difference
from tests.screenshots.page_states import PAGE_STATES
from tests.screenshots.pictures import PICTURES
from tests.screenshots.sheet import FOLDER as SHEETS
from tests.screenshots.sheet import describe_difference, reduce_sheet
from tests.support.documents import ROOT

_BYTES_MAX = 90_000
_ALL_BYTES_MAX = 600_000
_SHEETS_BYTES_MAX = 4_000_000
# the looks of a drawn page: one of its own width
_LOOKS = ((200, "light"),)


def drawn(
    *, left: int = 20, colour: str = "#1f4fd8", text: str = "Pay 12.50", line: bool = True
) -> Image.Image:
    """Draw a card with a border and a button with a text."""
    image = Image.new("RGB", (200, 120), "#f6f7f9")
    card = ImageDraw.Draw(image)
    card.rectangle((8, 8, 191, 111), "#ffffff", "#c9ced6" if line else "#ffffff")
    card.rectangle((left, 40, left + 150, 84), colour)
    card.text((left + 40, 52), text, "#ffffff", font_size=16)
    return image


def smoothed(image: Image.Image) -> Image.Image:
    """Soften the edges, as another anti-aliasing draws them."""
    return Image.blend(image, image.filter(ImageFilter.GaussianBlur(0.6)), 0.2)


def test_equal_pictures_match_despite_smoothing_and_quantization():
    image = drawn().quantize(256)
    assert difference(drawn(), image) == ""
    assert difference(smoothed(drawn()), image) == ""
    assert difference(drawn(left=21), image) == ""


@pytest.mark.parametrize(
    "changed",
    [{"left": 22}, {"colour": "#1f4ff0"}, {"text": "Pay 12.51"}, {"text": ""}, {"line": False}],
)
def test_moved_missing_or_recolored_parts_differ(changed):
    image = drawn().quantize(256)
    assert re.fullmatch(
        r"\d+ px differ, from \(.*\) to \(.*\)", difference(drawn(**changed), image)
    )


def test_sheet_matches_despite_smoothing_and_a_shift_by_one_pixel():
    sheet = reduce_sheet(drawn())
    assert sheet.size == (100, 60)
    assert describe_difference(drawn(), sheet, _LOOKS) == ""
    assert describe_difference(smoothed(drawn()), sheet, _LOOKS) == ""
    assert describe_difference(drawn(left=21), sheet, _LOOKS) == ""


@pytest.mark.parametrize(
    "changed",
    [{"left": 24}, {"colour": "#1f4ff0"}, {"text": "Pay 92.50"}, {"text": ""}, {"line": False}],
)
def test_moved_missing_or_recolored_parts_differ_from_a_sheet(changed):
    output = describe_difference(drawn(**changed), reduce_sheet(drawn()), _LOOKS)
    assert re.fullmatch(r"200 px, light: \d+ px differ, from \(.*\) to \(.*\)", output)


def test_page_that_became_longer_differs_from_its_sheet():
    longer = Image.new("RGB", (200, 126), "#f6f7f9")
    longer.paste(drawn())
    output = describe_difference(longer, reduce_sheet(drawn()), _LOOKS)
    assert output == "the highest page has 126 px, and had 120 px"


def test_each_state_has_a_sheet_and_all_of_them_are_small():
    files = {file.stem: file.stat().st_size for file in SHEETS.iterdir()}
    assert files.keys() == {state.name for state in PAGE_STATES}
    assert len(files) == len(PAGE_STATES)
    assert sum(files.values()) <= _SHEETS_BYTES_MAX


def test_a_page_that_became_longer_differs():
    longer = Image.new("RGB", (200, 121), "#f6f7f9")
    longer.paste(drawn())
    assert difference(longer, drawn()) == "it is 200 x 121 px, and was 200 x 120 px"


def test_every_picture_is_there_once_and_no_other():
    names = [picture.name for picture in PICTURES]
    assert len(set(names)) == len(names)
    assert {file.name for file in FOLDER.iterdir()} == {f"{name}.png" for name in names}


def test_pictures_are_small():
    sizes = {file.name: file.stat().st_size for file in FOLDER.iterdir()}
    assert {name: size for name, size in sizes.items() if size > _BYTES_MAX} == {}
    assert sum(sizes.values()) <= _ALL_BYTES_MAX


def test_documents_show_all_pictures_and_no_others():
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    shown = {
        (file, (file.parent / path).resolve())
        for file in documents
        for path in re.findall(r"!\[[^\]]+\]\(([^)]*pictures/[^)]+)\)", file.read_text())
    }
    assert {picture for _, picture in shown} == set(FOLDER.iterdir())
    assert {file.name for file, _ in shown} >= {"README.md", "checkout.md", "console.md"}
