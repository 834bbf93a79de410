"""A partner's webhook endpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from florin.v1 import webhook_pb2
from grpc_rest_gateway.errors import RefusedError
from grpc_rest_gateway.plain import PlainResponse

from florin_server.domain.webhooks.endpoint import ALL_TYPES, EVENT_TYPES, expand_types
from florin_server.web.console.confirmation import ActionConfirmation
from florin_server.web.console.fields import parse_choice, parse_timestamp
from florin_server.web.console.merchant import payments
from florin_server.web.console.refusals import describe_refusal
from florin_server.web.console.site import ConsoleRequest
from florin_server.web.console.undo import make_pause_offer

PATH = "/console/webhooks"
ENDPOINT_PATH = "/console/webhooks/{endpoint_id}"
_FIELDS = ("url", "merchant", "description")
_OVERLAPS = {"day": None, "none": 0}
# the most pages of the API that one form requests
_PAGES = 10
_RATE_LIMITED_STATUS = 429


async def show(console_request: ConsoleRequest) -> PlainResponse:
    """List the endpoints, with the form of a new endpoint."""
    merchant = console_request.query.get("merchant", "")
    return await _render_list(
        console_request, {**dict.fromkeys(_FIELDS, ""), "merchant": merchant}, ()
    )


async def create(console_request: ConsoleRequest) -> PlainResponse:
    """Create an endpoint and show its secret once; show the form again if it is refused."""
    values = {name: console_request.form.text(name) for name in _FIELDS}
    events = console_request.form.texts("event")
    request = webhook_pb2.CreateWebhookEndpointRequest(
        url=values["url"],
        merchant_id=values["merchant"] or None,
        events=events,
        description=values["description"],
    )
    try:
        endpoint = await console_request.call("WebhookService.CreateWebhookEndpoint", request)
    except RefusedError as refused:
        if refused.status in {401, 403}:
            raise
        return await _render_list(console_request, values, events, refused)
    return _render_secret(console_request, console_request.texts.plain("endpoint.new"), endpoint)


async def show_endpoint(console_request: ConsoleRequest) -> PlainResponse:
    """Show an endpoint, its status and its delivery attempts."""
    endpoint_id = console_request.get_path_variable("endpoint_id")
    request = webhook_pb2.GetWebhookEndpointRequest(id=endpoint_id)
    endpoint = await console_request.call("WebhookService.GetWebhookEndpoint", request)
    attempts_request = webhook_pb2.ListWebhookAttemptsRequest(id=endpoint_id)
    past = await console_request.call("WebhookService.ListWebhookAttempts", attempts_request)
    return console_request.render_page(
        "merchant/webhook",
        console_request.texts.plain("endpoint.title", id=endpoint.id),
        endpoint=endpoint,
        attempts=past.attempts,
        received=[
            event_type for event_type in EVENT_TYPES if event_type in expand_types(endpoint.events)
        ],
        path=build_path(endpoint.id),
    )


async def confirm_pause(console_request: ConsoleRequest) -> ActionConfirmation | None:
    """Ask before an endpoint is paused; resuming needs no question."""
    if console_request.form.text("paused") != "1":
        return None
    return await _confirm(console_request, "endpoint.pause", "endpoint.pause.warning")


async def confirm_rotate(console_request: ConsoleRequest) -> ActionConfirmation:
    """Ask before the secret of an endpoint is rotated."""
    overlap = parse_choice(console_request.form.text("overlap"), _OVERLAPS, "overlap")
    return await _confirm(
        console_request,
        "secret.rotate",
        "secret.rotate.at_once" if overlap == 0 else "secret.rotate.overlap",
    )


async def confirm_remove(console_request: ConsoleRequest) -> ActionConfirmation:
    """Ask before an endpoint is deleted."""
    return await _confirm(console_request, "endpoint.delete", "endpoint.delete.warning")


async def _confirm(console_request: ConsoleRequest, key: str, warning: str) -> ActionConfirmation:
    """Return the question of an action; `key` begins the keys of its messages."""
    texts = console_request.texts
    request = webhook_pb2.GetWebhookEndpointRequest(
        id=console_request.get_path_variable("endpoint_id")
    )
    endpoint = await console_request.call("WebhookService.GetWebhookEndpoint", request)
    return ActionConfirmation(
        title=texts.plain(f"{key}.ask"),
        button=texts.plain(f"{key}.button"),
        back=build_path(endpoint.id),
        facts=(
            (texts.plain("endpoint"), endpoint.url or texts.plain("endpoint.fetched")),
            (texts.plain("description"), endpoint.description or texts.plain("none")),
            (texts.plain("id"), endpoint.id),
        ),
        warning=texts.plain(warning),
    )


async def pause(console_request: ConsoleRequest) -> PlainResponse:
    """Pause or resume the deliveries of an endpoint."""
    endpoint_id = console_request.get_path_variable("endpoint_id")
    paused = console_request.form.text("paused") == "1"
    request = webhook_pb2.UpdateWebhookEndpointRequest(id=endpoint_id, paused=paused)
    await console_request.call("WebhookService.UpdateWebhookEndpoint", request)
    page = build_path(endpoint_id)
    offer = make_pause_offer(f"{page}/pause", paused=paused)
    return console_request.redirect_with_undo(page, offer)


async def rotate(console_request: ConsoleRequest) -> PlainResponse:
    """Rotate the secret of an endpoint and show the new one once."""
    request = webhook_pb2.RotateWebhookSecretRequest(
        id=console_request.get_path_variable("endpoint_id"),
        overlap_seconds=parse_choice(console_request.form.text("overlap"), _OVERLAPS, "overlap"),
    )
    endpoint = await console_request.call("WebhookService.RotateWebhookSecret", request)
    return _render_secret(console_request, console_request.texts.plain("secret.new"), endpoint)


async def remove(console_request: ConsoleRequest) -> PlainResponse:
    """Delete an endpoint with its queued events."""
    request = webhook_pb2.DeleteWebhookEndpointRequest(
        id=console_request.get_path_variable("endpoint_id")
    )
    await console_request.call("WebhookService.DeleteWebhookEndpoint", request)
    return console_request.redirect_to(PATH)


async def replay(console_request: ConsoleRequest) -> PlainResponse:
    """Replay the events of a payment."""
    endpoint_id = console_request.get_path_variable("endpoint_id")
    request = webhook_pb2.ReplayWebhookRequest(
        id=endpoint_id, payment_id=console_request.form.text("payment")
    )
    await console_request.call("WebhookService.ReplayWebhook", request)
    return console_request.redirect_to(build_path(endpoint_id))


async def replay_since(console_request: ConsoleRequest) -> PlainResponse:
    """Replay events since a time, some pages at once; a form continues with the rest."""
    form = console_request.form
    request = webhook_pb2.ReplayWebhooksSinceRequest(
        id=console_request.get_path_variable("endpoint_id"),
        since=parse_timestamp(form.text("since")),
        events=form.texts("event"),
        cursor=form.text("cursor") or None,
    )
    count, problem = 0, ""
    for _ in range(_PAGES):
        try:
            page = await console_request.call("WebhookService.ReplayWebhooksSince", request)
        except RefusedError as refused:
            if refused.status != _RATE_LIMITED_STATUS:
                raise
            problem = describe_refusal(refused, console_request.texts)
            break
        count += page.payments
        request.cursor = page.next_cursor
        if not page.next_cursor:
            break
    return console_request.render_page(
        "merchant/webhook_replayed",
        console_request.texts.plain("replay.title"),
        count=count,
        problem=problem,
        since=form.text("since"),
        events=request.events,
        cursor=request.cursor,
        path=build_path(request.id),
    )


def build_path(endpoint_id: str) -> str:
    """Return the path of an endpoint's page."""
    return ENDPOINT_PATH.format(endpoint_id=quote(endpoint_id, ""))


async def _render_list(
    console_request: ConsoleRequest,
    values: Mapping[str, str],
    events: Sequence[str],
    error: RefusedError | None = None,
) -> PlainResponse:
    merchant = console_request.query.get("merchant", "")
    request = webhook_pb2.ListWebhookEndpointsRequest(
        merchant_id=merchant or None, cursor=console_request.query.get("cursor")
    )
    response = await console_request.call("WebhookService.ListWebhookEndpoints", request)
    return console_request.render_page(
        "merchant/webhooks",
        console_request.texts.plain("nav.webhooks"),
        200 if error is None else error.status,
        response=response,
        merchant=merchant,
        merchants=await payments.list_merchants(console_request),
        types=(*EVENT_TYPES, ALL_TYPES),
        values=values,
        events=events,
        problem="" if error is None else describe_refusal(error, console_request.texts),
    )


def _render_secret(
    console_request: ConsoleRequest, title: str, endpoint_secret: webhook_pb2.WebhookEndpointSecret
) -> PlainResponse:
    return console_request.render_page(
        "merchant/webhook_secret",
        title,
        endpoint=endpoint_secret.endpoint,
        secret=endpoint_secret.secret,
        path=build_path(endpoint_secret.endpoint.id),
    )
