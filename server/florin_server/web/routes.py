"""All routes of pages, which the gateway serves beside its RPCs."""

from __future__ import annotations

from typing import Protocol

from florin_server.api.server.auth import Authenticator
from florin_server.base.context import EventContext, MeterContext
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.features.icons.context import IconContext
from florin_server.limits.context import LimitContext
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.context import UsageContext
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.settings.context import SettingsContext
from florin_server.web import assets
from florin_server.web.capture import routes as capture
from florin_server.web.handlers import READ_METHODS, Routes, build_read_routes
from florin_server.web.icons import routes as icons
from florin_server.web.landing import routes as people
from florin_server.web.openapi import serve as published
from florin_server.web.payments import routes as payments
from florin_server.web.payments import solana_pay
from florin_server.web.receipts import routes as receipts
from florin_server.web.x402 import facilitator
from florin_server.web.x402 import payment as x402_payment


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    IconContext,
    LimitContext,
    MeterContext,
    ScreeningContext,
    SettingsContext,
    StorageContext,
    UsageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


# browsers of every origin can read these, errors included
CORS_PATHS = (
    *published.CORS_PATHS,
    *receipts.CORS_PATHS,
    *solana_pay.CORS_PATHS,
    *x402_payment.CORS_PATHS,
)
# a path with one of these prefixes is not a payment link, even if nothing is served there
RESERVED_PREFIXES = (
    *("v1", "versions", "spec", "docs", "healthz", "readyz"),
    *(
        "assets",
        "console",
        "icons",
        "collect",
        "buy",
        "solana",
        "x402",
        ".well-known",
        "robots.txt",
        "favicon.ico",
    ),
)


def build_page_routes(app: _Context, consoles: Routes, authenticator: Authenticator) -> Routes:
    """Return the routes of pages that need the service, by method and path template.

    `authenticator` is for callers with API keys. `consoles` are served beside them, and the landing
    page links to them.
    """
    routes = {**payments.build_routes(app), **receipts.build_routes(app), **consoles}
    routes |= {
        (method, capture.PATH): handler for method, handler in capture.build_routes(app).items()
    }
    routes |= x402_payment.build_routes(app)
    link = ("GET", "/{payment_id}")
    routes[link] = x402_payment.make_link_handler(app, routes[link])
    routes |= facilitator.build_routes(app, authenticator)
    routes |= build_read_routes(icons.build_routes(app))
    # the listener itself serves the health check
    paths = {path for _, path in (*routes, *build_document_routes())} | {"/healthz"}
    for method in READ_METHODS:
        routes[method, "/"] = people.make_landing_handler(app, paths, routes[method, "/"])
    return routes


def build_document_routes() -> Routes:
    """Return the routes of versions, documents and static files, which need no service."""
    return build_read_routes(
        {**published.build_routes(), **assets.build_routes(), **people.build_routes()}
    )
