"""What the pay host answers besides the form: a payment's page, its state, and files for phones."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

import orjson
from florin_gateway.plain import (
    PlainAnswer,
    PlainEvent,
    PlainEvents,
    PlainHandler,
    PlainRequest,
)

from florin_server.config import AppLinkSettings
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments.links import QUERY_ID
from florin_server.domain.payments.payment import Payment
from florin_server.feed import FeedClosed
from florin_server.flows.app import App
from florin_server.flows.payments.checkout import follow, named, progress
from florin_server.rpc.payments.codec import Codec
from florin_server.web.payments.shown import Pages
from florin_server.web.refusal import refusal

_READ = ("GET", "HEAD")
# the ways to write a payment link: phones hand these to an app, and nothing else of the pay host
_LINKS = (
    {"/": "/pay_*"},
    *({"/": path, "?": {QUERY_ID: "?*"}} for path in ("/", "/buy")),
)


def routes(app: App) -> Mapping[tuple[str, str], PlainHandler]:
    """The handlers by method and path."""
    answers = Codec(app)
    pages = Pages(app, answers)
    read = {
        **dict.fromkeys(("/{payment_id}", "/", "/buy"), pages.show),
        "/{payment_id}/state": _state(app, answers),
        **_well_known(app.settings.app_links),
    }
    others = {
        ("GET", "/{payment_id}/events"): _events(app, answers),
        ("POST", "/{payment_id}/test"): pages.drive,
    }
    return {(method, path): read[path] for method in _READ for path in read} | others


def _state(app: App, answers: Codec) -> PlainHandler:
    async def tell(request: PlainRequest) -> PlainAnswer:
        return PlainAnswer.json(_public_status(app, await _known(app, request), answers))

    return tell


def _events(app: App, answers: Codec) -> PlainHandler:
    async def stream(request: PlainRequest) -> PlainEvents:
        after = request.last_event_id()
        payment = await _known(app, request)
        try:
            states, release = follow(app, payment, after, request.peer)
        except FlorinError as over:
            raise refusal(over) from over
        return PlainEvents(_events_of(app, states, answers), release)

    return stream


async def _events_of(
    app: App, states: AsyncIterator[Payment], answers: Codec
) -> AsyncGenerator[PlainEvent, None]:
    # a browser asks again by itself, after the version that it has
    with suppress(FeedClosed):
        async for payment in states:
            told = {**_public_status(app, payment, answers), "version": payment.version}
            yield PlainEvent(payment.version, orjson.dumps(told))


async def _known(app: App, request: PlainRequest) -> Payment:
    """The payment in the path; RefusedError if there is none, or the address asks too often."""
    if wait_s := app.limits.page(request.peer):
        raise refusal(FlorinError(Code.RATE_LIMITED, retry_after_s=wait_s))
    payment = await named(app, request.variables["payment_id"])
    if payment is None:
        raise refusal(FlorinError(Code.PAYMENT_NOT_FOUND))
    return payment


def _public_status(app: App, payment: Payment, answers: Codec) -> dict[str, Any]:
    """What everybody with the link may know; of a chain no more than how far it is."""
    status = answers.status(payment)
    told: dict[str, Any] = {"status": payment.status, "isFinal": status.is_final}
    if status.HasField("poll_in_ms"):
        told["pollInMs"] = status.poll_in_ms
    if (seen := progress(app, payment)) is not None:
        told["confirmations"] = {"seen": seen.seen, "needed": seen.needed}
    return {**told, "expiresAt": payment.expires_at}


def _well_known(apps: AppLinkSettings) -> Mapping[str, PlainHandler]:
    """What phones fetch to know which apps open payment links."""
    ios = {"details": [{"appIDs": apps.ios, "components": _LINKS}] if apps.ios else []}
    android = [
        {
            "relation": ["delegate_permission/common.handle_all_urls"],
            "target": {
                "namespace": "android_app",
                "package_name": one.package,
                "sha256_cert_fingerprints": one.fingerprints,
            },
        }
        for one in apps.android
    ]
    return {
        "/.well-known/apple-app-site-association": _file({"applinks": ios}),
        "/.well-known/assetlinks.json": _file(android),
    }


def _file(content: Any) -> PlainHandler:
    answer = PlainAnswer.json(content)

    async def tell(_request: PlainRequest) -> PlainAnswer:
        return answer

    return tell
