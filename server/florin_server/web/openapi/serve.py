"""Serves the published versions, their documents, and the pages that show them."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
from florin_gateway.errors import RefusedError
from florin_gateway.plain import PlainAnswer, PlainHandler, PlainRequest

from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.versions import PREVIEW, STABLE, check_published
from florin_server.web import assets
from florin_server.web.openapi import DOCUMENT
from florin_server.web.refusal import refusal
from florin_server.web.render import html

# browsers of every origin may read these, refusals included
CORS_PATHS = ("/versions", "/spec/*")

_OWN = Path(__file__).with_name("page")
# carries the files of Swagger UI; it is not imported, as it would want a web framework
_CARRIER = "flask_swagger_ui"
# the parameter that tells one content of a file from another
_VERSION = "v"
_FILES = frozenset(
    (
        "favicon-32x32.png",
        "start.js",
        "swagger-ui-bundle.js",
        "swagger-ui-standalone-preset.js",
        "swagger-ui.css",
    )
)
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
_HOST = re.compile(rb"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")


def routes() -> Mapping[str, PlainHandler]:
    """The handlers by path template."""
    return {
        "/versions": _versions,
        "/spec/{version}/openapi.json": _document,
        "/docs": _page,
        "/docs/{file}": _file,
    }


async def _versions(_request: PlainRequest) -> PlainAnswer:
    return PlainAnswer.json({"stable": STABLE, "preview": PREVIEW})


async def _document(request: PlainRequest) -> PlainAnswer:
    version = request.variables["version"]
    try:
        check_published(version)
    except FlorinError as error:
        raise refusal(error) from error
    told = _stored_document()
    address = {"servers": [{"url": _address(request)}]}
    return PlainAnswer.json({**told, "info": {**told["info"], "version": version}, **address})


@functools.cache
def _stored_document() -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads(DOCUMENT.read_bytes())
    return document


def _address(request: PlainRequest) -> str:
    """Where the caller found this, as far as it says so; else its own place, whatever that is."""
    sent = dict(request.headers)
    host = sent.get(b"host", b"")
    if not _HOST.fullmatch(host):
        return "/"
    return f"{request.scheme}://{host.decode('ascii')}"


async def _page(_request: PlainRequest) -> PlainAnswer:
    if not is_installed():
        return html("openapi/missing.html", 404, _HEADERS)
    return html("openapi/docs.html", 200, _HEADERS, file=_address_of)


async def _file(request: PlainRequest) -> PlainAnswer:
    name = request.variables["file"]
    found = _read(name) if name in _FILES else None
    if found is None:
        raise RefusedError(404, Code.INVALID_PARAMS, "Path not found")
    kept = _digest(found.body) in {value for _, value in request.query}
    return assets.answer(request, found, kept=kept, headers=_HEADERS)


def _address_of(name: str) -> str:
    """Where the page finds one of its files; another one if the file is another."""
    found = _read(name)
    return f"/docs/{name}" + (f"?{_VERSION}={_digest(found.body)}" if found else "")


@functools.cache
def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:16]


@functools.cache
def _read(name: str) -> assets.Asset | None:
    found = (folder / name for folder in _folders() if (folder / name).is_file())
    file = next(found, None)
    return assets.read(file) if file else None


def _folders() -> Iterator[Path]:
    yield _OWN
    if (dist := _swagger_ui()) is not None:
        yield dist


def is_installed() -> bool:
    """True if the page has what it shows documents with."""
    return _swagger_ui() is not None


def _swagger_ui() -> Path | None:
    """The folder with Swagger UI; None if it is not installed."""
    found = importlib.util.find_spec(_CARRIER)
    if found is None or not found.submodule_search_locations:
        return None
    dist = Path(found.submodule_search_locations[0]) / "dist"
    return dist if dist.is_dir() else None
