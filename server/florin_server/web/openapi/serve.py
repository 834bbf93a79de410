"""Serve the published versions, their documents, and the pages that show them."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
from grpc_rest_gateway.errors import RefusedError
from grpc_rest_gateway.plain import PlainHandler, PlainRequest, PlainResponse

from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.versions import PREVIEW_VERSIONS, STABLE_VERSIONS, check_published
from florin_server.web import assets
from florin_server.web.handlers import NOSNIFF
from florin_server.web.openapi import DOCUMENT_PATH
from florin_server.web.refusal import to_refused_error
from florin_server.web.render import render_page

# browsers of every origin can read these, error responses included
CORS_PATHS = ("/versions", "/spec/*")

_OWN_FOLDER = Path(__file__).with_name("page")
# the package with the files of Swagger UI; not imported, because it needs a web framework
_SWAGGER_UI_PACKAGE = "flask_swagger_ui"
# query parameter with the digest of a file, so that a changed file gets a new URL
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
    NOSNIFF,
)
_HOST = re.compile(r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")


def build_routes() -> Mapping[str, PlainHandler]:
    """Return the handlers by path template."""
    return {
        "/versions": _serve_versions,
        "/spec/{version}/openapi.json": _serve_document,
        "/docs": _serve_page,
        "/docs/{file}": _serve_file,
    }


async def _serve_versions(_request: PlainRequest) -> PlainResponse:
    return PlainResponse.from_json({"stable": STABLE_VERSIONS, "preview": PREVIEW_VERSIONS})


async def _serve_document(request: PlainRequest) -> PlainResponse:
    version = request.variables["version"]
    try:
        check_published(version)
    except ApiError as error:
        raise to_refused_error(error) from error
    document = _load_document()
    address = {"servers": [{"url": _get_server_url(request)}]}
    return PlainResponse.from_json(
        {**document, "info": {**document["info"], "version": version}, **address}
    )


@functools.cache
def _load_document() -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads(DOCUMENT_PATH.read_bytes())
    return document


def _get_server_url(request: PlainRequest) -> str:
    """Return the base URL that the caller used, if its Host header is valid; otherwise "/"."""
    host = request.get_header(b"host")
    return f"{request.scheme}://{host}" if _HOST.fullmatch(host) else "/"


async def _serve_page(_request: PlainRequest) -> PlainResponse:
    if not is_swagger_ui_installed():
        return render_page("openapi/missing.html", 404, _HEADERS)
    return render_page("openapi/docs.html", 200, _HEADERS, file=_get_file_url)


async def _serve_file(request: PlainRequest) -> PlainResponse:
    name = request.variables["file"]
    file = _find_file(name) if name in _FILES else None
    if file is None:
        raise RefusedError(404, ErrorCode.INVALID_PARAMS, "Path not found")
    is_immutable = _compute_digest(file.body) in {value for _, value in request.query}
    return assets.build_file_response(request, file, is_immutable=is_immutable, headers=_HEADERS)


def _get_file_url(name: str) -> str:
    """Return the URL of a file of the page; it changes when the content of the file changes."""
    file = _find_file(name)
    return f"/docs/{name}" + (f"?{_VERSION}={_compute_digest(file.body)}" if file else "")


@functools.cache
def _compute_digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:16]


@functools.cache
def _find_file(name: str) -> assets.StaticFile | None:
    paths = (folder / name for folder in _list_folders() if (folder / name).is_file())
    file = next(paths, None)
    return assets.read_file(file) if file else None


def _list_folders() -> Iterator[Path]:
    yield _OWN_FOLDER
    if (dist := _find_swagger_ui()) is not None:
        yield dist


def is_swagger_ui_installed() -> bool:
    """Return True if the files of Swagger UI, which the page needs, are installed."""
    return _find_swagger_ui() is not None


def _find_swagger_ui() -> Path | None:
    """Return the folder of Swagger UI; None if it is not installed."""
    module_spec = importlib.util.find_spec(_SWAGGER_UI_PACKAGE)
    if module_spec is None or not module_spec.submodule_search_locations:
        return None
    dist = Path(module_spec.submodule_search_locations[0]) / "dist"
    return dist if dist.is_dir() else None
