"""Pictures that strangers name, as far as they can be shown to others."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Final

from florin_server.base.outbound.outbound import RequestFailed, SafeHttpClient

# an icon takes a tenth of it
PICTURE_BYTES_MAX: Final = 512 * 1024
_TIMEOUT_S: Final = 5.0
_DECODE_S: Final = 10.0
_HEADERS: Final = {"accept": "image/png, image/webp, image/jpeg;q=0.9", "user-agent": "Florin"}


class PictureUnavailable(Exception):  # noqa: N818  (a state of the world, not a mistake)
    """No picture was received; the text can be shown to the party that set the URL."""


async def fetch_picture(outbound: SafeHttpClient, url: str) -> bytes:
    """Return the picture at an https URL, as a small PNG; PictureUnavailable without one.

    Its bytes decide what kind of picture it is, not the server's content type.
    """
    if not url.startswith("https://"):
        raise PictureUnavailable("its address does not begin with https://")
    try:
        answer = await outbound.send(
            "GET", url, headers=_HEADERS, timeout_s=_TIMEOUT_S, response_bytes_max=PICTURE_BYTES_MAX
        )
    except RequestFailed as none:
        raise PictureUnavailable(str(none)) from None
    if answer.status != 200:
        raise PictureUnavailable(f"the server answered with status {answer.status}")
    if answer.is_truncated:
        raise PictureUnavailable(f"it is larger than {PICTURE_BYTES_MAX // 1024} KiB, or too slow")
    return await shrink_picture(answer.body)


async def shrink_picture(picture: bytes) -> bytes:
    """Return a picture as a small PNG, made by another process; or PictureUnavailable."""
    png = await asyncio.to_thread(_run_decoder, picture)
    if not png:
        raise PictureUnavailable("it is not a PNG, JPEG or WebP image of at most 4 million pixels")
    return png


def _run_decoder(picture: bytes) -> bytes:
    """Return the decoder's output; nothing if it failed.

    The standard library starts it without a fork, unlike the event loop: gRPC's handlers of forks
    would stop the work of this process.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-m", "florin_server.base.outbound.decoder"],
            input=picture,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # no secret of Florin is passed on
            env={},
            timeout=_DECODE_S,
            check=False,
        )
    except (subprocess.TimeoutExpired, OSError):
        return b""
    return done.stdout if done.returncode == 0 else b""
