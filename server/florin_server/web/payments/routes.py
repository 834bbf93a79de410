"""What the pay host answers besides the form: a payment's page, its state, and files for phones."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from decimal import Decimal
from typing import Any

import orjson
from florin_gateway.errors import RefusedError
from florin_gateway.plain import (
    PlainAnswer,
    PlainEvent,
    PlainEvents,
    PlainHandler,
    PlainRequest,
)

from florin_server.config import AppLinkSettings
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments.links import QUERY_ID, query_id
from florin_server.domain.payments.payment import Payment
from florin_server.flows.app import App
from florin_server.flows.payments.checkout import back_to_shop, checkout, follow, named
from florin_server.rpc.payments.codec import Codec
from florin_server.web.payments import page
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
    read = {
        **dict.fromkeys(("/{payment_id}", "/", "/buy"), _checkout(app, answers)),
        "/{payment_id}/state": _state(app, answers),
        **_well_known(app.settings.app_links),
    }
    events = {("GET", "/{payment_id}/events"): _events(app, answers)}
    return {(method, path): read[path] for method in _READ for path in read} | events


def _checkout(app: App, answers: Codec) -> PlainHandler:
    async def show(request: PlainRequest) -> PlainAnswer:
        if wait_s := app.limits.page(request.peer):
            return page.too_many(wait_s)
        found = await checkout(app, _link(request))
        if found is None:
            return page.unknown()
        payment, merchant = found
        amount = answers.amount(payment.unit, payment.value)
        whole = Decimal(amount.value).scaleb(-amount.display.decimals)
        return page.page(
            page.Checkout(
                merchant=merchant.name,
                amount=f"{whole:f} {amount.display.asset_symbol}",
                status=payment.status,
                link=app.links.of(payment.id),
                live=payment.live,
                back=back_to_shop(payment),
            )
        )

    return show


def _link(request: PlainRequest) -> str:
    """What names the payment; RefusedError where nothing is meant to."""
    if "payment_id" in request.variables:
        return request.variables["payment_id"]
    if all(name != QUERY_ID for name, _ in request.query):
        raise RefusedError(404, Code.INVALID_PARAMS, "Path not found")
    return query_id(request.query)


def _state(app: App, answers: Codec) -> PlainHandler:
    async def tell(request: PlainRequest) -> PlainAnswer:
        return PlainAnswer.json(_public_status(await _known(app, request), answers))

    return tell


def _events(app: App, answers: Codec) -> PlainHandler:
    async def stream(request: PlainRequest) -> PlainEvents:
        after = request.last_event_id()
        payment = await _known(app, request)
        try:
            states, release = follow(app, payment, after, request.peer)
        except FlorinError as over:
            raise refusal(over) from over
        return PlainEvents(_events_of(states, answers), release)

    return stream


async def _events_of(
    states: AsyncIterator[Payment], answers: Codec
) -> AsyncGenerator[PlainEvent, None]:
    async for payment in states:
        told = {**_public_status(payment, answers), "version": payment.version}
        yield PlainEvent(payment.version, orjson.dumps(told))


async def _known(app: App, request: PlainRequest) -> Payment:
    """The payment in the path; RefusedError if there is none, or the address asks too often."""
    if wait_s := app.limits.page(request.peer):
        raise refusal(FlorinError(Code.RATE_LIMITED, retry_after_s=wait_s))
    payment = await named(app, request.variables["payment_id"])
    if payment is None:
        raise refusal(FlorinError(Code.PAYMENT_NOT_FOUND))
    return payment


def _public_status(payment: Payment, answers: Codec) -> dict[str, Any]:
    """What everybody with the link may know: no party of the payment, and nothing of any chain."""
    status = answers.status(payment)
    told = {"status": payment.status, "isFinal": status.is_final}
    if status.HasField("poll_in_ms"):
        told["pollInMs"] = status.poll_in_ms
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
