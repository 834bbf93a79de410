"""Pictures, generated here, and bytes that pretend to be pictures."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

RED = (220, 20, 60, 255)


def make_picture(kind: str = "PNG", size: tuple[int, int] = (64, 48), **options: Any) -> bytes:
    """Return a red picture."""
    out = io.BytesIO()
    image = Image.new(
        "RGBA" if kind in {"PNG", "WEBP"} else "RGB",
        size,
        RED[: 4 if kind in {"PNG", "WEBP"} else 3],
    )
    image.save(out, kind, **options)
    return out.getvalue()


def make_picture_with_text() -> bytes:
    """Return a picture that carries a text and the bytes of a page."""
    info = PngInfo()
    info.add_text("Comment", "<script>alert(1)</script>", zip=True)
    return make_picture(pnginfo=info) + b"<html><script>alert(2)</script>PK\x03\x04"


def make_noise(size: int = 512) -> bytes:
    """Return an incompressible picture, always the same one."""
    state, parts = 1, []
    for _ in range(size * size * 3 // 4):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        parts.append(struct.pack("<I", state >> 3))
    out = io.BytesIO()
    Image.frombytes("RGB", (size, size), b"".join(parts)[: size * size * 3]).save(out, "PNG")
    return out.getvalue()


def make_pixel_bomb(side: int = 30_000) -> bytes:
    """Return a few kilobytes that declare a picture of so many pixels a side."""
    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    rows = zlib.compress(b"\x00" * ((side // 8 + 1) * side), 9)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _make_chunk(b"IHDR", head)
        + _make_chunk(b"IDAT", rows)
        + _make_chunk(b"IEND", b"")
    )


def make_text_bomb(texts: int = 60) -> bytes:
    """Return a small picture with texts that take gigabytes when they are unpacked."""
    chunk = _make_chunk(b"zTXt", b"x\x00\x00" + zlib.compress(b"a" * 30_000_000, 9))
    plain = make_picture()
    return plain[:33] + chunk * texts + plain[33:]


def _make_chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
