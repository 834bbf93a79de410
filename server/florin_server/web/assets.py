"""Styles, scripts and pictures of pages: files beside this module, compressed once.

Their addresses bear a digest of all of them, so that browsers may keep them for good: whatever
changes has another address. A page of another release finds what this one has, not kept.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from florin_gateway.errors import RefusedError
from florin_gateway.plain import PlainAnswer, PlainHandler, PlainRequest

from florin_server.domain.errors import Code

FOLDER: Final = Path(__file__).with_name("static")
PATH: Final = "/assets/{release}/{noun}/{file}"
_KINDS: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    # pictures that are shown by themselves run nothing either
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'"),
)
_KEPT: Final = b"public, max-age=31536000, immutable"
_NOT_KEPT: Final = b"no-cache"


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is sent; `packed` is None where gzip saves nothing."""

    body: bytes
    packed: bytes | None
    kind: str


def address(name: str) -> str:
    """Where browsers find a file of `static`, e.g. "site/site.css"; KeyError if there is none."""
    _assets()[name]
    return f"/assets/{_release()}/{name}"


def routes() -> Mapping[str, PlainHandler]:
    """The handlers by path template."""
    return {PATH: _file}


async def _file(request: PlainRequest) -> PlainAnswer:
    asked = request.variables
    found = _assets().get(f"{asked['noun']}/{asked['file']}")
    if found is None:
        raise RefusedError(404, Code.INVALID_PARAMS, "Path not found")
    return answer(request, found, kept=asked["release"] == _release(), headers=_HEADERS)


def answer(
    request: PlainRequest, file: Asset, *, kept: bool, headers: Sequence[tuple[bytes, bytes]]
) -> PlainAnswer:
    """A file, compressed for who reads that; `kept` if its address is that of this content only."""
    caching = _KEPT if kept else _NOT_KEPT
    told = [(b"vary", b"accept-encoding"), *headers]
    if file.packed is not None and accepts_gzip(request):
        told.append((b"content-encoding", b"gzip"))
        return PlainAnswer(200, file.packed, file.kind, told, caching)
    return PlainAnswer(200, file.body, file.kind, told, caching)


def accepts_gzip(request: PlainRequest) -> bool:
    """True if the caller says that it reads gzip, by RFC 9110 section 12.5.3."""
    sent = b",".join(value for name, value in request.headers if name == b"accept-encoding")
    for one in sent.lower().split(b","):
        coding, _, weight = one.partition(b";")
        if coding.strip() in {b"gzip", b"*"}:
            return weight.replace(b" ", b"") not in {b"q=0", b"q=0.0", b"q=0.00", b"q=0.000"}
    return False


def packed(body: bytes) -> bytes | None:
    """The same in gzip, alike each time; None if that is no shorter."""
    short = gzip.compress(body, 9, mtime=0)
    return short if len(short) < len(body) else None


@functools.cache
def _assets() -> Mapping[str, Asset]:
    """All files by their names: an installation's do not change."""
    return {
        file.relative_to(FOLDER).as_posix(): read(file)
        for file in sorted(FOLDER.glob("*/*"))
        if file.suffix in _KINDS
    }


def read(file: Path) -> Asset:
    """A file of one of the kinds that pages are made of; KeyError for another."""
    body = file.read_bytes()
    short = packed(body) if file.suffix != ".png" else None
    return Asset(body, short, _KINDS[file.suffix])


@functools.cache
def _release() -> str:
    digest = hashlib.sha256()
    for name, asset in _assets().items():
        digest.update(b"%s\0%d\0%s" % (name.encode(), len(asset.body), asset.body))
    return digest.hexdigest()[:16]
