"""Pictures, made here, and bytes that pretend to be some."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

RED = (220, 20, 60, 255)


def picture(kind: str = "PNG", size: tuple[int, int] = (64, 48), **options: Any) -> bytes:
    """A red one."""
    out = io.BytesIO()
    made = Image.new(
        "RGBA" if kind in {"PNG", "WEBP"} else "RGB",
        size,
        RED[: 4 if kind in {"PNG", "WEBP"} else 3],
    )
    made.save(out, kind, **options)
    return out.getvalue()


def told_more() -> bytes:
    """One that carries a text and the bytes of a page."""
    info = PngInfo()
    info.add_text("Comment", "<script>alert(1)</script>", zip=True)
    return picture(pnginfo=info) + b"<html><script>alert(2)</script>PK\x03\x04"


def noise(size: int = 512) -> bytes:
    """One that cannot be compressed: the same each time."""
    state, parts = 1, []
    for _ in range(size * size * 3 // 4):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        parts.append(struct.pack("<I", state >> 3))
    out = io.BytesIO()
    Image.frombytes("RGB", (size, size), b"".join(parts)[: size * size * 3]).save(out, "PNG")
    return out.getvalue()


def bomb(side: int = 30_000) -> bytes:
    """A few kilobytes that say they are a picture of so many pixels a side."""
    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    rows = zlib.compress(b"\x00" * ((side // 8 + 1) * side), 9)
    return (
        b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", rows) + _chunk(b"IEND", b"")
    )


def chatty(texts: int = 60) -> bytes:
    """A small one with texts that take gigabytes when they are unpacked."""
    one = _chunk(b"zTXt", b"x\x00\x00" + zlib.compress(b"a" * 30_000_000, 9))
    plain = picture()
    return plain[:33] + one * texts + plain[33:]


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
