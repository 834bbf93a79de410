"""Comparison of two pictures.

Other smoothing, or a shift by a pixel, is no difference; a changed box, line, word or color is one.
"""

from __future__ import annotations

from PIL import Image, ImageChops, ImageFilter

# of 255, in each color: stored pictures have 256 colors at most
_NOISE = 14
# tolerated number of differing pixels; a letter has more
_STRAYS = 24
# the tolerated shift of a pixel: 1 in each direction
_NEAR = 3


def difference(fresh: Image.Image, image: Image.Image) -> str:
    """Describe the difference of two pictures; empty if they show the same."""
    if fresh.size != image.size:
        (width, height), (old_width, old_height) = fresh.size, image.size
        return f"it is {width} x {height} px, and was {old_width} x {old_height} px"
    mask = differing(fresh, image)
    count = mask.histogram()[255]
    if count <= _STRAYS:
        return ""
    left, top, right, bottom = mask.getbbox() or (0, 0, 0, 0)
    return f"{count} px differ, from ({left}, {top}) to ({right}, {bottom})"


def differing(fresh: Image.Image, stored_image: Image.Image) -> Image.Image:
    """Return white where a pixel has no match near it in the other picture of equal size."""
    image, other = fresh.convert("RGB"), stored_image.convert("RGB")
    bands = ImageChops.lighter(_outside(image, other), _outside(other, image)).split()
    widest = bands[0]
    for band in bands[1:]:
        widest = ImageChops.lighter(widest, band)
    return widest.point(lambda value: 255 if value else 0)


def _outside(image: Image.Image, other: Image.Image) -> Image.Image:
    """Return how much darker or lighter a pixel is than all pixels near it in the other."""
    lightest = other.filter(ImageFilter.MaxFilter(_NEAR))
    darkest = other.filter(ImageFilter.MinFilter(_NEAR))
    return ImageChops.lighter(
        ImageChops.subtract(image, lightest, offset=-_NOISE),
        ImageChops.subtract(darkest, image, offset=-_NOISE),
    )
