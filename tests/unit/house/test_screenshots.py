"""Test page screenshots: their list, their sizes, and how two are compared."""

from __future__ import annotations

import re

import pytest
from PIL import Image, ImageDraw, ImageFilter

from tests.screenshots.__main__ import FOLDER
from tests.screenshots.compare import difference
from tests.screenshots.pictures import PICTURES
from tests.support.documents import ROOT

_BYTES_MAX = 90_000
_ALL_BYTES_MAX = 1_200_000


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


def test_documents_show_pictures_that_there_are():
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    shown = {
        (file, (file.parent / path).resolve())
        for file in documents
        for path in re.findall(r"!\[[^\]]+\]\(([^)]*pictures/[^)]+)\)", file.read_text())
    }
    assert [str(file) for file, picture in shown if not picture.exists()] == []
    assert {file.name for file, _ in shown} >= {"README.md", "checkout.md", "console.md"}
