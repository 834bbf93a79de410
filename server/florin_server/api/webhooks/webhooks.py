"""WebhookService: the endpoints that receive events."""

from __future__ import annotations

from typing import Any

from florin.v1 import webhook_pb2, webhook_service_pb2_grpc

from florin_server.api.context import ApiContext
from florin_server.api.server.call import get_caller
from florin_server.api.webhooks import codec
from florin_server.features.webhooks.service import endpoints, replays, take
from florin_server.features.webhooks.service.endpoints import PAGE_SIZE, EndpointActor
from florin_server.features.webhooks.service.message import EventEncoder


def _get_actor() -> EndpointActor:
    """Return the caller; its API version becomes the pin of a new endpoint."""
    caller = get_caller()
    return EndpointActor(caller.required_partner_id, caller.live, caller.credential_status)


class WebhookServicer(webhook_service_pb2_grpc.WebhookServiceServicer):
    """Calls of a partner's back end about its endpoints."""

    def __init__(self, app: ApiContext, encode_event: EventEncoder) -> None:
        self._app = app
        self._encode_event = encode_event

    async def CreateWebhookEndpoint(
        self, request: webhook_pb2.CreateWebhookEndpointRequest, context: Any
    ) -> webhook_pb2.WebhookEndpointSecret:
        """Create an endpoint and return its secret."""
        merchant_id = request.merchant_id if request.HasField("merchant_id") else None
        spec = codec.parse_endpoint_spec(request)
        return codec.to_endpoint_secret(
            await endpoints.create(self._app, _get_actor(), merchant_id, spec)
        )

    async def ListWebhookEndpoints(
        self, request: webhook_pb2.ListWebhookEndpointsRequest, context: Any
    ) -> webhook_pb2.ListWebhookEndpointsResponse:
        """List endpoints."""
        merchant_id = request.merchant_id if request.HasField("merchant_id") else None
        found_endpoints = await endpoints.list_endpoints(
            self._app, _get_actor(), merchant_id, request.cursor
        )
        by_id = await endpoints.list_health(self._app, found_endpoints)
        return webhook_pb2.ListWebhookEndpointsResponse(
            endpoints=[
                codec.to_endpoint(endpoint, health=by_id[endpoint.id])
                for endpoint in found_endpoints
            ],
            next_cursor=found_endpoints[-1].id if len(found_endpoints) == PAGE_SIZE else None,
        )

    async def GetWebhookEndpoint(
        self, request: webhook_pb2.GetWebhookEndpointRequest, context: Any
    ) -> webhook_pb2.WebhookEndpoint:
        """Return one endpoint."""
        endpoint_with_keys = await endpoints.get(self._app, _get_actor(), request.id)
        endpoint = endpoint_with_keys.endpoint
        by_id = await endpoints.list_health(self._app, [endpoint])
        return codec.to_endpoint_with_keys(endpoint_with_keys, by_id[endpoint.id])

    async def UpdateWebhookEndpoint(
        self, request: webhook_pb2.UpdateWebhookEndpointRequest, context: Any
    ) -> webhook_pb2.WebhookEndpoint:
        """Change an endpoint."""
        spec = codec.parse_endpoint_changes(request)
        return codec.to_endpoint_with_keys(
            await endpoints.update(self._app, _get_actor(), request.id, spec)
        )

    async def DeleteWebhookEndpoint(
        self, request: webhook_pb2.DeleteWebhookEndpointRequest, context: Any
    ) -> webhook_pb2.DeleteWebhookEndpointResponse:
        """Delete an endpoint."""
        await endpoints.delete(self._app, _get_actor(), request.id)
        return webhook_pb2.DeleteWebhookEndpointResponse(id=request.id, deleted=True)

    async def RotateWebhookSecret(
        self, request: webhook_pb2.RotateWebhookSecretRequest, context: Any
    ) -> webhook_pb2.WebhookEndpointSecret:
        """Rotate the secret of an endpoint."""
        overlap_s = request.overlap_seconds if request.HasField("overlap_seconds") else None
        return codec.to_endpoint_secret(
            await endpoints.rotate_secret(self._app, _get_actor(), request.id, overlap_s)
        )

    async def ListWebhookAttempts(
        self, request: webhook_pb2.ListWebhookAttemptsRequest, context: Any
    ) -> webhook_pb2.ListWebhookAttemptsResponse:
        """List the last attempts of an endpoint."""
        payment_id = request.payment_id if request.HasField("payment_id") else None
        attempts = await endpoints.list_attempts(self._app, _get_actor(), request.id, payment_id)
        return webhook_pb2.ListWebhookAttemptsResponse(
            attempts=[codec.to_attempt(attempt) for attempt in attempts]
        )

    async def ReplayWebhook(
        self, request: webhook_pb2.ReplayWebhookRequest, context: Any
    ) -> webhook_pb2.ReplayWebhookResponse:
        """Deliver the changes of a payment again."""
        newest = await replays.replay_payment(
            self._app, _get_actor(), request.id, request.payment_id, request.from_version
        )
        return webhook_pb2.ReplayWebhookResponse(payment_id=request.payment_id, to_version=newest)

    async def ReplayWebhooksSince(
        self, request: webhook_pb2.ReplayWebhooksSinceRequest, context: Any
    ) -> webhook_pb2.ReplayWebhooksSinceResponse:
        """Deliver a page of all events since a time again."""
        done = await replays.replay_since(
            self._app, _get_actor(), request.id, codec.parse_replay_spec(request)
        )
        return codec.to_replay_response(done)

    async def TakeWebhooks(
        self, request: webhook_pb2.TakeWebhooksRequest, context: Any
    ) -> webhook_pb2.TakeWebhooksResponse:
        """Return queued events."""
        receipts = codec.parse_receipts(request)
        webhooks = await take.take_events(
            self._app,
            _get_actor(),
            request.id,
            receipts,
            wait_ms=request.max_wait_ms,
            encode_event=self._encode_event,
        )
        return webhook_pb2.TakeWebhooksResponse(
            events=[codec.to_taken_webhook(webhook) for webhook in webhooks]
        )
