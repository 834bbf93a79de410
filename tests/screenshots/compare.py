"""Whether two pictures show the same.

What is smoothed otherwise, or a pixel aside, is the same; a box, a line, a word or a colour that is
another is not.
"""

from __future__ import annotations

from PIL import Image, ImageChops, ImageFilter

# of 255, in each colour: stored pictures have 256 colours at most
_NOISE = 14
# single pixels that differ all the same; a letter has more
_STRAYS = 24
# how far aside the same pixel may be: 1 in each direction
_NEAR = 3


def difference(fresh: Image.Image, kept: Image.Image) -> str:
    """What differs, in words; empty if they show the same."""
    if fresh.size != kept.size:
        (width, height), (old_width, old_height) = fresh.size, kept.size
        return f"it is {width} x {height} px, and was {old_width} x {old_height} px"
    mask = differing(fresh, kept)
    count = mask.histogram()[255]
    if count <= _STRAYS:
        return ""
    left, top, right, bottom = mask.getbbox() or (0, 0, 0, 0)
    return f"{count} px differ, from ({left}, {top}) to ({right}, {bottom})"


def differing(fresh: Image.Image, kept: Image.Image) -> Image.Image:
    """White where one has what the other has not even beside there; both of one size."""
    one, other = fresh.convert("RGB"), kept.convert("RGB")
    bands = ImageChops.lighter(_outside(one, other), _outside(other, one)).split()
    widest = bands[0]
    for band in bands[1:]:
        widest = ImageChops.lighter(widest, band)
    return widest.point(lambda value: 255 if value else 0)


def _outside(one: Image.Image, other: Image.Image) -> Image.Image:
    """How much darker or lighter one is than all that is near in the other."""
    lightest = other.filter(ImageFilter.MaxFilter(_NEAR))
    darkest = other.filter(ImageFilter.MinFilter(_NEAR))
    return ImageChops.lighter(
        ImageChops.subtract(one, lightest, offset=-_NOISE),
        ImageChops.subtract(darkest, one, offset=-_NOISE),
    )
