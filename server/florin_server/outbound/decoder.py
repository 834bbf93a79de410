"""`python -m florin_server.outbound.decoder`: a picture in, the same as a small PNG out.

A process of its own, with little memory, time and nothing else: whatever a picture does to a
decoder, it does it here. It ends with status 1 if the bytes are no picture that is taken.
"""

from __future__ import annotations

import contextlib
import io
import resource
import sys
from typing import Final

from PIL import (
    Image,
    ImageOps,
    JpegImagePlugin,
    PngImagePlugin,
    UnidentifiedImageError,
    WebPImagePlugin,
)

# shown at 64 px at most, on screens with two or three points to a pixel
SIDE_PX: Final = 192
BYTES_MAX: Final = 48 * 1024
# their modules are there before the process may open nothing more
_FORMATS: Final = tuple(
    one.format
    for one in (
        PngImagePlugin.PngImageFile,
        JpegImagePlugin.JpegImageFile,
        WebPImagePlugin.WebPImageFile,
    )
)
# no icon is larger, and each pixel takes four bytes and more
_PIXELS_MAX: Final = 4_000_000
_MEMORY_BYTES: Final = 512 * 1024 * 1024
_SECONDS: Final = 5
_COLOURS: Final = 128


def main() -> int:
    """Reads and writes the standard streams; the status to end with."""
    _limit(resource.RLIMIT_AS, _MEMORY_BYTES)
    _limit(resource.RLIMIT_CPU, _SECONDS)
    # nothing is written to a disk
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CORE, 0)
    try:
        png = shrunk(sys.stdin.buffer.read())
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, MemoryError):
        return 1
    sys.stdout.buffer.write(png)
    return 0


def _limit(kind: int, most: int) -> None:
    """Takes a limit, or the lower one that is there.

    A sandbox around the service may forbid to take any: then what it allows counts, and what is
    looked at before anything is decoded.
    """
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    with contextlib.suppress(OSError):
        resource.setrlimit(kind, (most, most))


def shrunk(picture: bytes) -> bytes:
    """The first frame as a PNG without anything that is not to be seen; ValueError if too large."""
    with Image.open(io.BytesIO(picture), formats=_FORMATS) as opened:
        width, height = opened.size
        # told by the head of the file: nothing is decoded yet
        if width * height > _PIXELS_MAX:
            raise ValueError("too many pixels")
        # large JPEGs are decoded smaller at once
        opened.draft("RGB", (SIDE_PX * 2, SIDE_PX * 2))
        seen = ImageOps.exif_transpose(opened).convert("RGBA")
    seen.thumbnail((SIDE_PX, SIDE_PX))
    shown = Image.new("RGBA", seen.size)
    shown.paste(seen)
    png = _png(shown)
    if len(png) > BYTES_MAX:
        png = _png(shown.quantize(_COLOURS, method=Image.Quantize.FASTOCTREE))
    return png


def _png(picture: Image.Image) -> bytes:
    out = io.BytesIO()
    picture.save(out, "PNG", optimize=True)
    return out.getvalue()


if __name__ == "__main__":
    sys.exit(main())
