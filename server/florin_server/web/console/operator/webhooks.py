"""Webhook endpoints of all partners, and their delivery attempts."""

from __future__ import annotations

from urllib.parse import quote

from florin.v1 import webhook_admin_pb2, webhook_pb2
from grpc_rest_gateway.plain import PlainResponse

from florin_server.web.console.confirmation import ActionConfirmation
from florin_server.web.console.site import ConsoleRequest
from florin_server.web.console.undo import make_pause_offer

PATH = "/console/webhooks"
ENDPOINT_PATH = "/console/webhooks/{endpoint_id}"


async def show(console_request: ConsoleRequest) -> PlainResponse:
    """List the endpoints; on request, only the paused ones."""
    paused = console_request.query.get("paused") == "1"
    request = webhook_admin_pb2.ListPartnerEndpointsRequest(
        paused=paused, cursor=console_request.query.get("cursor", "")
    )
    response = await console_request.call("OperatorService.ListWebhookEndpoints", request)
    return console_request.render_page(
        "operator/webhooks",
        console_request.texts.plain("nav.webhooks"),
        response=response,
        paused=paused,
    )


async def show_attempts(console_request: ConsoleRequest) -> PlainResponse:
    """Show the delivery attempts of an endpoint."""
    endpoint_id = console_request.get_path_variable("endpoint_id")
    request = webhook_pb2.ListWebhookAttemptsRequest(id=endpoint_id)
    past = await console_request.call("OperatorService.ListWebhookAttempts", request)
    return console_request.render_page(
        "operator/webhook",
        console_request.texts.plain("endpoint.title", id=endpoint_id),
        attempts=past.attempts,
    )


async def confirm_pause(console_request: ConsoleRequest) -> ActionConfirmation | None:
    """Ask before an endpoint is paused; resuming needs no question."""
    if console_request.form.text("paused") != "1":
        return None
    texts = console_request.texts
    return ActionConfirmation(
        title=texts.plain("endpoint.pause.ask"),
        button=texts.plain("endpoint.pause.button"),
        back=PATH,
        facts=((texts.plain("endpoint"), console_request.get_path_variable("endpoint_id")),),
        warning=texts.plain("endpoint.pause.warning_owner"),
    )


async def pause(console_request: ConsoleRequest) -> PlainResponse:
    """Pause or resume the deliveries of an endpoint."""
    endpoint_id = console_request.get_path_variable("endpoint_id")
    paused = console_request.form.text("paused") == "1"
    request = webhook_pb2.UpdateWebhookEndpointRequest(id=endpoint_id, paused=paused)
    await console_request.call("OperatorService.UpdateWebhookEndpoint", request)
    path = ENDPOINT_PATH.format(endpoint_id=quote(endpoint_id, ""))
    offer = make_pause_offer(f"{path}/pause", paused=paused)
    return console_request.redirect_with_undo(PATH, offer)
