"""What a partner's back end asks about webhooks: who is told of changes, and what became of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Unpack

from florin.v1.webhook_pb2 import (
    CreateWebhookEndpointRequest,
    DeleteWebhookEndpointRequest,
    DeleteWebhookEndpointResponse,
    GetWebhookEndpointRequest,
    ListWebhookAttemptsRequest,
    ListWebhookAttemptsResponse,
    ListWebhookEndpointsRequest,
    ListWebhookEndpointsResponse,
    ReplayWebhookRequest,
    ReplayWebhookResponse,
    ReplayWebhooksSinceRequest,
    ReplayWebhooksSinceResponse,
    RotateWebhookSecretRequest,
    TakeWebhooksRequest,
    TakeWebhooksResponse,
    UpdateWebhookEndpointRequest,
    WebhookEndpoint,
    WebhookEndpointSecret,
    WebhookEvents,
    WebhookReceipt,
)

from florin_client.calls.paging import Listing
from florin_client.calls.rpc import Call, Options, Rpc
from florin_client.calls.values import timestamp_of

_NAME = "WebhookService"
_CREATE = Rpc(_NAME, "CreateWebhookEndpoint", CreateWebhookEndpointRequest, WebhookEndpointSecret)
_LIST = Rpc(
    _NAME, "ListWebhookEndpoints", ListWebhookEndpointsRequest, ListWebhookEndpointsResponse
)
_GET = Rpc(_NAME, "GetWebhookEndpoint", GetWebhookEndpointRequest, WebhookEndpoint)
_UPDATE = Rpc(_NAME, "UpdateWebhookEndpoint", UpdateWebhookEndpointRequest, WebhookEndpoint)
_DELETE = Rpc(
    _NAME, "DeleteWebhookEndpoint", DeleteWebhookEndpointRequest, DeleteWebhookEndpointResponse
)
_ROTATE = Rpc(_NAME, "RotateWebhookSecret", RotateWebhookSecretRequest, WebhookEndpointSecret)
_ATTEMPTS = Rpc(
    _NAME, "ListWebhookAttempts", ListWebhookAttemptsRequest, ListWebhookAttemptsResponse
)
_REPLAY = Rpc(_NAME, "ReplayWebhook", ReplayWebhookRequest, ReplayWebhookResponse)
_REPLAY_SINCE = Rpc(
    _NAME, "ReplayWebhooksSince", ReplayWebhooksSinceRequest, ReplayWebhooksSinceResponse
)
_TAKE = Rpc(_NAME, "TakeWebhooks", TakeWebhooksRequest, TakeWebhooksResponse)


def create_webhook_endpoint(
    *,
    url: str = "",
    merchant_id: str | None = None,
    events: Iterable[str] = (),
    description: str = "",
    **options: Unpack[Options],
) -> Call[WebhookEndpointSecret]:
    """Creates an endpoint; its secret is told here and never again.

    Without `merchant_id` it hears of all merchants of the partner, without `events` of everything.
    One without `url` is asked for what waits, by `take_webhooks`.
    """
    request = CreateWebhookEndpointRequest(
        url=url, merchant_id=merchant_id, events=events, description=description
    )
    return _CREATE(request, options)


def list_webhook_endpoints(
    *, merchant_id: str | None = None, **options: Unpack[Options]
) -> Listing[ListWebhookEndpointsResponse, WebhookEndpoint]:
    """Lists endpoints of the partner and of its merchants, or of one merchant, page by page."""
    request = ListWebhookEndpointsRequest(merchant_id=merchant_id)
    return Listing(_LIST, request, options, _endpoints, _cursor)


def get_webhook_endpoint(endpoint_id: str, **options: Unpack[Options]) -> Call[WebhookEndpoint]:
    """Tells one endpoint, with what the signatures `v1a` are verified with."""
    return _GET(GetWebhookEndpointRequest(id=endpoint_id), options)


def update_webhook_endpoint(
    endpoint_id: str,
    *,
    url: str | None = None,
    events: Iterable[str] | None = None,
    description: str | None = None,
    paused: bool | None = None,
    **options: Unpack[Options],
) -> Call[WebhookEndpoint]:
    """Changes an endpoint; what is None stays. With `paused` False everything waiting is told."""
    request = UpdateWebhookEndpointRequest(
        id=endpoint_id,
        url=url,
        events=None if events is None else WebhookEvents(types=events),
        description=description,
        paused=paused,
    )
    return _UPDATE(request, options)


def delete_webhook_endpoint(
    endpoint_id: str, **options: Unpack[Options]
) -> Call[DeleteWebhookEndpointResponse]:
    """Deletes an endpoint, and all that waits for it."""
    return _DELETE(DeleteWebhookEndpointRequest(id=endpoint_id), options)


def rotate_webhook_secret(
    endpoint_id: str, *, overlap_seconds: int | None = None, **options: Unpack[Options]
) -> Call[WebhookEndpointSecret]:
    """Gives an endpoint a new secret; for a day, or the overlap, those before it sign too."""
    request = RotateWebhookSecretRequest(id=endpoint_id, overlap_seconds=overlap_seconds)
    return _ROTATE(request, options)


def list_webhook_attempts(
    endpoint_id: str, *, payment_id: str | None = None, **options: Unpack[Options]
) -> Call[ListWebhookAttemptsResponse]:
    """Lists an endpoint's last attempts, newest first: all, or those about one payment."""
    return _ATTEMPTS(ListWebhookAttemptsRequest(id=endpoint_id, payment_id=payment_id), options)


def replay_webhook(
    endpoint_id: str, *, payment_id: str, from_version: int = 0, **options: Unpack[Options]
) -> Call[ReplayWebhookResponse]:
    """Has an endpoint told the changes of a payment again, under the ids that they had."""
    request = ReplayWebhookRequest(id=endpoint_id, payment_id=payment_id, from_version=from_version)
    return _REPLAY(request, options)


def replay_webhooks_since(
    endpoint_id: str,
    *,
    since: dt.datetime,
    events: Iterable[str] = (),
    cursor: str | None = None,
    **options: Unpack[Options],
) -> Call[ReplayWebhooksSinceResponse]:
    """Has an endpoint told one page of all events since a time again, or of some types of them.

    Ask again with the answer's `next_cursor` as `cursor`, until there is none.
    """
    request = ReplayWebhooksSinceRequest(
        id=endpoint_id, since=timestamp_of(since), events=events, cursor=cursor
    )
    return _REPLAY_SINCE(request, options)


def take_webhooks(
    endpoint_id: str,
    *,
    receipts: Iterable[WebhookReceipt] = (),
    max_wait_ms: int = 0,
    **options: Unpack[Options],
) -> Call[TakeWebhooksResponse]:
    """Takes what waits for an endpoint without a URL, and says what became of what came before."""
    request = TakeWebhooksRequest(id=endpoint_id, receipts=receipts, max_wait_ms=max_wait_ms)
    return _TAKE(request, options)


def _endpoints(page: ListWebhookEndpointsResponse) -> Iterable[WebhookEndpoint]:
    return page.endpoints


def _cursor(page: ListWebhookEndpointsResponse) -> str | None:
    return page.next_cursor if page.HasField("next_cursor") else None
