"""The operator's calls about webhooks: what owners do, for any of them."""

from __future__ import annotations

from typing import Any

from florin.v1 import webhook_admin_pb2, webhook_pb2

from florin_server.domain.webhooks.endpoint import EndpointState
from florin_server.flows.app import App
from florin_server.flows.webhooks import endpoints, replays
from florin_server.flows.webhooks.endpoints import PAGE
from florin_server.rpc.webhooks import codec


class WebhookCalls:
    """Endpoints of all partners."""

    _app: App

    async def CreateWebhookEndpoint(
        self, request: webhook_admin_pb2.CreatePartnerEndpointRequest, context: Any
    ) -> webhook_pb2.WebhookEndpointSecret:
        """Creates an endpoint and tells its secret."""
        by = await endpoints.by_partner(self._app, request.partner_id, live=request.live)
        asked = request.endpoint
        merchant_id = asked.merchant_id if asked.HasField("merchant_id") else None
        told = await endpoints.create(self._app, by, merchant_id, codec.created(asked))
        return codec.secret(told)

    async def ListWebhookEndpoints(
        self, request: webhook_admin_pb2.ListPartnerEndpointsRequest, context: Any
    ) -> webhook_admin_pb2.ListPartnerEndpointsResponse:
        """Lists endpoints of all partners."""
        found = await endpoints.listed(self._app, None, None, request.cursor)
        return webhook_admin_pb2.ListPartnerEndpointsResponse(
            endpoints=[
                webhook_admin_pb2.PartnerEndpoint(
                    partner_id=one.partner_id, endpoint=codec.endpoint(one)
                )
                for one in found
                if one.state is EndpointState.PAUSED or not request.paused
            ],
            next_cursor=found[-1].id if len(found) == PAGE else "",
        )

    async def UpdateWebhookEndpoint(
        self, request: webhook_pb2.UpdateWebhookEndpointRequest, context: Any
    ) -> webhook_pb2.WebhookEndpoint:
        """Changes an endpoint."""
        by = await endpoints.by_operator(self._app, request.id)
        wanted = codec.changes(request)
        return codec.told(await endpoints.change(self._app, by, request.id, wanted))

    async def DeleteWebhookEndpoint(
        self, request: webhook_pb2.DeleteWebhookEndpointRequest, context: Any
    ) -> webhook_pb2.DeleteWebhookEndpointResponse:
        """Deletes an endpoint."""
        by = await endpoints.by_operator(self._app, request.id)
        await endpoints.delete(self._app, by, request.id)
        return webhook_pb2.DeleteWebhookEndpointResponse(id=request.id, deleted=True)

    async def RotateWebhookSecret(
        self, request: webhook_pb2.RotateWebhookSecretRequest, context: Any
    ) -> webhook_pb2.WebhookEndpointSecret:
        """Gives an endpoint another secret."""
        by = await endpoints.by_operator(self._app, request.id)
        overlap_s = request.overlap_seconds if request.HasField("overlap_seconds") else None
        return codec.secret(await endpoints.rotate(self._app, by, request.id, overlap_s))

    async def ListWebhookAttempts(
        self, request: webhook_pb2.ListWebhookAttemptsRequest, context: Any
    ) -> webhook_pb2.ListWebhookAttemptsResponse:
        """Lists an endpoint's last attempts."""
        by = await endpoints.by_operator(self._app, request.id)
        payment_id = request.payment_id if request.HasField("payment_id") else None
        found = await endpoints.attempts(self._app, by, request.id, payment_id)
        return webhook_pb2.ListWebhookAttemptsResponse(
            attempts=[codec.attempt(one) for one in found]
        )

    async def ReplayWebhook(
        self, request: webhook_pb2.ReplayWebhookRequest, context: Any
    ) -> webhook_pb2.ReplayWebhookResponse:
        """Has changes of a payment told again."""
        by = await endpoints.by_operator(self._app, request.id)
        newest = await replays.one(
            self._app, by, request.id, request.payment_id, request.from_version
        )
        return webhook_pb2.ReplayWebhookResponse(payment_id=request.payment_id, to_version=newest)

    async def ReplayWebhooksSince(
        self, request: webhook_pb2.ReplayWebhooksSinceRequest, context: Any
    ) -> webhook_pb2.ReplayWebhooksSinceResponse:
        """Has a page of all events since a time told again."""
        by = await endpoints.by_operator(self._app, request.id)
        done = await replays.since(self._app, by, request.id, codec.since(request))
        return codec.replayed(done)
