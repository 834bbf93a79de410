"""Routes of the pay host: the checkout page, its status, and files for phones."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, Protocol

import orjson
from grpc_rest_gateway.plain import (
    PlainEvent,
    PlainEvents,
    PlainHandler,
    PlainRequest,
    PlainResponse,
)

from florin_server.api.payments.codec import PaymentCodec
from florin_server.base.context import EventContext, MeterContext
from florin_server.base.feed import FeedClosed
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.links import PAYMENT_ID_PARAMETER
from florin_server.domain.payments.payment import Payment
from florin_server.features.icons.context import IconContext
from florin_server.limits.context import LimitContext
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.context import UsageContext
from florin_server.money.payments.service.checkout import (
    find_payment,
    find_processing_s,
    find_progress,
    follow,
)
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.settings import AppLinkSettings
from florin_server.settings.context import SettingsContext
from florin_server.web.handlers import Routes, build_read_routes, make_constant_handler
from florin_server.web.payments import solana_pay
from florin_server.web.payments.send import find_received
from florin_server.web.payments.views import CheckoutPages
from florin_server.web.refusal import check_page_rate, to_refused_error


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


# the forms of a payment link: phones open these in an app, and no other path of the pay host
_LINKS = (
    {"/": "/pay_*"},
    *({"/": path, "?": {PAYMENT_ID_PARAMETER: "?*"}} for path in ("/", "/buy")),
)


def build_routes(app: _Context) -> Routes:
    """Return the handlers by method and path."""
    answers = PaymentCodec(app)
    pages = CheckoutPages(app, answers)
    read = {
        **dict.fromkeys(("/{payment_id}", "/", "/buy"), pages.show),
        "/{payment_id}/state": _make_state_handler(app, answers),
        **_build_well_known_routes(app.settings.app_links),
    }
    single_method_routes = {
        ("GET", "/{payment_id}/events"): _make_events_handler(app, answers),
        ("POST", "/{payment_id}/addresses"): pages.open_address,
        ("POST", "/{payment_id}/claims"): pages.claim_deposit,
        ("POST", "/{payment_id}/transfers"): pages.open_transfer,
        ("POST", "/{payment_id}/test"): pages.run_test_action,
    }
    return {
        **build_read_routes(read),
        **single_method_routes,
        **solana_pay.build_routes(app, answers),
    }


def _make_state_handler(app: _Context, codec: PaymentCodec) -> PlainHandler:
    async def tell(request: PlainRequest) -> PlainResponse:
        payment = await _get_payment(app, request)
        state = _build_public_status(app, payment, codec)
        if (received := await find_received(app, payment)) is not None:
            state["received"] = received
        return PlainResponse.from_json(state)

    return tell


def _make_events_handler(app: _Context, codec: PaymentCodec) -> PlainHandler:
    async def stream(request: PlainRequest) -> PlainEvents:
        after = request.parse_last_event_id()
        payment = await _get_payment(app, request)
        try:
            states, release = follow(app, payment, after, request.peer)
        except ApiError as over:
            raise to_refused_error(over) from over
        return PlainEvents(_stream_events(app, states, codec), release)

    return stream


async def _stream_events(
    app: _Context, states: AsyncIterator[Payment], codec: PaymentCodec
) -> AsyncGenerator[PlainEvent, None]:
    # a browser reconnects automatically, and sends the version that it has
    with suppress(FeedClosed):
        async for payment in states:
            state = {**_build_public_status(app, payment, codec), "version": payment.version}
            yield PlainEvent(payment.version, orjson.dumps(state))


async def _get_payment(app: _Context, request: PlainRequest) -> Payment:
    """Return the payment in the path; RefusedError if unknown or above the rate limit."""
    check_page_rate(app, request)
    payment = await find_payment(app, request.variables["payment_id"])
    if payment is None:
        raise to_refused_error(ApiError(ErrorCode.PAYMENT_NOT_FOUND))
    return payment


def _build_public_status(app: _Context, payment: Payment, codec: PaymentCodec) -> dict[str, Any]:
    """Return the status for anyone with the link; of the chain only the confirmations."""
    status = codec.to_status_response(payment)
    public_status: dict[str, Any] = {"status": payment.status, "isFinal": status.is_final}
    if status.HasField("poll_in_ms"):
        public_status["pollInMs"] = status.poll_in_ms
    if (seen := find_progress(app, payment)) is not None:
        public_status["confirmations"] = {
            "seen": seen.confirmations,
            "needed": seen.required_confirmations,
        }
        public_status["isDelayed"] = seen.is_delayed
    if (usual_s := find_processing_s(app, payment)) is not None:
        public_status["usualS"] = usual_s
    return {**public_status, "expiresAt": payment.expires_at}


def _build_well_known_routes(apps: AppLinkSettings) -> Mapping[str, PlainHandler]:
    """Return the files by which phones know the apps that open payment links."""
    ios = {"details": [{"appIDs": apps.ios, "components": _LINKS}] if apps.ios else []}
    android = [
        {
            "relation": ["delegate_permission/common.handle_all_urls"],
            "target": {
                "namespace": "android_app",
                "package_name": android_app.package,
                "sha256_cert_fingerprints": android_app.fingerprints,
            },
        }
        for android_app in apps.android
    ]
    return {
        path: make_constant_handler(PlainResponse.from_json(content))
        for path, content in (
            ("/.well-known/apple-app-site-association", {"applinks": ios}),
            ("/.well-known/assetlinks.json", android),
        )
    }
