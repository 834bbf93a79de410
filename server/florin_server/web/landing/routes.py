"""The landing page, and files that browsers and crawlers request from every host."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final, Protocol
from urllib.parse import urlsplit

from grpc_rest_gateway.plain import (
    PlainEvents,
    PlainHandler,
    PlainRequest,
    PlainResponse,
    is_page_request,
)

from florin_server.domain.payments.links import PAYMENT_ID_PARAMETER
from florin_server.limits.context import LimitContext
from florin_server.settings.context import SettingsContext
from florin_server.web import assets
from florin_server.web.error_pages import render_rate_limit_page
from florin_server.web.handlers import NOSNIFF, make_constant_handler
from florin_server.web.landing import page
from florin_server.web.openapi.serve import is_swagger_ui_installed


class _Context(LimitContext, SettingsContext, Protocol):
    """The parts of the application that this module uses."""


# in the order of the page; links to paths that are not served are left out
_LINKS: Final = (
    page.LandingLink("/console", "console"),
    page.LandingLink("/docs", "docs"),
    page.LandingLink("/versions", "versions"),
    page.LandingLink("/healthz", "health"),
)
# search engines must not list payments
_ROBOTS: Final = PlainResponse(
    200, b"User-agent: *\nDisallow: /\n", "text/plain", (), b"public, max-age=86400"
)


def make_landing_handler(
    app: _Context, paths: Container[str], payment_handler: PlainHandler
) -> PlainHandler:
    """Return the handler of "/": the payment in the query, else the landing page for people.

    `paths` are all paths that are served; `payment_handler` answers all other requests.
    """
    landing_page = page.LandingPage(
        app.settings.site_name or urlsplit(app.links.base_url).hostname or "Florin",
        app.settings.has_live,
        [
            link
            for link in _LINKS
            if link.path in paths and (link.path != "/docs" or is_swagger_ui_installed())
        ],
    )

    async def show(request: PlainRequest) -> PlainResponse | PlainEvents:
        named = any(name == PAYMENT_ID_PARAMETER for name, _ in request.query)
        if named or not is_page_request(request.method, request.headers):
            return await payment_handler(request)
        if wait_s := app.limits.count_page(request.peer):
            return render_rate_limit_page(request, wait_s)
        return page.render_landing(landing_page, request)

    return show


def build_routes() -> Mapping[str, PlainHandler]:
    """Return the handlers by path of files that need no service."""
    icon = PlainResponse(
        200,
        (assets.FOLDER / "site/icon.png").read_bytes(),
        "image/png",
        (NOSNIFF,),
        b"public, max-age=86400",
    )
    return {
        "/robots.txt": make_constant_handler(_ROBOTS),
        "/favicon.ico": make_constant_handler(icon),
    }
