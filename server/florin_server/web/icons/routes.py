"""Merchants' pictures from this host, so that buyers' browsers contact no other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Protocol

from grpc_rest_gateway.errors import RefusedError
from grpc_rest_gateway.plain import PlainHandler, PlainRequest, PlainResponse

from florin_server.domain.errors import ErrorCode
from florin_server.features.icons.context import IconContext
from florin_server.limits.context import LimitContext
from florin_server.web.handlers import CACHE_FOREVER, NOSNIFF
from florin_server.web.refusal import check_page_rate


class _Context(IconContext, LimitContext, Protocol):
    """The parts of the application that this module uses."""


PATH: Final = "/icons/{file}"
_SUFFIX: Final = ".png"
_DIGEST: Final = re.compile(r"[0-9a-f]{32,64}", re.ASCII)
_HEADERS: Final = (
    NOSNIFF,
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def build_routes(app: _Context) -> Mapping[str, PlainHandler]:
    """Return the handlers by path template."""

    async def show(request: PlainRequest) -> PlainResponse:
        digest = request.variables["file"].removesuffix(_SUFFIX)
        if not _DIGEST.fullmatch(digest):
            raise RefusedError(404, ErrorCode.INVALID_PARAMS, "Path not found")
        # pictures in memory cost nothing, and count in no rate limit
        if not app.icons.is_cached(digest):
            check_page_rate(app, request)
        png = await app.icons.find_picture(digest)
        if png is None:
            raise RefusedError(404, ErrorCode.INVALID_PARAMS, "Path not found")
        return PlainResponse(200, png, "image/png", _HEADERS, CACHE_FOREVER)

    return {PATH: show}
