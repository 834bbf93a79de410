"""Every route of the pages, for the gateway to serve beside its RPCs."""

from __future__ import annotations

from collections.abc import Mapping

from florin_gateway.plain import PlainHandler

from florin_server.flows.app import App
from florin_server.web import assets
from florin_server.web.capture import routes as capture
from florin_server.web.openapi import serve as published
from florin_server.web.payments import routes as payments

Routes = Mapping[tuple[str, str], PlainHandler]

# browsers of every origin may read these, refusals included
CORS_PATHS = published.CORS_PATHS
# what begins like this is no payment link, whether or not there is such a path
RESERVED = (
    *("v1", "versions", "spec", "docs", "healthz", "readyz"),
    *("assets", "console", "icons", "collect", "buy", ".well-known"),
)


def hosted(app: App) -> Routes:
    """Pages about payments and buyers, by method and path template: they need the service."""
    form = {(method, capture.PATH): handler for method, handler in capture.routes(app).items()}
    return {**payments.routes(app), **form}


def documents() -> Routes:
    """Versions, their documents, and files of pages: these need nothing."""
    told = {**published.routes(), **assets.routes()}
    return {(method, path): told[path] for method in ("GET", "HEAD") for path in told}
