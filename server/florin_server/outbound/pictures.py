"""Pictures that strangers name, as far as they can be shown to others."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Final

from florin_server.outbound.outbound import NoAnswer, Outbound

# an icon takes a tenth of it
PICTURE_BYTES_MAX: Final = 512 * 1024
_TIMEOUT_S: Final = 5.0
_DECODE_S: Final = 10.0
_HEADERS: Final = {"accept": "image/png, image/webp, image/jpeg;q=0.9", "user-agent": "Florin"}


class NoPicture(Exception):  # noqa: N818  (a state of the world, not a mistake)
    """There is none; the text may be shown to whoever named it."""


async def fetched(outbound: Outbound, url: str) -> bytes:
    """The picture at an https address, as a small PNG; NoPicture if there is none.

    What kind of picture it is, is told by its bytes: whatever the server calls it.
    """
    if not url.startswith("https://"):
        raise NoPicture("its address does not begin with https://")
    try:
        answer = await outbound.send(
            "GET", url, headers=_HEADERS, timeout_s=_TIMEOUT_S, answer_bytes=PICTURE_BYTES_MAX
        )
    except NoAnswer as none:
        raise NoPicture(str(none)) from None
    if answer.status != 200:
        raise NoPicture(f"it is answered with status {answer.status}")
    if answer.cut:
        raise NoPicture(f"it is larger than {PICTURE_BYTES_MAX // 1024} KiB, or too slow")
    return await small(answer.body)


async def small(picture: bytes) -> bytes:
    """The same as a small PNG, made by another process; NoPicture if it is none."""
    png = await asyncio.to_thread(_decoded, picture)
    if not png:
        raise NoPicture("it is no PNG, JPEG or WebP of at most 4 million pixels")
    return png


def _decoded(picture: bytes) -> bytes:
    """What the decoder makes of it; nothing if it ends otherwise than it should.

    The standard library starts it without a fork, unlike the event loop: gRPC's handlers of forks
    would stop what it is doing in this process.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-m", "florin_server.outbound.decoder"],
            input=picture,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # no secret of ours is handed on
            env={},
            timeout=_DECODE_S,
            check=False,
        )
    except (subprocess.TimeoutExpired, OSError):
        return b""
    return done.stdout if done.returncode == 0 else b""
