"""WebhookService: who is told of changes."""

from __future__ import annotations

from typing import Any

from florin.v1 import webhook_pb2, webhook_service_pb2_grpc

from florin_server.flows.app import App
from florin_server.flows.webhooks import endpoints, replays, take
from florin_server.flows.webhooks.endpoints import PAGE, By
from florin_server.rpc.server.call import caller
from florin_server.rpc.webhooks import codec


def _by() -> By:
    """Who calls; their version is what a new endpoint is pinned to."""
    one = caller()
    return By(one.partner, one.live, one.standing)


class WebhookServicer(webhook_service_pb2_grpc.WebhookServiceServicer):
    """Calls that a partner's back end makes about its endpoints."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def CreateWebhookEndpoint(
        self, request: webhook_pb2.CreateWebhookEndpointRequest, context: Any
    ) -> webhook_pb2.WebhookEndpointSecret:
        """Creates an endpoint and tells its secret."""
        merchant_id = request.merchant_id if request.HasField("merchant_id") else None
        wanted = codec.created(request)
        return codec.secret(await endpoints.create(self._app, _by(), merchant_id, wanted))

    async def ListWebhookEndpoints(
        self, request: webhook_pb2.ListWebhookEndpointsRequest, context: Any
    ) -> webhook_pb2.ListWebhookEndpointsResponse:
        """Lists endpoints."""
        merchant_id = request.merchant_id if request.HasField("merchant_id") else None
        found = await endpoints.listed(self._app, _by(), merchant_id, request.cursor)
        return webhook_pb2.ListWebhookEndpointsResponse(
            endpoints=[codec.endpoint(one) for one in found],
            next_cursor=found[-1].id if len(found) == PAGE else None,
        )

    async def GetWebhookEndpoint(
        self, request: webhook_pb2.GetWebhookEndpointRequest, context: Any
    ) -> webhook_pb2.WebhookEndpoint:
        """Tells one endpoint."""
        return codec.told(await endpoints.get(self._app, _by(), request.id))

    async def UpdateWebhookEndpoint(
        self, request: webhook_pb2.UpdateWebhookEndpointRequest, context: Any
    ) -> webhook_pb2.WebhookEndpoint:
        """Changes an endpoint."""
        wanted = codec.changes(request)
        return codec.told(await endpoints.change(self._app, _by(), request.id, wanted))

    async def DeleteWebhookEndpoint(
        self, request: webhook_pb2.DeleteWebhookEndpointRequest, context: Any
    ) -> webhook_pb2.DeleteWebhookEndpointResponse:
        """Deletes an endpoint."""
        await endpoints.delete(self._app, _by(), request.id)
        return webhook_pb2.DeleteWebhookEndpointResponse(id=request.id, deleted=True)

    async def RotateWebhookSecret(
        self, request: webhook_pb2.RotateWebhookSecretRequest, context: Any
    ) -> webhook_pb2.WebhookEndpointSecret:
        """Gives an endpoint another secret."""
        overlap_s = request.overlap_seconds if request.HasField("overlap_seconds") else None
        return codec.secret(await endpoints.rotate(self._app, _by(), request.id, overlap_s))

    async def ListWebhookAttempts(
        self, request: webhook_pb2.ListWebhookAttemptsRequest, context: Any
    ) -> webhook_pb2.ListWebhookAttemptsResponse:
        """Lists an endpoint's last attempts."""
        payment_id = request.payment_id if request.HasField("payment_id") else None
        found = await endpoints.attempts(self._app, _by(), request.id, payment_id)
        return webhook_pb2.ListWebhookAttemptsResponse(
            attempts=[codec.attempt(one) for one in found]
        )

    async def ReplayWebhook(
        self, request: webhook_pb2.ReplayWebhookRequest, context: Any
    ) -> webhook_pb2.ReplayWebhookResponse:
        """Has changes of a payment told again."""
        newest = await replays.one(
            self._app, _by(), request.id, request.payment_id, request.from_version
        )
        return webhook_pb2.ReplayWebhookResponse(payment_id=request.payment_id, to_version=newest)

    async def ReplayWebhooksSince(
        self, request: webhook_pb2.ReplayWebhooksSinceRequest, context: Any
    ) -> webhook_pb2.ReplayWebhooksSinceResponse:
        """Has a page of all events since a time told again."""
        done = await replays.since(self._app, _by(), request.id, codec.since(request))
        return codec.replayed(done)

    async def TakeWebhooks(
        self, request: webhook_pb2.TakeWebhooksRequest, context: Any
    ) -> webhook_pb2.TakeWebhooksResponse:
        """Hands out what waits."""
        given = codec.receipts(request)
        found = await take.take(self._app, _by(), request.id, given, request.max_wait_ms)
        return webhook_pb2.TakeWebhooksResponse(events=[codec.taken(one) for one in found])
