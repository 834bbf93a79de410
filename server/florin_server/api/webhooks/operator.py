"""The operator's calls about webhooks, for endpoints of any partner."""

from __future__ import annotations

from typing import Any

from florin.v1 import webhook_admin_pb2, webhook_pb2

from florin_server.api.context import ApiContext
from florin_server.api.webhooks import codec
from florin_server.domain.webhooks.endpoint import EndpointState
from florin_server.features.webhooks.service import endpoints, replays
from florin_server.features.webhooks.service.endpoints import PAGE_SIZE


class OperatorWebhookCalls:
    """Endpoints of all partners."""

    _app: ApiContext

    async def CreateWebhookEndpoint(
        self, request: webhook_admin_pb2.CreatePartnerEndpointRequest, context: Any
    ) -> webhook_pb2.WebhookEndpointSecret:
        """Create an endpoint and return its secret."""
        by = await endpoints.get_partner_actor(self._app, request.partner_id, live=request.live)
        endpoint_request = request.endpoint
        merchant_id = (
            endpoint_request.merchant_id if endpoint_request.HasField("merchant_id") else None
        )
        endpoint_with_keys = await endpoints.create(
            self._app, by, merchant_id, codec.parse_endpoint_spec(endpoint_request)
        )
        return codec.to_endpoint_secret(endpoint_with_keys)

    async def ListWebhookEndpoints(
        self, request: webhook_admin_pb2.ListPartnerEndpointsRequest, context: Any
    ) -> webhook_admin_pb2.ListPartnerEndpointsResponse:
        """List endpoints of all partners."""
        found_endpoints = await endpoints.list_endpoints(self._app, None, None, request.cursor)
        by_id = await endpoints.list_health(self._app, found_endpoints)
        return webhook_admin_pb2.ListPartnerEndpointsResponse(
            endpoints=[
                webhook_admin_pb2.PartnerEndpoint(
                    partner_id=endpoint.partner_id,
                    endpoint=codec.to_endpoint(endpoint, health=by_id[endpoint.id]),
                )
                for endpoint in found_endpoints
                if endpoint.state is EndpointState.PAUSED or not request.paused
            ],
            next_cursor=found_endpoints[-1].id if len(found_endpoints) == PAGE_SIZE else "",
        )

    async def UpdateWebhookEndpoint(
        self, request: webhook_pb2.UpdateWebhookEndpointRequest, context: Any
    ) -> webhook_pb2.WebhookEndpoint:
        """Change an endpoint."""
        by = await endpoints.find_operator_actor(self._app, request.id)
        spec = codec.parse_endpoint_changes(request)
        return codec.to_endpoint_with_keys(await endpoints.update(self._app, by, request.id, spec))

    async def DeleteWebhookEndpoint(
        self, request: webhook_pb2.DeleteWebhookEndpointRequest, context: Any
    ) -> webhook_pb2.DeleteWebhookEndpointResponse:
        """Delete an endpoint."""
        by = await endpoints.find_operator_actor(self._app, request.id)
        await endpoints.delete(self._app, by, request.id)
        return webhook_pb2.DeleteWebhookEndpointResponse(id=request.id, deleted=True)

    async def RotateWebhookSecret(
        self, request: webhook_pb2.RotateWebhookSecretRequest, context: Any
    ) -> webhook_pb2.WebhookEndpointSecret:
        """Rotate the secret of an endpoint."""
        by = await endpoints.find_operator_actor(self._app, request.id)
        overlap_s = request.overlap_seconds if request.HasField("overlap_seconds") else None
        return codec.to_endpoint_secret(
            await endpoints.rotate_secret(self._app, by, request.id, overlap_s)
        )

    async def ListWebhookAttempts(
        self, request: webhook_pb2.ListWebhookAttemptsRequest, context: Any
    ) -> webhook_pb2.ListWebhookAttemptsResponse:
        """List the last attempts of an endpoint."""
        by = await endpoints.find_operator_actor(self._app, request.id)
        payment_id = request.payment_id if request.HasField("payment_id") else None
        attempts = await endpoints.list_attempts(self._app, by, request.id, payment_id)
        return webhook_pb2.ListWebhookAttemptsResponse(
            attempts=[codec.to_attempt(attempt) for attempt in attempts]
        )

    async def ReplayWebhook(
        self, request: webhook_pb2.ReplayWebhookRequest, context: Any
    ) -> webhook_pb2.ReplayWebhookResponse:
        """Deliver the changes of a payment again."""
        by = await endpoints.find_operator_actor(self._app, request.id)
        newest = await replays.replay_payment(
            self._app, by, request.id, request.payment_id, request.from_version
        )
        return webhook_pb2.ReplayWebhookResponse(payment_id=request.payment_id, to_version=newest)

    async def ReplayWebhooksSince(
        self, request: webhook_pb2.ReplayWebhooksSinceRequest, context: Any
    ) -> webhook_pb2.ReplayWebhooksSinceResponse:
        """Deliver a page of all events since a time again."""
        by = await endpoints.find_operator_actor(self._app, request.id)
        done = await replays.replay_since(
            self._app, by, request.id, codec.parse_replay_spec(request)
        )
        return codec.to_replay_response(done)
