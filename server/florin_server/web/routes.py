"""Every route of the pages, for the gateway to serve beside its RPCs."""

from __future__ import annotations

from collections.abc import Mapping

from florin_gateway.plain import PlainHandler

from florin_server.flows.app import App
from florin_server.web import assets
from florin_server.web.capture import routes as capture
from florin_server.web.icons import routes as icons
from florin_server.web.openapi import serve as published
from florin_server.web.payments import routes as payments
from florin_server.web.people import routes as people
from florin_server.web.receipts import routes as receipts

_READ = ("GET", "HEAD")
Routes = Mapping[tuple[str, str], PlainHandler]

# browsers of every origin may read these, refusals included
CORS_PATHS = (*published.CORS_PATHS, *receipts.CORS_PATHS)
# what begins like this is no payment link, whether or not there is such a path
RESERVED = (
    *("v1", "versions", "spec", "docs", "healthz", "readyz"),
    *("assets", "console", "icons", "collect", "buy", ".well-known", "robots.txt", "favicon.ico"),
)


def hosted(app: App, consoles: Routes) -> Routes:
    """Pages about payments and buyers, by method and path template: they need the service.

    `consoles` are served beside them, and named where people look for them.
    """
    found = {**payments.routes(app), **receipts.routes(app), **consoles}
    found |= {(method, capture.PATH): handler for method, handler in capture.routes(app).items()}
    read = icons.routes(app)
    found |= {(method, path): read[path] for method in _READ for path in read}
    # those of health are the listener's own
    paths = {path for _, path in (*found, *documents())} | {"/healthz"}
    for method in _READ:
        found[method, "/"] = people.first_page(app, paths, found[method, "/"])
    return found


def documents() -> Routes:
    """Versions, their documents, and files of pages: these need nothing."""
    told = {**published.routes(), **assets.routes(), **people.routes()}
    return {(method, path): told[path] for method in _READ for path in told}
