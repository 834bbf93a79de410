"""A partner's endpoints: where its back ends are told of changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from florin.v1 import webhook_pb2
from florin_gateway.errors import RefusedError
from florin_gateway.plain import PlainAnswer

from florin_server.domain.webhooks.endpoint import ALL_TYPES, EVENT_TYPES, expand_types
from florin_server.web.console.fields import chosen, moment
from florin_server.web.console.merchant import payments
from florin_server.web.console.site import Visit, told_of

PATH = "/console/webhooks"
ONE = "/console/webhooks/{endpoint_id}"
_FIELDS = ("url", "merchant", "description")
_OVERLAPS = {"day": None, "none": 0}
# of the API that one form asks for
_PAGES = 10
_FULL = 429


async def show(visit: Visit) -> PlainAnswer:
    """Endpoints, and the form of a new one."""
    merchant = visit.query.get("merchant", "")
    return await _list(visit, {**dict.fromkeys(_FIELDS, ""), "merchant": merchant}, ())


async def create(visit: Visit) -> PlainAnswer:
    """Makes one, and shows its secret, this once; the form comes again with what is wrong in it."""
    given = {name: visit.form.text(name) for name in _FIELDS}
    events = visit.form.texts("event")
    request = webhook_pb2.CreateWebhookEndpointRequest(
        url=given["url"],
        merchant_id=given["merchant"] or None,
        events=events,
        description=given["description"],
    )
    try:
        made = await visit.ask("WebhookService.CreateWebhookEndpoint", request)
    except RefusedError as refused:
        if refused.status in {401, 403}:
            raise
        return await _list(visit, given, events, refused)
    return _secret(visit, "New endpoint", made)


async def one(visit: Visit) -> PlainAnswer:
    """An endpoint, how it does, and what became of each attempt."""
    endpoint_id = visit.path("endpoint_id")
    request = webhook_pb2.GetWebhookEndpointRequest(id=endpoint_id)
    found = await visit.ask("WebhookService.GetWebhookEndpoint", request)
    asked = webhook_pb2.ListWebhookAttemptsRequest(id=endpoint_id)
    past = await visit.ask("WebhookService.ListWebhookAttempts", asked)
    return visit.page(
        "merchant/webhook",
        f"Endpoint {found.id}",
        endpoint=found,
        attempts=past.attempts,
        received=[one for one in EVENT_TYPES if one in expand_types(found.events)],
        path=path_of(found.id),
    )


async def pause(visit: Visit) -> PlainAnswer:
    """Has it told nothing, or everything that waits."""
    endpoint_id = visit.path("endpoint_id")
    paused = visit.form.text("paused") == "1"
    request = webhook_pb2.UpdateWebhookEndpointRequest(id=endpoint_id, paused=paused)
    await visit.ask("WebhookService.UpdateWebhookEndpoint", request)
    return visit.see(path_of(endpoint_id))


async def rotate(visit: Visit) -> PlainAnswer:
    """Gives it another secret, and shows that, this once."""
    request = webhook_pb2.RotateWebhookSecretRequest(
        id=visit.path("endpoint_id"),
        overlap_seconds=chosen(visit.form.text("overlap"), _OVERLAPS, "overlap"),
    )
    made = await visit.ask("WebhookService.RotateWebhookSecret", request)
    return _secret(visit, "New secret", made)


async def remove(visit: Visit) -> PlainAnswer:
    """Deletes it, with all that waits for it."""
    request = webhook_pb2.DeleteWebhookEndpointRequest(id=visit.path("endpoint_id"))
    await visit.ask("WebhookService.DeleteWebhookEndpoint", request)
    return visit.see(PATH)


async def replay(visit: Visit) -> PlainAnswer:
    """Has events of a payment told again."""
    endpoint_id = visit.path("endpoint_id")
    request = webhook_pb2.ReplayWebhookRequest(
        id=endpoint_id, payment_id=visit.form.text("payment")
    )
    await visit.ask("WebhookService.ReplayWebhook", request)
    return visit.see(path_of(endpoint_id))


async def replay_since(visit: Visit) -> PlainAnswer:
    """Has events since a time told again, a few pages of them; the rest is one more form away."""
    form = visit.form
    request = webhook_pb2.ReplayWebhooksSinceRequest(
        id=visit.path("endpoint_id"),
        since=moment(form.text("since"), "since"),
        events=form.texts("event"),
        cursor=form.text("cursor") or None,
    )
    count, problem = 0, ""
    for _ in range(_PAGES):
        try:
            page = await visit.ask("WebhookService.ReplayWebhooksSince", request)
        except RefusedError as refused:
            if refused.status != _FULL:
                raise
            problem = told_of(refused)
            break
        count += page.payments
        request.cursor = page.next_cursor
        if not page.next_cursor:
            break
    return visit.page(
        "merchant/webhook_replayed",
        "Told again",
        count=count,
        problem=problem,
        since=form.text("since"),
        events=request.events,
        cursor=request.cursor,
        path=path_of(request.id),
    )


def path_of(endpoint_id: str) -> str:
    """Where the page of an endpoint is."""
    return ONE.format(endpoint_id=quote(endpoint_id, ""))


async def _list(
    visit: Visit,
    given: Mapping[str, str],
    events: Sequence[str],
    refused: RefusedError | None = None,
) -> PlainAnswer:
    merchant = visit.query.get("merchant", "")
    request = webhook_pb2.ListWebhookEndpointsRequest(
        merchant_id=merchant or None, cursor=visit.query.get("cursor")
    )
    found = await visit.ask("WebhookService.ListWebhookEndpoints", request)
    return visit.page(
        "merchant/webhooks",
        "Webhooks",
        200 if refused is None else refused.status,
        found=found,
        merchant=merchant,
        merchants=await payments.merchants(visit),
        types=(*EVENT_TYPES, ALL_TYPES),
        given=given,
        events=events,
        problem="" if refused is None else told_of(refused),
    )


def _secret(visit: Visit, title: str, made: webhook_pb2.WebhookEndpointSecret) -> PlainAnswer:
    return visit.page(
        "merchant/webhook_secret",
        title,
        endpoint=made.endpoint,
        secret=made.secret,
        path=path_of(made.endpoint.id),
    )
