"""Styles, scripts, pictures and the font of pages: files beside this module, compressed once.

Their addresses contain a digest of all files, so that browsers can cache them forever: a change has
a new address. A page of another release gets this release's file, uncached.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from grpc_rest_gateway.errors import RefusedError
from grpc_rest_gateway.plain import PlainHandler, PlainRequest, PlainResponse

from florin_server.domain.errors import ErrorCode
from florin_server.web.handlers import CACHE_FOREVER, NOSNIFF

FOLDER: Final = Path(__file__).with_name("static")
PATH: Final = "/assets/{release}/{noun}/{file}"
_CONTENT_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
}
# formats that are compressed already
_COMPRESSED: Final = frozenset({".png", ".woff2"})
_HEADERS: Final = (
    NOSNIFF,
    # a picture that is opened on its own runs no script either
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'"),
)
# a block ends its last line; one before code on the same line stays, as type checkers need it
_SCRIPT_COMMENT: Final = re.compile(
    rb"^[ ]*(?://[^\n]*|/\*(?:(?!\*/).)*\*/[ ]*)\n", re.MULTILINE | re.DOTALL
)
_INDENT: Final = re.compile(rb"^ +", re.MULTILINE)
_COMMENT: Final = re.compile(rb"/\*.*?\*/", re.DOTALL)
_SPACES: Final = re.compile(rb"\s+")
_AROUND_MARKS: Final = re.compile(rb" ?([{};,]) ?")
_PROPERTY: Final = re.compile(rb"(?<=[{;])(-?-?[a-z][a-z0-9-]*): ")
_NO_CACHE: Final = b"no-cache"


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file as it is sent; `gzip_body` is None if gzip saves nothing."""

    body: bytes
    gzip_body: bytes | None
    content_type: str


def get_asset_url(name: str) -> str:
    """Return the address of a file in `static` such as "site/site.css"; KeyError if missing."""
    _load_files()[name]
    return f"/assets/{_compute_release()}/{name}"


def build_data_url(name: str) -> str:
    """Return the contents of a file in `static` as a `data:` URL, which costs no request."""
    file = _load_files()[name]
    return f"data:{file.content_type};base64,{base64.b64encode(file.body).decode()}"


def build_routes() -> Mapping[str, PlainHandler]:
    """Return the handlers by path template."""
    return {PATH: _serve_asset}


async def _serve_asset(request: PlainRequest) -> PlainResponse:
    variables = request.variables
    file = _load_files().get(f"{variables['noun']}/{variables['file']}")
    if file is None:
        raise RefusedError(404, ErrorCode.INVALID_PARAMS, "Path not found")
    return build_file_response(
        request, file, is_immutable=variables["release"] == _compute_release(), headers=_HEADERS
    )


def build_file_response(
    request: PlainRequest,
    file: StaticFile,
    *,
    is_immutable: bool,
    headers: Sequence[tuple[bytes, bytes]],
) -> PlainResponse:
    """Return a file, in gzip if the caller accepts it; caches keep immutable ones forever."""
    caching = CACHE_FOREVER if is_immutable else _NO_CACHE
    response_headers = [(b"vary", b"accept-encoding"), *headers]
    if file.gzip_body is not None and accepts_gzip(request):
        response_headers.append((b"content-encoding", b"gzip"))
        return PlainResponse(200, file.gzip_body, file.content_type, response_headers, caching)
    return PlainResponse(200, file.body, file.content_type, response_headers, caching)


def accepts_gzip(request: PlainRequest) -> bool:
    """Return True if the caller accepts gzip, by RFC 9110 section 12.5.3."""
    sent = b",".join(request.list_header_values(b"accept-encoding"))
    for element in sent.lower().split(b","):
        coding, _, weight = element.partition(b";")
        if coding.strip() in {b"gzip", b"*"}:
            return weight.replace(b" ", b"") not in {b"q=0", b"q=0.0", b"q=0.00", b"q=0.000"}
    return False


def compress(body: bytes) -> bytes | None:
    """Return a body in gzip, equal each time; None if that is not shorter."""
    short = gzip.compress(body, 9, mtime=0)
    return short if len(short) < len(body) else None


@functools.cache
def _load_files() -> Mapping[str, StaticFile]:
    """Return all files by name; an installation's files do not change."""
    return {
        file.relative_to(FOLDER).as_posix(): _read_own_file(file)
        for file in sorted(FOLDER.glob("*/*"))
        if file.suffix in _CONTENT_TYPES
    }


def _read_own_file(file: Path) -> StaticFile:
    """Return a file of this package, a style or script without comments and needless spaces."""
    compact = _COMPACTORS.get(file.suffix, bytes)
    return _to_static_file(compact(file.read_bytes()), file.suffix)


def read_file(file: Path) -> StaticFile:
    """Return a file of a known content type, unchanged; KeyError for another type."""
    return _to_static_file(file.read_bytes(), file.suffix)


def _to_static_file(body: bytes, suffix: str) -> StaticFile:
    short = compress(body) if suffix not in _COMPRESSED else None
    return StaticFile(body, short, _CONTENT_TYPES[suffix])


def compact_style(style: bytes) -> bytes:
    """Return a style sheet without comments and needless spaces.

    Its texts in quotes must contain no two spaces, and no space beside a mark of the syntax.
    """
    text = _SPACES.sub(b" ", _COMMENT.sub(b"", style))
    # a space before a colon can be part of a selector, one after a property cannot
    compacted = _PROPERTY.sub(rb"\1:", _AROUND_MARKS.sub(rb"\1", text))
    return compacted.replace(b";}", b"}").strip()


def strip_script(script: bytes) -> bytes:
    """Return a script without indentation, and without the comments that have lines of their own.

    Texts in backquotes must end on the line on which they begin.
    """
    return _INDENT.sub(b"", _SCRIPT_COMMENT.sub(b"", script))


_COMPACTORS: Final = {".css": compact_style, ".js": strip_script}


@functools.cache
def _compute_release() -> str:
    digest = hashlib.sha256()
    for name, asset in _load_files().items():
        digest.update(b"%s\0%d\0%s" % (name.encode(), len(asset.body), asset.body))
    return digest.hexdigest()[:16]
