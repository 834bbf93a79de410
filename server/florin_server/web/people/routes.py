"""The first page, and files that browsers and crawlers ask every host for."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final
from urllib.parse import urlsplit

from florin_gateway.plain import (
    PlainAnswer,
    PlainEvents,
    PlainHandler,
    PlainRequest,
    wants_page,
)

from florin_server.domain.payments.links import QUERY_ID
from florin_server.flows.app import App
from florin_server.web import assets
from florin_server.web.notice import too_many
from florin_server.web.openapi.serve import is_installed
from florin_server.web.people import page

# in the order in which they are shown; those that are not served are left out
_LINKS: Final = (
    page.Link("/console", "console"),
    page.Link("/docs", "docs"),
    page.Link("/versions", "versions"),
    page.Link("/healthz", "health"),
)
# payments are nobody's to find
_ROBOTS: Final = PlainAnswer(
    200, b"User-agent: *\nDisallow: /\n", "text/plain", (), b"public, max-age=86400"
)


def first_page(app: App, paths: Container[str], payment: PlainHandler) -> PlainHandler:
    """The handler of "/": the payment that its query names, or for people what runs here.

    `paths` are all that are served, `payment` answers everything else.
    """
    told = page.Landing(
        app.settings.site_name or urlsplit(app.links.base).hostname or "Florin",
        app.settings.has_live,
        [one for one in _LINKS if one.path in paths and (one.path != "/docs" or is_installed())],
    )

    async def show(request: PlainRequest) -> PlainAnswer | PlainEvents:
        named = any(name == QUERY_ID for name, _ in request.query)
        if named or not wants_page(request.method, request.headers):
            return await payment(request)
        if wait_s := app.limits.page(request.peer):
            return too_many(request, wait_s)
        return page.landing(told, request)

    return show


def routes() -> Mapping[str, PlainHandler]:
    """The handlers by path of what needs no service."""
    icon = PlainAnswer(
        200,
        (assets.FOLDER / "site/icon.png").read_bytes(),
        "image/png",
        ((b"x-content-type-options", b"nosniff"),),
        b"public, max-age=86400",
    )
    return {"/robots.txt": _always(_ROBOTS), "/favicon.ico": _always(icon)}


def _always(answer: PlainAnswer) -> PlainHandler:
    async def tell(_request: PlainRequest) -> PlainAnswer:
        return answer

    return tell
