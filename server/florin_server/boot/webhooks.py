"""What writes the bodies of webhooks: messages, and their JSON."""

from __future__ import annotations

from collections.abc import Callable

from florin.v1 import webhook_pb2
from florin_gateway.jsoncodec import Codec as JsonCodec
from florin_gateway.profiles import Profile

from florin_server.domain.webhooks.snapshot import PaymentSnapshot
from florin_server.flows.app import App
from florin_server.outbound.outbound import Outbound
from florin_server.outbound.reach import Reach
from florin_server.rpc.webhooks.codec import event


def bodies() -> Callable[[PaymentSnapshot], bytes]:
    """Return what writes the bodies of webhooks."""
    show = JsonCodec().encoder(webhook_pb2.WebhookEvent.DESCRIPTOR, Profile.SPEC)

    return lambda snapshot: show(event(snapshot))


def outbound(app: App) -> Outbound:
    """Who asks endpoints."""
    settings = app.settings.webhooks
    reach = Reach.of(str(network) for network in settings.networks)
    return Outbound(reach, per_address=settings.host_concurrency)
