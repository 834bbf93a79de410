"""Reference pictures of the states of pages.

A sheet shows a state in both widths and both color schemes, side by side, at half size and in 32
steps of each color. So all sheets together stay small, and people can look at them. A pixel of a
sheet differs if it has no match even after the page was shifted by one pixel: other smoothing of
letters is no difference.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from PIL import Image, ImageChops
from playwright.async_api import Page

from tests.screenshots.page_state import Look, PageState
from tests.screenshots.stable_values import calm

FOLDER = Path(__file__).with_name("sheets")
HEIGHT = 800
# the part of a long page that is shown
_HEIGHT_MAX = 4000
# what no page has: the space below a short page
_FILLER = (192, 0, 192)
_STEP = 8
# of 255, in each color: two roundings, and other smoothing of letters at half size
_NOISE = 9
# tolerated number of differing pixels; most changed digits have more
_STRAYS = 6
_SHIFTS = tuple(product((0, -1, 1), repeat=2))


async def photograph(page: Page, looks: Sequence[Look]) -> Image.Image:
    """Return the page in every look, side by side in full size."""
    images = []
    for width, scheme in looks:
        if page.viewport_size != (size := {"width": width, "height": HEIGHT}):
            await page.set_viewport_size(size)
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        await page.mouse.move(0, 0)
        await calm(page)
        file = await page.screenshot(full_page=True, animations="disabled", caret="hide")
        with Image.open(io.BytesIO(file)) as image:
            images.append(image.convert("RGB"))
    return _join(images, looks)


def _join(images: Sequence[Image.Image], looks: Sequence[Look]) -> Image.Image:
    height = min(max(image.height for image in images), _HEIGHT_MAX)
    joined = Image.new("RGB", (sum(width for width, _ in looks), height + height % 2), _FILLER)
    start = 0
    for (width, _), image in zip(looks, images, strict=True):
        joined.paste(image.crop((0, 0, width, min(image.height, height))), (start, 0))
        start += width
    return joined


def reduce_sheet(photograph: Image.Image) -> Image.Image:
    """Return a sheet as it is stored: at half size, in few colors."""
    return photograph.reduce(2).point(lambda value: min(255, (value + _STEP // 2) // _STEP * _STEP))


def get_file(name: str) -> Path:
    """Return the file of a state's sheet."""
    return FOLDER / f"{name}.webp"


def load_sheet(name: str) -> Image.Image:
    """Return a stored sheet."""
    with Image.open(get_file(name)) as image:
        return image.convert("RGB")


def save_sheet(name: str, photograph: Image.Image, folder: Path = FOLDER) -> None:
    """Store a sheet without loss."""
    folder.mkdir(parents=True, exist_ok=True)
    sheet = reduce_sheet(photograph)
    sheet.save(folder / f"{name}.webp", lossless=True, quality=100, method=4)


def is_stored(photograph: Image.Image, state: PageState) -> bool:
    """Return True if a page looks as its stored sheet shows."""
    if not get_file(state.name).exists():
        return False
    return not describe_difference(photograph, load_sheet(state.name), state.looks)


def compare_with_stored(photograph: Image.Image, state: PageState, folder: Path) -> str:
    """Describe how a page differs from its stored sheet; write both differing to a folder."""
    if not get_file(state.name).exists():
        return "it is new"
    sheet = load_sheet(state.name)
    if output := describe_difference(photograph, sheet, state.looks):
        save_sheet(state.name, photograph, folder)
        find_differing(photograph, sheet).save(folder / f"{state.name}.differs.png")
    return output


def describe_difference(photograph: Image.Image, sheet: Image.Image, looks: Sequence[Look]) -> str:
    """Describe how a page differs from its sheet; empty if it looks the same."""
    fresh = reduce_sheet(photograph)
    if fresh.size == sheet.size and ImageChops.difference(fresh, sheet).getbbox() is None:
        return ""
    if abs(fresh.height - sheet.height) > 1:
        return f"the highest page has {2 * fresh.height} px, and had {2 * sheet.height} px"
    differing = find_differing(photograph, sheet)
    parts = []
    start = 0
    for width, scheme in looks:
        part = differing.crop((start // 2, 0, (start + width) // 2, differing.height))
        count = part.histogram()[255]
        if count > _STRAYS:
            left, top, right, bottom = (2 * side for side in part.getbbox() or (0, 0, 0, 0))
            place = f"({left}, {top}) to ({right}, {bottom})"
            parts.append(f"{width} px, {scheme}: {4 * count} px differ, from {place}")
        start += width
    return "; ".join(parts)


def find_differing(photograph: Image.Image, sheet: Image.Image) -> Image.Image:
    """Return white where a pixel of the sheet differs under every small shift of the page."""
    size = (sheet.width, min(sheet.height, photograph.height // 2))
    stored = sheet.crop((0, 0, *size))
    result = Image.new("L", size, 0)
    fresh = reduce_sheet(photograph).crop((0, 0, *size))
    # shifts are slow, and needed only where the page is not equal
    if (box := ImageChops.difference(fresh, stored).getbbox()) is None:
        return result
    left, top, right, bottom = box
    part = stored.crop(box)
    least = Image.new("L", part.size, 255)
    for shift in _SHIFTS:
        shifted = ImageChops.offset(photograph, *shift)
        place = shifted.crop((2 * left, 2 * top, 2 * right, 2 * bottom)).reduce(2)
        red, green, blue = ImageChops.difference(place, part).split()
        widest = ImageChops.lighter(ImageChops.lighter(red, green), blue)
        least = ImageChops.darker(least, widest)
    result.paste(least.point(lambda value: 255 if value > _NOISE else 0), (left, top))
    return result
