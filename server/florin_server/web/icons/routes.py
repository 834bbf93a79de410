"""Merchants' pictures from our host: no buyer's browser asks anybody else for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from florin_gateway.errors import RefusedError
from florin_gateway.plain import PlainAnswer, PlainHandler, PlainRequest

from florin_server.domain.errors import Code, FlorinError
from florin_server.flows.app import App
from florin_server.web.refusal import refusal

PATH: Final = "/icons/{file}"
_SUFFIX: Final = ".png"
_DIGEST: Final = re.compile(r"[0-9a-f]{32,64}", re.ASCII)
_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
# the address is the picture's own: another picture has another one
_KEPT: Final = b"public, max-age=31536000, immutable"


def routes(app: App) -> Mapping[str, PlainHandler]:
    """The handlers by path template."""

    async def show(request: PlainRequest) -> PlainAnswer:
        digest = request.variables["file"].removesuffix(_SUFFIX)
        if not _DIGEST.fullmatch(digest):
            raise RefusedError(404, Code.INVALID_PARAMS, "Path not found")
        # what is in memory costs nothing
        if not app.icons.remembers(digest) and (wait_s := app.limits.page(request.peer)):
            raise refusal(FlorinError(Code.RATE_LIMITED, retry_after_s=wait_s))
        png = await app.icons.picture(digest)
        if png is None:
            raise RefusedError(404, Code.INVALID_PARAMS, "Path not found")
        return PlainAnswer(200, png, "image/png", _HEADERS, _KEPT)

    return {PATH: show}
