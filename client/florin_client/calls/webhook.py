"""Calls of a partner's back end about webhooks: endpoints, attempts, replays."""

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

from florin_client.calls.paging import PagedQuery
from florin_client.calls.rpc import CallOptions, RpcCall, RpcSpec
from florin_client.calls.values import to_timestamp

_SERVICE_NAME = "WebhookService"
_CREATE = RpcSpec(
    _SERVICE_NAME, "CreateWebhookEndpoint", CreateWebhookEndpointRequest, WebhookEndpointSecret
)
_LIST = RpcSpec(
    _SERVICE_NAME, "ListWebhookEndpoints", ListWebhookEndpointsRequest, ListWebhookEndpointsResponse
)
_GET = RpcSpec(_SERVICE_NAME, "GetWebhookEndpoint", GetWebhookEndpointRequest, WebhookEndpoint)
_UPDATE = RpcSpec(
    _SERVICE_NAME, "UpdateWebhookEndpoint", UpdateWebhookEndpointRequest, WebhookEndpoint
)
_DELETE = RpcSpec(
    _SERVICE_NAME,
    "DeleteWebhookEndpoint",
    DeleteWebhookEndpointRequest,
    DeleteWebhookEndpointResponse,
)
_ROTATE = RpcSpec(
    _SERVICE_NAME, "RotateWebhookSecret", RotateWebhookSecretRequest, WebhookEndpointSecret
)
_ATTEMPTS = RpcSpec(
    _SERVICE_NAME, "ListWebhookAttempts", ListWebhookAttemptsRequest, ListWebhookAttemptsResponse
)
_REPLAY = RpcSpec(_SERVICE_NAME, "ReplayWebhook", ReplayWebhookRequest, ReplayWebhookResponse)
_REPLAY_SINCE = RpcSpec(
    _SERVICE_NAME, "ReplayWebhooksSince", ReplayWebhooksSinceRequest, ReplayWebhooksSinceResponse
)
_TAKE = RpcSpec(_SERVICE_NAME, "TakeWebhooks", TakeWebhooksRequest, TakeWebhooksResponse)


def create_webhook_endpoint(
    *,
    url: str = "",
    merchant_id: str | None = None,
    events: Iterable[str] = (),
    description: str = "",
    **options: Unpack[CallOptions],
) -> RpcCall[WebhookEndpointSecret]:
    """Create an endpoint; its secret is returned only here.

    Without `merchant_id` it receives events of all merchants of the partner, without `events` the
    default types. An endpoint without a `url` delivers its events to `take_webhooks`.
    """
    request = CreateWebhookEndpointRequest(
        url=url, merchant_id=merchant_id, events=events, description=description
    )
    return _CREATE(request, options)


def list_webhook_endpoints(
    *, merchant_id: str | None = None, **options: Unpack[CallOptions]
) -> PagedQuery[ListWebhookEndpointsResponse, WebhookEndpoint]:
    """List the endpoints of the partner and its merchants, or of one merchant, page by page."""
    request = ListWebhookEndpointsRequest(merchant_id=merchant_id)
    return PagedQuery(_LIST, request, options, _get_endpoints, _find_cursor)


def get_webhook_endpoint(
    endpoint_id: str, **options: Unpack[CallOptions]
) -> RpcCall[WebhookEndpoint]:
    """Return one endpoint, with the keys that verify its `v1a` signatures."""
    return _GET(GetWebhookEndpointRequest(id=endpoint_id), options)


def update_webhook_endpoint(
    endpoint_id: str,
    *,
    url: str | None = None,
    events: Iterable[str] | None = None,
    description: str | None = None,
    paused: bool | None = None,
    **options: Unpack[CallOptions],
) -> RpcCall[WebhookEndpoint]:
    """Change an endpoint; None keeps a value. `paused` False delivers all queued events."""
    request = UpdateWebhookEndpointRequest(
        id=endpoint_id,
        url=url,
        events=None if events is None else WebhookEvents(types=events),
        description=description,
        paused=paused,
    )
    return _UPDATE(request, options)


def delete_webhook_endpoint(
    endpoint_id: str, **options: Unpack[CallOptions]
) -> RpcCall[DeleteWebhookEndpointResponse]:
    """Delete an endpoint and its queued deliveries."""
    return _DELETE(DeleteWebhookEndpointRequest(id=endpoint_id), options)


def rotate_webhook_secret(
    endpoint_id: str, *, overlap_seconds: int | None = None, **options: Unpack[CallOptions]
) -> RpcCall[WebhookEndpointSecret]:
    """Rotate the secret of an endpoint; previous secrets sign too for a day, or the overlap."""
    request = RotateWebhookSecretRequest(id=endpoint_id, overlap_seconds=overlap_seconds)
    return _ROTATE(request, options)


def list_webhook_attempts(
    endpoint_id: str, *, payment_id: str | None = None, **options: Unpack[CallOptions]
) -> RpcCall[ListWebhookAttemptsResponse]:
    """List the last attempts of an endpoint, newest first: all, or those of one payment."""
    return _ATTEMPTS(ListWebhookAttemptsRequest(id=endpoint_id, payment_id=payment_id), options)


def replay_webhook(
    endpoint_id: str, *, payment_id: str, from_version: int = 0, **options: Unpack[CallOptions]
) -> RpcCall[ReplayWebhookResponse]:
    """Deliver the changes of a payment to an endpoint again, with their original event ids."""
    request = ReplayWebhookRequest(id=endpoint_id, payment_id=payment_id, from_version=from_version)
    return _REPLAY(request, options)


def replay_webhooks_since(
    endpoint_id: str,
    *,
    since: dt.datetime,
    events: Iterable[str] = (),
    cursor: str | None = None,
    **options: Unpack[CallOptions],
) -> RpcCall[ReplayWebhooksSinceResponse]:
    """Deliver one page of all events since a time, or of some types, to an endpoint again.

    Repeat the call with the response's `next_cursor` as `cursor`, until it has none.
    """
    request = ReplayWebhooksSinceRequest(
        id=endpoint_id, since=to_timestamp(since), events=events, cursor=cursor
    )
    return _REPLAY_SINCE(request, options)


def take_webhooks(
    endpoint_id: str,
    *,
    receipts: Iterable[WebhookReceipt] = (),
    max_wait_ms: int = 0,
    **options: Unpack[CallOptions],
) -> RpcCall[TakeWebhooksResponse]:
    """Take queued events of an endpoint without a URL, and report the results of earlier ones."""
    request = TakeWebhooksRequest(id=endpoint_id, receipts=receipts, max_wait_ms=max_wait_ms)
    return _TAKE(request, options)


def _get_endpoints(page: ListWebhookEndpointsResponse) -> Iterable[WebhookEndpoint]:
    return page.endpoints


def _find_cursor(page: ListWebhookEndpointsResponse) -> str | None:
    return page.next_cursor if page.HasField("next_cursor") else None
