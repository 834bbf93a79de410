"""What writes the bodies of webhooks: answers of the API, and their JSON."""

from __future__ import annotations

from collections.abc import Callable

from florin.v1 import webhook_pb2
from florin_gateway.jsoncodec import Codec as JsonCodec
from florin_gateway.profiles import Profile

from florin_server.domain.webhooks.past import Past
from florin_server.flows.app import App
from florin_server.outbound.outbound import Outbound
from florin_server.outbound.reach import Reach
from florin_server.rpc.payments.codec import Codec
from florin_server.rpc.webhooks.codec import event


def bodies(app: App) -> Callable[[Past], bytes]:
    """Writes events as REST answers the payments in them."""
    answers = Codec(app)
    show = JsonCodec().encoder(webhook_pb2.WebhookEvent.DESCRIPTOR, Profile.SPEC)

    return lambda past: show(event(answers, past))


def outbound(app: App) -> Outbound:
    """Who asks endpoints."""
    return Outbound(Reach.of(str(one) for one in app.settings.webhooks.networks))
