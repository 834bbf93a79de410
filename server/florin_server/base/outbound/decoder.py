"""`python -m florin_server.base.outbound.decoder`: shrink a picture from stdin to a PNG on stdout.

A separate process with little memory and time, and without other rights: an attack on a decoder
stays in it. It ends with status 1 if the bytes are not an accepted picture.
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
# their modules are loaded before the process loses the right to open files
_FORMATS: Final = tuple(
    plugin.format
    for plugin in (
        PngImagePlugin.PngImageFile,
        JpegImagePlugin.JpegImageFile,
        WebPImagePlugin.WebPImageFile,
    )
)
# no icon is larger, and each pixel takes four bytes and more
_PIXELS_MAX: Final = 4_000_000
_MEMORY_BYTES: Final = 512 * 1024 * 1024
_SECONDS: Final = 5
_COLORS: Final = 128


def main() -> int:
    """Read and write the standard streams; return the exit status."""
    _limit(resource.RLIMIT_AS, _MEMORY_BYTES)
    _limit(resource.RLIMIT_CPU, _SECONDS)
    # nothing is written to a disk
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CORE, 0)
    try:
        png = shrink(sys.stdin.buffer.read())
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, MemoryError):
        return 1
    sys.stdout.buffer.write(png)
    return 0


def _limit(kind: int, most: int) -> None:
    """Set a limit, or keep the lower existing one.

    A sandbox around the service can forbid setting limits: then its limits apply, with the checks
    before anything is decoded.
    """
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    with contextlib.suppress(OSError):
        resource.setrlimit(kind, (most, most))


def shrink(picture: bytes) -> bytes:
    """Return the first frame as a PNG with visible data only; ValueError if it is too large."""
    with Image.open(io.BytesIO(picture), formats=_FORMATS) as opened:
        width, height = opened.size
        # from the head of the file: nothing is decoded yet
        if width * height > _PIXELS_MAX:
            raise ValueError("too many pixels")
        # large JPEGs are decoded smaller at once
        opened.draft("RGB", (SIDE_PX * 2, SIDE_PX * 2))
        seen = ImageOps.exif_transpose(opened).convert("RGBA")
    seen.thumbnail((SIDE_PX, SIDE_PX))
    shown = Image.new("RGBA", seen.size)
    shown.paste(seen)
    png = _encode_png(shown)
    if len(png) > BYTES_MAX:
        png = _encode_png(shown.quantize(_COLORS, method=Image.Quantize.FASTOCTREE))
    return png


def _encode_png(picture: Image.Image) -> bytes:
    out = io.BytesIO()
    picture.save(out, "PNG", optimize=True)
    return out.getvalue()


if __name__ == "__main__":
    sys.exit(main())
