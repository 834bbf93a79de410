"""Endpoints of all partners: which are paused, and what became of each attempt."""

from __future__ import annotations

from florin.v1 import webhook_admin_pb2, webhook_pb2
from florin_gateway.plain import PlainAnswer

from florin_server.web.console.site import Visit

PATH = "/console/webhooks"
ONE = "/console/webhooks/{endpoint_id}"


async def show(visit: Visit) -> PlainAnswer:
    """All of them, or those that are paused."""
    paused = visit.query.get("paused") == "1"
    request = webhook_admin_pb2.ListPartnerEndpointsRequest(
        paused=paused, cursor=visit.query.get("cursor", "")
    )
    found = await visit.ask("OperatorService.ListWebhookEndpoints", request)
    return visit.page("operator/webhooks", "Webhooks", found=found, paused=paused)


async def one(visit: Visit) -> PlainAnswer:
    """What became of each attempt to tell one of something."""
    endpoint_id = visit.path("endpoint_id")
    request = webhook_pb2.ListWebhookAttemptsRequest(id=endpoint_id)
    past = await visit.ask("OperatorService.ListWebhookAttempts", request)
    return visit.page(
        "operator/webhook",
        f"Endpoint {endpoint_id}",
        attempts=past.attempts,
    )


async def pause(visit: Visit) -> PlainAnswer:
    """Has one told nothing, or everything that waits."""
    endpoint_id = visit.path("endpoint_id")
    paused = visit.form.text("paused") == "1"
    request = webhook_pb2.UpdateWebhookEndpointRequest(id=endpoint_id, paused=paused)
    await visit.ask("OperatorService.UpdateWebhookEndpoint", request)
    return visit.see(PATH)
