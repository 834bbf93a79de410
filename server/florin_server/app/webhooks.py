"""The writer of webhook bodies, and the client that sends them."""

from __future__ import annotations

from florin.v1 import webhook_pb2
from grpc_rest_gateway.jsoncodec import JsonCodec
from grpc_rest_gateway.profiles import JsonProfile

from florin_server.api.webhooks.codec import to_webhook_event
from florin_server.app.core import App
from florin_server.base.outbound.address_policy import AddressPolicy
from florin_server.base.outbound.outbound import SafeHttpClient
from florin_server.features.webhooks.service.message import EventEncoder


def build_event_encoder() -> EventEncoder:
    """Return what writes the bodies of webhooks."""
    show = JsonCodec().get_encoder(webhook_pb2.WebhookEvent.DESCRIPTOR, JsonProfile.SPEC)

    return lambda snapshot: show(to_webhook_event(snapshot))


def build_http_client(app: App) -> SafeHttpClient:
    """Return the HTTP client for endpoints."""
    settings = app.settings.webhooks
    reach = AddressPolicy.from_cidrs(str(network) for network in settings.networks)
    return SafeHttpClient(reach, requests_per_address=settings.host_concurrency)
