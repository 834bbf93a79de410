"""Styles, scripts and pictures of pages: files beside this module, compressed once.

Their addresses bear a digest of all of them, so that browsers may keep them for good: whatever
changes has another address. A page of another release finds what this one has, not kept.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
from collections.abc import Mapping
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
_KEPT: Final = b"public, max-age=31536000, immutable"
_NOT_KEPT: Final = b"no-cache"


@dataclass(frozen=True, slots=True)
class _Asset:
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
    kept = _KEPT if asked["release"] == _release() else _NOT_KEPT
    headers = [
        (b"vary", b"accept-encoding"),
        (b"x-content-type-options", b"nosniff"),
        # pictures that are shown by themselves run nothing either
        (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'"),
    ]
    if found.packed is not None and accepts_gzip(request):
        packed = (*headers, (b"content-encoding", b"gzip"))
        return PlainAnswer(200, found.packed, found.kind, packed, kept)
    return PlainAnswer(200, found.body, found.kind, headers, kept)


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
def _assets() -> Mapping[str, _Asset]:
    """All files by their names: an installation's do not change."""
    return {
        file.relative_to(FOLDER).as_posix(): _read(file)
        for file in sorted(FOLDER.glob("*/*"))
        if file.suffix in _KINDS
    }


def _read(file: Path) -> _Asset:
    body = file.read_bytes()
    short = packed(body) if file.suffix != ".png" else None
    return _Asset(body, short, _KINDS[file.suffix])


@functools.cache
def _release() -> str:
    digest = hashlib.sha256()
    for name, asset in _assets().items():
        digest.update(b"%s\0%d\0%s" % (name.encode(), len(asset.body), asset.body))
    return digest.hexdigest()[:16]
